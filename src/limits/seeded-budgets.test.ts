import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { testBudget } from '../../test/support/accounts.ts'
import { SeededBudgets } from './seeded-budgets.ts'

test('each call before earlier usage is read waits for it', async () => {
  const reading = Promise.withResolvers<never[]>()
  const seeded = new SeededBudgets({
    counters: {
      setBudgets() {},
      raise() {},
      adopt() {},
      setUnread() {},
      started: async () => {},
    },
    budgets: () => [testBudget(1_000_000, { countFrom: 'period' })],
    ledger: { spentSince: () => reading.promise },
    isRecorded: () => true,
    date: () => 0,
    later: () => () => {},
    onProblem() {},
    onRestored() {},
  })
  const done: string[] = []
  const calls = ['keys were read', 'start'].map((name) => seeded.changed().then(() => done.push(name)))
  await turn()
  assert.deepEqual(done, [])
  assert.notEqual(seeded.unknown(), null)
  reading.resolve([])
  await Promise.all(calls)
  assert.equal(seeded.unknown(), null)
})
