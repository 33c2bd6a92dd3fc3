import assert from 'node:assert/strict'
import { test } from 'node:test'
import { derivedCallId, digest, shortId } from './call-ids.ts'

test('shortId: the ID itself, or a digest within the limit', () => {
  assert.equal(shortId('call_1'), 'call_1')
  assert.equal(shortId('x'.repeat(64)), 'x'.repeat(64))
  const long = 'x'.repeat(900)
  assert.match(shortId(long), /^call_[0-9a-z]{40}$/)
  assert.equal(shortId('x'.repeat(41), 40).length, 40)
  assert.equal(shortId(long), shortId(long))
  assert.notEqual(shortId(long), shortId(`${long}y`))
})

test('digest: similar texts have different digests', () => {
  const made = new Set(Array.from({ length: 20_000 }, (_, index) => digest(`call_${index}`)))
  assert.equal(made.size, 20_000)
  for (const each of made) assert.match(each, /^[0-9a-z]{40}$/)
})

test('derivedCallId: distinguishes where its parts are split', () => {
  assert.match(derivedCallId('a', 1), /^call_[0-9a-z]{24}$/)
  assert.equal(derivedCallId('a', 1), derivedCallId('a', 1))
  assert.notEqual(derivedCallId('a', 'bc'), derivedCallId('ab', 'c'))
})
