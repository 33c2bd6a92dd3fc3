import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { newRequestId, requestIds } from './request-id.ts'

test('request IDs: those of one second are neighbours, and follow those of earlier seconds', () => {
  mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 })
  try {
    const seconds = Array.from({ length: 60 }, () => {
      mock.timers.tick(1_000)
      // More than are made at once.
      return Array.from({ length: 300 }, newRequestId)
    })
    const all = seconds.flat()
    assert.equal(new Set(all).size, all.length)
    for (const id of all) assert.match(id, /^req_[a-z]{20}$/)
    const prefixes = all.map((id) => id.slice(0, 11))
    assert.deepEqual(prefixes, prefixes.toSorted())
    assert.ok(new Set(prefixes).size > 50)
  } finally {
    mock.timers.reset()
  }
})

test('request IDs: a request whose client names it has one of the gateway too', () => {
  const [one, other] = [requestIds('mine'), requestIds('mine')]
  assert.deepEqual([one.id, other.id], ['mine', 'mine'])
  assert.match(one.ownId ?? '', /^req_[a-z]{20}$/)
  assert.notEqual(one.ownId, other.ownId)
  for (const unusable of [undefined, '', 'a b', 'x'.repeat(129), `sk-${'a1B2'.repeat(12)}`])
    assert.deepEqual(Object.keys(requestIds(unusable)), ['id'], `${unusable}`)
})
