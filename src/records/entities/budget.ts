/** A budget: an amount over a period for the requests that a selector matches. */
import { z } from 'zod'
import type { Budget, PeriodName } from '../../core/accounts.ts'
import { formatDollars, parseDollars } from '../../core/money.ts'
import { isTimezone, periodProblem } from '../../policy/accounts/period.ts'
import { accessList, entryId, instant, list, memberReader, NAME, TEXT, type ValuesOf } from './member.ts'
import { dollars, shownAs, time } from './shown.ts'
import { tags } from './tags.ts'

const PERIODS = ['hour', 'day', 'week', 'month', 'quarter', 'year', 'total'] as const satisfies readonly PeriodName[]

/** In every form: the body, the file, the row and the answers. */
export const BUDGET_MEMBERS = {
  currency: z.enum(['USD']).default('USD').describe('currency of the amount'),
  period: z.enum(PERIODS).describe('period, by the calendar'),
  timezone: TEXT.default('UTC').describe('time zone of the calendar, such as Europe/Berlin'),
  startDay: z
    .int()
    .default(1)
    .describe('first day of a week (1 Monday to 7 Sunday) or of a month (1 to 28)')
    .meta({ allowed: 'a whole number from 1 to 7 for a week, from 1 to 28 for a month' }),
  appliesTo: z
    .strictObject({
      teams: list('teams, by name or ID'),
      keys: list('keys, by name or ID'),
      tags: tags.nullable().default(null).describe('tags that the key or its team must have'),
      models: accessList('models', 'models, by names or globs'),
      providers: accessList('providers', 'providers, by names or globs'),
    })
    .prefault({})
    .describe('requests that count; unset: all'),
  per: z
    .enum(['all', 'team', 'key', 'user', 'end_user', 'session'])
    .default('all')
    .describe(
      'one amount for all requests that count, or the whole amount for each team, key, user, end user or session',
    ),
  mode: z
    .enum(['hard', 'soft'])
    .default('hard')
    .describe('`hard`: requests above the amount are refused; `soft`: only reported'),
  reserve: z
    .enum(['typical', 'max'])
    .default('typical')
    .describe('the length of an answer that is reserved: as recent answers, or the longest possible'),
  onOverrun: z
    .enum(['finish', 'cut'])
    .default('finish')
    .describe('a stream that becomes more expensive than reserved, when the amount is used up: finish it, or end it'),
  enforcement: z
    .enum(['fast', 'strict'])
    .default('fast')
    .describe(
      'while the counters that `WORKERS` or several gateways share do not answer: `fast` continues with a share of what was left, `strict` refuses with 503 after 50 ms',
    ),
  countFrom: z
    .enum(['creation', 'period'])
    .default('creation')
    .describe('what counts in the period in which the budget is added: requests from then on, or all of the period'),
  alerts: z
    .array(z.number().positive().max(1_000))
    .max(10)
    .default([])
    .describe('percentages that send an alert; none: those of `alerts.rules.budget`')
    .meta({ allowed: 'a list of at most 10 percentages above 0' }),
}
type BudgetMembers = ValuesOf<typeof BUDGET_MEMBERS>

/** Rules that concern several members. */
const checkBudget = ({ period, timezone, startDay, mode, enforcement }: BudgetMembers, context: z.RefinementCtx) => {
  const problem = periodProblem({ period, timezone, startDay })
  const last = period === 'week' ? 7 : period === 'month' ? 28 : null
  const days =
    last === null ? `no startDay for the period ${period}` : `a whole number from 1 to ${last} for a ${period}`
  const [member, allowed] = isTimezone(timezone)
    ? ['startDay', days]
    : ['timezone', 'an IANA time zone, such as Europe/Berlin']
  if (problem !== null) context.addIssue({ code: 'custom', message: problem, path: [member], params: { allowed } })
  if (mode === 'soft' && enforcement === 'strict')
    context.addIssue({
      code: 'custom',
      message: 'A soft budget refuses nothing: set the mode `hard`, or leave `enforcement` out.',
      path: ['enforcement'],
      params: { allowed: 'mode: hard; a soft budget refuses nothing' },
    })
}

const AMOUNT = 'amount in dollars for each period'

export const BUDGET_ENTRY = z
  .strictObject({
    id: entryId(/^bud_[a-z]{12}$/, 'bud'),
    // The source text of a number is read.
    amount: z.union([TEXT, z.number()]).describe(AMOUNT).meta({ allowed: 'an amount in dollars, such as "2500.00"' }),
    ...BUDGET_MEMBERS,
    createdAt: instant('creation, for reports'),
  })
  .superRefine(checkBudget)
export type BudgetEntry = z.output<typeof BUDGET_ENTRY>

const amount = z
  .string()
  .superRefine((text, context) => {
    const parsed = parseDollars(text)
    if (!parsed.ok) context.addIssue({ code: 'custom', message: parsed.failure.message })
  })
  .describe(AMOUNT)

export const BUDGET_BODY = z.strictObject({ name: NAME, amount, ...BUDGET_MEMBERS }).superRefine(checkBudget)

export const BUDGET_NOW = z
  .strictObject({
    period_start: time,
    period_end: time.nullable().describe('null: the period has no end'),
    spent: dollars.describe('Of all counters together'),
    reserved: dollars.describe('By requests in progress'),
    remaining: dollars.nullable().describe('null: the budget has a counter for each owner; see its counters'),
    as_of: time,
    authority: z
      .enum(['ok', 'degraded'])
      .describe('`degraded`: with WORKERS, the first process does not answer; the figures are earlier ones'),
  })
  .describe('The current period. The same figures decide about requests')

export const BUDGET = shownAs('budget', { amount, ...BUDGET_MEMBERS }, { now: BUDGET_NOW }).meta({ id: 'Budget' })

/** A counter of a budget: the one of all, or that of an owner. */
export const BUDGET_COUNTER = z.strictObject({
  of: z
    .string()
    .describe(
      'The ID of a team or key, or the name of a user; empty: one counter for all, or the one that requests without a user share',
    ),
  spent: z.string(),
  reserved: z.string(),
  remaining: z.string(),
  period_start: time,
})

export const FORECAST = z
  .strictObject({
    object: z.literal('forecast'),
    projected: z.string().nullable().describe('Spent at the end of the period; null: no end, or no data'),
    exhausted_at: time.nullable().describe('null also if it is spent already'),
    spent_since: time
      .nullable()
      .default(null)
      .describe('The hour in which a spent budget was spent; null: it is not, or not known of the last seven days'),
    basis: z
      .enum(['present', 'week', 'period'])
      .nullable()
      .describe(
        'On what it rests. `present`: the present rate, which is above the usual one, for a day; `week`: the same hours of the last seven days; `period`: the average of the period so far; null: there is no data',
      ),
    hours: z
      .int()
      .nullable()
      .default(null)
      .describe('Of the basis `week`: the hours with data, 168 at most. A new installation has fewer'),
  })
  .meta({ id: 'Forecast' })

const readMembers = memberReader(BUDGET_MEMBERS)

/** What a stored body, a body of `budgetBodyOf` or an entry says, save its amount. */
export const budgetMembersOf = (stored: object): Omit<BudgetMembers, 'currency'> => {
  const { currency: _, ...members } = readMembers(stored)
  return members
}

/** The body of a budget. */
export const budgetBodyOf = (budget: Budget) => ({
  name: budget.name,
  amount: formatDollars(budget.amount),
  ...readMembers(budget),
})
