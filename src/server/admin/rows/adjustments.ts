/** Adjustments of budgets, and the list of all adjustments. */
import { z } from 'zod'
import type { Budget } from '../../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { formatDollars, parseDollars } from '../../../core/money.ts'
import { periodAt } from '../../../policy/accounts/period.ts'
import { ADJUSTMENTS_PARAMETERS } from '../../../usage/reading/parameters.ts'
import { ADJUSTED_BUDGET, ADJUSTMENT } from '../../answers/budgets.ts'
import { listOf } from '../../answers/fields.ts'
import { storeAdjustment } from '../adjusting.ts'
import { noteAudit } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id } from '../fields.ts'
import { type AdminCall, type Answered, row } from '../row.ts'
import { invalid } from '../validation.ts'
import { counterEntry } from './budgets.ts'

type AdjustedBudget = z.input<typeof ADJUSTED_BUDGET>

const reason = z.string().min(1).max(500).describe('For the ledger and the audit log')
const of = z
  .string()
  .max(200)
  .optional()
  .describe('The ID of the team or key, or the name of the user: required for a budget that counts each separately')

/** The counter that a request names. */
const counterOf = ({ control }: AdminDeps, { id: budget, per }: Budget, owner: string | undefined): Outcome<string> => {
  const problem = (message: string) => bad(invalid([{ path: 'of', message }]))
  if (per === 'all')
    return owner === undefined || owner === ''
      ? good(`${budget}:`)
      : problem('This budget has one counter for all. Leave `of` out.')
  if (owner === undefined)
    return problem(`The budget counts each ${per} separately. GET /admin/api/v1/budgets/${budget}/counters lists them.`)
  const { teams, keys } = control.directory()
  const isKnown = per === 'team' ? teams.has(owner) : per === 'key' ? keys.has(owner) : true
  return isKnown ? good(`${budget}:${owner}`) : problem(`No ${per} has this ID.`)
}

type AdjustCall = AdminCall<{ readonly id: string }, unknown, { readonly of?: string | undefined; reason: string }>

/** Adjusts a counter in its current period. */
const adjust = async (
  deps: AdminDeps,
  call: AdjustCall,
  action: 'adjust' | 'reset',
  by: number | 'reset',
): Promise<Outcome<Answered<AdjustedBudget>>> => {
  const { gateway, control } = deps
  const budget = control.directory().budgets.get(call.params.id)
  if (!budget) return bad(fail('not_found', `No budget has the ID ${call.params.id}.`))
  const named = counterOf(deps, budget, call.body.of)
  if (!named.ok) return named
  const { start } = periodAt(budget, gateway.world.date())
  const correction = { budget: budget.id, counter: named.value, period_start: start, reason: call.body.reason }
  const stored = await storeAdjustment(deps, call, { ...correction, amount: by })
  if (!stored.ok) return stored
  const owner = named.value.slice(budget.id.length + 1)
  const { isNew, amount: nano, ...made } = stored.value
  const details = { id: made.id, of: owner, amount: formatDollars(nano), reason: call.body.reason }
  if (isNew) await noteAudit(control, call, { action: `budget.${action}`, object: budget.id, details })
  const { states } = await gateway.accounts.budgetFigures()
  const state = states.find((one) => one.budget.id === budget.id && one.owner === owner)
  return good({
    body: {
      id: made.id,
      object: 'adjustment' as const,
      at: new Date(made.at).toISOString(),
      actor: made.actor,
      budget: budget.id,
      of: owner,
      key: null,
      amount: formatDollars(nano),
      reason: call.body.reason,
      counter: state ? counterEntry(state) : null,
    },
    ...(!isNew && { headers: { 'x-headgate-idempotent': 'stored' } }),
  })
}

const ADJUSTMENT_SHOWN = {
  id: 'adj_kdvbwqhzmrtc',
  object: 'adjustment',
  at: '2026-11-23T10:00:00.000Z',
  budget: 'bud_kdvbwqhzmrtc',
  of: '',
  key: null,
  amount: '-25.000000000',
  reason: 'refund of the provider',
  actor: 'bootstrap',
}
const COUNTER = {
  of: '',
  spent: '787.400000000',
  reserved: '3.100000000',
  remaining: '1709.500000000',
  period_start: '2026-10-31T23:00:00.000Z',
}

export const adjustmentRows = [
  row({
    method: 'POST',
    path: '/budgets/{id}/adjust',
    summary: 'Correct what a budget has spent in its current period',
    about:
      'The amount is added to what is spent; a negative one is a credit. The ledger keeps it as an adjustment, and it applies within a second.',
    role: 'admin',
    scope: 'all',
    params: id,
    body: z.strictObject({ amount: z.string().max(40).describe('US dollars, such as -25.00'), of, reason }),
    answer: ADJUSTED_BUDGET,
    example: {
      params: { id: 'bud_kdvbwqhzmrtc' },
      body: { amount: '-25.00', reason: 'refund of the provider' },
      answer: { ...ADJUSTMENT_SHOWN, counter: COUNTER },
    },
    handle(deps, call) {
      const by = parseDollars(call.body.amount, 'any')
      if (!by.ok) return bad(invalid([{ path: 'amount', message: by.failure.message }]))
      if (by.value === 0) return bad(invalid([{ path: 'amount', message: 'An adjustment by 0 changes nothing.' }]))
      return adjust(deps, call, 'adjust', by.value)
    },
  }),
  row({
    method: 'POST',
    path: '/budgets/{id}/reset',
    summary: 'Set what a budget has spent in its current period to 0',
    about: 'By an adjustment of minus what is spent. Requests in progress keep what they have reserved.',
    role: 'admin',
    scope: 'all',
    params: id,
    body: z.strictObject({ of, reason }),
    answer: ADJUSTED_BUDGET,
    example: {
      params: { id: 'bud_kdvbwqhzmrtc' },
      body: { reason: 'load test' },
      answer: { ...ADJUSTMENT_SHOWN, reason: 'load test', counter: COUNTER },
    },
    handle: (deps, call) => adjust(deps, call, 'reset', 'reset'),
  }),
  row({
    method: 'GET',
    path: '/usage/adjustments',
    summary: 'List adjustments, newest first',
    about: 'Of budgets, and of costs by reconcile and reprice. By default of the last 30 days.',
    role: 'viewer',
    scope: 'all',
    query: ADJUSTMENTS_PARAMETERS,
    answer: listOf(ADJUSTMENT),
    example: { answer: { object: 'list', data: [ADJUSTMENT_SHOWN], has_more: false, next: null } },
    async handle({ usage, gateway }, { query }) {
      const now = gateway.world.date()
      const { from = now - MONTH, to = now + 1, ...rest } = query
      const found = await usage.adjustments({ ...rest, from, to, reason: null })
      return found.ok ? good({ body: found.value }) : found
    },
  }),
]

/** ms. */
const MONTH = 30 * 86_400_000
