/** Counting the period of a budget while usage is stored: batches do not wait for it, and its sums are exact. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import { given, OWN, storeAll } from '../../../test/support/bookkeeping.ts'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { budgetCharge, chargeList } from '../../core/journal.ts'
import { counterOwner } from '../../policy/accounts/budget-scope.ts'

const DAY = 86_400_000
const budget = testBudget(1_000_000, { id: 'bud_new', countFrom: 'period' })
const CLIENT = { id: 'key_a', team: { id: 'team_a' }, user: null, tags: {} }
const COUNTER = `bud_new:${counterOwner(budget, CLIENT, { endUser: '', session: null })}`
const START = NOON - 300 * DAY

/** A request a day, or more attempts of one; `counters`: what its attempts are charged to. */
const request = (call: number, counters: readonly string[], attempts = 1) => {
  const received = NOON - (call % 290) * DAY
  const charges = chargeList(counters.map((counter) => budgetCharge(counter, START)))
  return [
    ...Array.from({ length: attempts }, (_, attempt) => [
      openedRecord(call, { attempt, at: received, charges }),
      closedRecord(call, { attempt, at: received, ...(attempt < attempts - 1 && { outcome: 'failed' as const }) }),
    ]).flat(),
    endedRecord(call, { received, at: received + 100 }),
  ]
}

onEachEngine((engine) => {
  const name = (text: string) => `period count: ${text} (${engine.name})`
  const spentOf = (sums: readonly { readonly counter: string; readonly spent: number }[]) =>
    sums.filter(({ counter }) => counter === COUNTER).map(({ spent }) => spent)

  test(name('requests that are stored meanwhile count once'), async () => {
    const { open, write } = given(engine)
    const bookkeeper = open()
    // Some have two attempts, which are read from the list of attempts.
    write(OWN, Array.from({ length: 40 }, (_, call) => request(call, ['bud_a:all'], 1 + (call % 2))).flat())
    await storeAll(bookkeeper)
    const counted = [{ budget, start: START }]
    const counting = bookkeeper.sums(START, counted)
    // Asked again before it is complete, it is not counted again.
    const again = bookkeeper.sums(START, counted)
    for (let call = 40; call < 60; call++) {
      write(OWN, request(call, ['bud_a:all', COUNTER]))
      await storeAll(bookkeeper)
    }
    await counting
    await again
    const charged = 70 * (20 + 20 * 2 + 20)
    assert.deepEqual(spentOf(await bookkeeper.sums(START, counted)), [charged])
    assert.deepEqual(spentOf(await bookkeeper.sums(START, [])), [charged])
  })
})
