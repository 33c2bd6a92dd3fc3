/** Accounts for tests: without budgets, prices and journal, unless a test gives them. */
import type { AccountLimits, Budget, Client } from '../../src/core/accounts.ts'
import { ANONYMOUS, NO_LIMITS } from '../../src/core/accounts.ts'
import type { JournalListener, JournalRecord, JournalResult } from '../../src/core/journal.ts'
import type { World } from '../../src/core/world.ts'
import { Accounts, type AccountsOptions } from '../../src/gateway/accounts/accounts.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { sessionLetters } from '../../src/server/session-letters.ts'

export const testAccounts = (world: World, more: Partial<AccountsOptions> = {}): Accounts =>
  new Accounts({
    world,
    budgets: () => NO_BUDGETS,
    prices: () => NO_PRICES,
    journal: () => null,
    rules: () => RULES,
    sessionLetters,
    ...more,
  })

const NO_BUDGETS: ReturnType<AccountsOptions['budgets']> = []
const NO_PRICES = priceBook(() => undefined, [])
const RULES = {
  maxOutput: 32_768,
  unknownPrice: 'dearest',
  whenUnknown: 'serve',
  endUser: false,
  guessSessions: false,
} as const

/** A hard budget of all calls in the month. */
export const testBudget = (amount: number, more: Partial<Budget> = {}): Budget => ({
  id: 'bud_test',
  name: 'research',
  amount,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null },
  per: 'all',
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  alerts: [],
  managed: 'file',
  ...more,
})

/** A client with a key. */
export const testClient = (limits: Partial<AccountLimits> = {}, id = 'key_test'): Client => ({
  ...ANONYMOUS,
  id,
  owner: id,
  name: 'test',
  limits: [{ id, limits: { ...NO_LIMITS, ...limits } }],
})

/** A journal in memory, which returns this result for the attempts of one turn in the next, in their order. */
export const memoryJournal = (world: Pick<World, 'later'>, result: JournalResult = 'accepted') => {
  const records: JournalRecord[] = []
  let waiting: JournalListener[] = []
  const report = () => {
    const listeners = waiting
    waiting = []
    for (const { onJournaled } of listeners) onJournaled(result)
  }
  return {
    records,
    endTurn: report,
    journal: {
      openAttempt: (record, listener) => {
        if (result !== 'refused') records.push(record)
        if (waiting.length === 0) world.later(0, report)
        waiting.push(listener)
      },
      append: (record) => records.push(record),
    } satisfies ReturnType<AccountsOptions['journal']>,
  }
}
