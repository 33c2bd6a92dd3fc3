import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FailedShare } from './failed-share.ts'

const cases = [
  ['an answer', 'answered', 200, '1 0'],
  ['no target', 'refused', 503, '1 1'],
  ['an upstream error', 'refused', 502, '1 1'],
  ['a broken answer', 'interrupted', 200, '1 1'],
  ['a spent budget', 'refused', 402, '0 0'],
  ['a request error', 'refused', 400, '0 0'],
  ['a client that left', 'client_gone', 499, '0 0'],
] as const

for (const [name, outcome, status, expected] of cases)
  test(`failed share: ${name}`, () => {
    const share = new FailedShare()
    share.add(1_000, { outcome, status })
    const { all, failed } = share.sum(2_000, 60_000)
    assert.equal(`${all} ${failed}`, expected)
  })

test('failed share: counts the window, and keeps an hour', () => {
  const share = new FailedShare()
  for (let at = 0; at < 7_200_000; at += 1_000) share.add(at, { outcome: 'answered', status: 200 })
  assert.equal(share.sum(7_199_000, 60_000).all, 60)
  assert.equal(share.sum(7_199_000, 86_400_000).all, 3_600)
})
