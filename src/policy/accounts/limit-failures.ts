/**
 * The failure that a client receives when one of its own limits or budgets refuses a request. Neither amounts nor times of
 * day are part of the message: some clients search errors for numbers that look like a status.
 */
import type { Budget, PeriodName } from '../../core/accounts.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { type BudgetCounter, type LimitRefusal, remainingOf } from './attempt-admission.ts'
import { dayIn, END_OF_TIME } from './period.ts'
import { standingOf } from './spend-standing.ts'

/** The counter that refuses, its budget, and the end of its period (ms since 1970). */
export type RefusingBudget = BudgetCounter & { readonly budget: Budget; readonly periodEnd: number }

/** A budget is used up, or has too little left for a request: 402, which clients do not retry. */
export const budgetFailure = (counter: RefusingBudget, degraded = false): Failure =>
  exceeded(
    counter,
    remainingOf(counter) > 0 ? 'has too little left for this request, unless its max_tokens is smaller' : 'is used up',
    degraded,
  )

/** A stream is ended because the budget cannot pay for the rest of it (`onOverrun: cut`). */
export const overrunFailure = (counter: RefusingBudget): Failure =>
  exceeded(counter, 'has too little left for the rest of this answer', false)

const exceeded = ({ budget, used, periodEnd }: RefusingBudget, state: string, degraded: boolean): Failure => {
  const resets = periodEnd >= END_OF_TIME ? null : dayIn(budget.timezone, periodEnd)
  const name = `The budget of ${SPENDER[budget.per]}${FOR_PERIOD[budget.period]}`
  return fail('budget_exceeded', `${name} ${state}${resets === null ? '' : `; it begins again on ${resets}`}.`, {
    limit: `budget; id=${budget.id}${resets === null ? '' : `; resets=${resets}`}${degraded ? DEGRADED : ''}`,
    spend: standingOf({ budget, used, periodEnd }),
  })
}

/** What a hard budget has spent is not known, or a strict one cannot be counted at present: 503, which clients retry. */
export const budgetUnavailable = ({ id }: Budget): Failure =>
  fail(
    'budget_unavailable',
    'The budget of this request cannot be checked: what it has spent is not known at present. Try again later.',
    {
      limit: `budget; id=${id}${DEGRADED}`,
      retryAfter: UNAVAILABLE_WAIT,
    },
  )

/** A client has named so many end users that a new one has no counter. */
export const ownersFailure = ({ id }: Budget): Failure =>
  fail(
    'budget_exceeded',
    'The budget of this request cannot be checked: this client has named too many end users. Name one that is known.',
    {
      limit: `budget; id=${id}`,
    },
  )

/** No price is known for the target, and a hard budget must not be spent without one. `provider`: the ID of its instance. */
export const unpricedFailure = (
  provider: string,
  { unknownPrice }: { readonly unknownPrice: 'dearest' | 'refuse' | 'allow' },
): Failure => {
  const unknown =
    unknownPrice === 'refuse'
      ? 'The price of this model is unknown'
      : `The price of this model is unknown, as are all prices of the provider ${JSON.stringify(provider)}`
  return fail(
    'budget_exceeded',
    `${unknown}, and a hard budget applies. The operator can set its price under \`prices\` in headgate.yaml (a perMillion of zero if it is free), or \`budget.unknownPrice: allow\`.`,
    { limit: 'budget; unpriced' },
  )
}

/** A limit of requests, tokens or concurrency: 429, which clients retry. */
export const limitFailure = (refusal: Exclude<LimitRefusal, { readonly why: 'budget' }>): Failure => {
  const limit = `${refusal.why}; id=${refusal.id}${refusal.degraded ? DEGRADED : ''}`
  if (refusal.why === 'concurrent')
    return fail('client_limit', 'Too many requests of this key or team are in progress. Retry when one has ended.', {
      limit,
      retryAfter: CONCURRENT_WAIT,
    })
  const { retryAfter } = refusal
  if (retryAfter === Number.POSITIVE_INFINITY)
    return fail('client_limit', `This key or team may not use any ${refusal.why}.`, { limit, retryAfter: NEVER })
  return fail('client_limit', `This key or team has reached its limit of ${refusal.why} per minute.`, {
    limit,
    retryAfter,
  })
}

/** Only a part of the limit could be used. */
const DEGRADED = '; degraded'

/** ms after which the process that counts may answer again. */
const UNAVAILABLE_WAIT = 1_000
/** ms after which a request may find a free slot. */
const CONCURRENT_WAIT = 1_000
/** ms to wait for a limit of 0: a day. */
const NEVER = 24 * 3_600_000

const SPENDER: { readonly [per in Budget['per']]: string } = {
  all: 'this request',
  team: 'this team',
  key: 'this key',
  user: 'this user',
  end_user: 'this end user',
  session: 'this session',
}

const FOR_PERIOD: { readonly [period in PeriodName]: string } = {
  hour: ' for the hour',
  day: ' for the day',
  week: ' for the week',
  month: ' for the month',
  quarter: ' for the quarter',
  year: ' for the year',
  total: '',
}
