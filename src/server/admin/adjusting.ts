/** Stores adjustments: corrections of what budgets have spent, or of costs. Each is a row of the ledger; no row is changed. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { randomLetters } from '../../gateway/call/ids.ts'
import type { Adjusted, Adjustment } from '../../usage/bookkeeper/ledger-store.ts'
import type { AdminDeps } from './deps.ts'
import { lettersOf } from './letters.ts'
import type { AdminCall } from './row.ts'

/** What an adjustment corrects: a counter of a budget in a period, a key, or neither. */
export type Correction = Pick<Adjustment, 'amount' | 'reason'> &
  Partial<Pick<Adjustment, 'budget' | 'counter' | 'period_start' | 'key'>>

/** An adjustment as stored. `isNew`: false if the request was a repetition. */
export type StoredAdjustment = Adjusted & { readonly id: string; readonly at: number; readonly actor: string }

/**
 * Stores an adjustment, and changes the counter in all processes. A repetition with the same Idempotency-Key
 * returns the first one. `part`: distinguishes several adjustments of one request.
 */
export const storeAdjustment = async (
  { gateway, ledger }: Pick<AdminDeps, 'gateway' | 'ledger'>,
  { actor, idempotencyKey, request }: Pick<AdminCall, 'actor' | 'idempotencyKey' | 'request'>,
  { budget = null, counter = null, period_start = null, key = null, ...correction }: Correction,
  part = '',
): Promise<Outcome<StoredAdjustment>> => {
  if (!gateway.config().settings.usage.ledger) return bad(NO_LEDGER)
  if (!actor) throw new Error('an adjustment has no actor')
  const at = gateway.world.date()
  const repeated = idempotencyKey === null ? null : [actor.kind, actor.id, idempotencyKey, request.path, part]
  const id = `adj_${repeated ? lettersOf(JSON.stringify(repeated), 12) : randomLetters(gateway.world, 12)}`
  const amount = await amountOf(gateway, { counter, period_start, amount: correction.amount })
  if (amount === null) return bad(UNKNOWN_TOTAL)
  const { reason } = correction
  const corrected = counter === null || period_start === null ? null : { counter, period_start }
  const stored = await ledger.adjust({ id, at, budget, counter, period_start, key, amount, reason, actor: actor.id })
  if (typeof stored === 'string') return bad(unstored(stored))
  if (!stored.isNew && correction.amount !== 'reset' && stored.amount !== correction.amount) return bad(KEY_REUSED)
  if (stored.isNew && corrected) await gateway.accounts.adjust({ ...corrected, spent: stored.amount })
  return good({ ...stored, id, at, actor: actor.id })
}

/**
 * A reset is minus what all gateways have spent: the ledger has only what was recorded. Null: their store does not answer, so
 * the total is not known and a correction would not reach it.
 */
const amountOf = async (
  gateway: AdminDeps['gateway'],
  { counter, period_start, amount }: Pick<Adjustment, 'counter' | 'period_start' | 'amount'>,
): Promise<Adjustment['amount'] | null> => {
  const { redis, database } = gateway.config().settings
  if (counter === null || (redis.url ?? database.url) === undefined) return amount
  const { states, authority } = await gateway.accounts.budgetFigures()
  if (authority !== 'ok') return null
  if (amount !== 'reset') return amount
  const state = states.find(
    ({ budget, owner, periodStart }) => `${budget.id}:${owner}` === counter && periodStart === period_start,
  )
  return 0 - (state?.spent ?? 0)
}

const UNKNOWN_TOTAL = fail(
  'storage',
  'What all gateways have spent of the budget cannot be read or corrected, because the store of their counters (redis.url, or without it database.url) does not answer. Retry later.',
  { retryAfter: 2_000 },
)

const NO_LEDGER = fail(
  'record_conflict',
  'Usage is not recorded (usage.ledger is false), so there is nothing to adjust. Record it, or change the amount of the budget.',
)

const KEY_REUSED = fail('idempotency_key_reused', 'This idempotency key was sent with another amount. Send a new key.')

const unstored = (problem: string) =>
  fail('storage', `The adjustment cannot be stored: ${problem}. Check the data folder (DATA_DIR), then retry.`, {
    retryAfter: 2_000,
  })
