/** Budgets, and what their counters have spent. */
import { z } from 'zod'
import type { Budget } from '../../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { formatDollars, parseDollars } from '../../../core/money.ts'
import type { BudgetFigures } from '../../../gateway/accounts/accounts.ts'
import type { BudgetState } from '../../../gateway/accounts/budget-counters.ts'
import type { LiveBudget } from '../../../observe/live/listener.ts'
import { END_OF_TIME, periodAt } from '../../../policy/accounts/period.ts'
import { BUDGET, BUDGET_BODY, type BUDGET_NOW, FORECAST } from '../../../records/entities/budget.ts'
import type { Forecast, ForecastQuery } from '../../../usage/reading/queries.ts'
import { BUDGET_COUNTERS, BUDGET_LIST, type LISTED_BUDGET } from '../../answers/budgets.ts'
import { deletedAs, type listOf } from '../../answers/fields.ts'
import { defined, runFor, withClosed } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id, page } from '../fields.ts'
import { patchOf, recordList } from '../records.ts'
import { type AdminCall, type Answered, row } from '../row.ts'

const stored = BUDGET.omit({ now: true })
type StoredBudget = z.input<typeof stored>
type ShownBudget = z.input<typeof BUDGET>

export const NO_FORECAST: Forecast = {
  object: 'forecast',
  projected: null,
  exhausted_at: null,
  spent_since: null,
  basis: null,
  hours: null,
}

const NOW = {
  period_start: '2026-10-31T23:00:00.000Z',
  period_end: '2026-11-30T23:00:00.000Z',
  spent: '812.400000000',
  reserved: '3.100000000',
  remaining: '1684.500000000',
  as_of: '2026-11-23T10:00:00.000Z',
  authority: 'ok',
}
const SHOWN = {
  id: 'bud_kdvbwqhzmrtc',
  object: 'budget',
  name: 'research',
  amount: '2500.00',
  currency: 'USD',
  period: 'month',
  timezone: 'Europe/Berlin',
  startDay: 1,
  appliesTo: { teams: ['team_kdvbwqhzmrtc'], keys: null, tags: null, models: null, providers: null },
  per: 'all',
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  alerts: [50, 80, 100],
  status: 'active',
  created_at: '2026-11-01T08:00:00.000Z',
  created_by: 'auth.admin',
  rev: 1,
  managed: 'api',
  now: NOW,
}

const COUNTER = {
  of: '',
  spent: NOW.spent,
  reserved: NOW.reserved,
  remaining: NOW.remaining,
  period_start: NOW.period_start,
}

/** The counters of a budget, the fullest first. */
const countersOf = ({ states }: BudgetFigures, budgetId: string): readonly BudgetState[] =>
  states.filter((state) => state.budget.id === budgetId).toSorted((a, b) => a.remaining - b.remaining)

/** The counters of a budget that an actor may see, the fullest first. `teams`: those of the actor; null: all. */
export const visibleCounters = (
  { control }: AdminDeps,
  figures: BudgetFigures,
  budgetId: string,
  teams: readonly string[] | null,
): readonly BudgetState[] =>
  countersOf(figures, budgetId).filter(({ owner, budget: { per } }) => {
    const team = per === 'team' ? owner : per === 'key' ? control.directory().keys.get(owner)?.team : undefined
    return teams === null || per === 'all' || (team !== undefined && teams.includes(team))
  })

/** The share of an amount from which an owner is near its end. */
const NEAR = 0.8

/** How many owners of a budget have spent its amount, and which one has spent the most of it. */
const ownersOf = (
  counters: readonly BudgetState[],
  { per = 'all' }: Pick<StoredBudget, 'per'>,
): z.input<typeof LISTED_BUDGET>['owners'] => {
  if (per === 'all') return null
  const least = (share: number) => counters.filter(({ budget, spent: used }) => used >= share * budget.amount).length
  const spent = least(1)
  const [first] = counters
  return { count: counters.length, spent, near: least(NEAR) - spent, fullest: first ? counterEntry(first) : null }
}

/** The names of teams and keys that an actor may see. IDs of others have none. */
export const namesOf = (
  { control }: AdminDeps,
  ids: readonly string[],
  visible: readonly string[] | null,
): { readonly [id: string]: string } => {
  const { teams, keys } = control.directory()
  return Object.fromEntries(
    ids.flatMap((one) => {
      const key = keys.get(one)
      const name = key?.name ?? teams.get(one)?.name
      return name !== undefined && (visible?.includes(key?.team ?? one) ?? true) ? [[one, name]] : []
    }),
  )
}

/** The figures of each budget alone, so that the counters of all are not searched for each of many. */
export const figuresById = (figures: BudgetFigures): ((budgetId: string) => BudgetFigures) => {
  const states = Map.groupBy(figures.states, ({ budget }) => budget.id)
  return (budgetId) => ({ ...figures, states: states.get(budgetId) ?? [] })
}

const iso = (at: number): string => new Date(at).toISOString()

export const counterEntry = ({ owner, spent, reserved, remaining, periodStart }: BudgetState) => ({
  of: owner,
  spent: formatDollars(spent),
  reserved: formatDollars(reserved),
  remaining: formatDollars(remaining),
  period_start: iso(periodStart),
})

type BudgetRule = Pick<StoredBudget, 'id' | 'per' | 'period' | 'timezone' | 'startDay' | 'amount'>

const nowOf = (
  figures: BudgetFigures,
  { id: budgetId, per = 'all', ...given }: BudgetRule,
  now: number,
): z.input<typeof BUDGET_NOW> => {
  const counters = countersOf(figures, budgetId)
  const rule = { period: given.period, timezone: given.timezone ?? 'UTC', startDay: given.startDay ?? 1 }
  const { start, end } = periodAt(rule, now)
  const sum = (member: 'spent' | 'reserved') => counters.reduce((total, state) => total + state[member], 0)
  const [first] = counters
  return {
    period_start: iso(start),
    period_end: end === END_OF_TIME ? null : iso(end),
    spent: formatDollars(sum('spent')),
    reserved: formatDollars(sum('reserved')),
    remaining: per !== 'all' ? null : first ? formatDollars(first.remaining) : withNineDecimals(given.amount),
    as_of: iso(now),
    authority: figures.authority,
  }
}

/** The budgets with their figures, for live events. */
export const liveBudgets = async (deps: AdminDeps): Promise<readonly LiveBudget[]> => {
  const budgets = [...deps.control.directory().budgets.values()].slice(0, MAX_LIVE)
  const figures = await deps.gateway.accounts.budgetFigures()
  return budgets.map((one) => {
    const rule = { ...one, amount: formatDollars(one.amount) }
    const { as_of, ...now } = nowOf(figures, rule, deps.gateway.world.date())
    const data = { object: 'budget', id: one.id, name: one.name, now }
    return { id: one.id, teams: teamsOfBudget(deps, one), data: JSON.stringify(data) }
  })
}

/** Budgets with live events. */
const MAX_LIVE = 200

/** Forecasts of budgets, in their order. */
const forecastsOf = (
  deps: AdminDeps,
  budgets: readonly StoredBudget[],
  figures: BudgetFigures,
): Promise<Outcome<readonly Forecast[]>> => {
  const now = deps.gateway.world.date()
  const of = figuresById(figures)
  return deps.usage.forecasts({ now, budgets: budgets.map((one) => forecastQuery(one, of(one.id), now)) })
}

/** The query for all counters of a budget together. */
const forecastQuery = (one: StoredBudget, figures: BudgetFigures, now: number): ForecastQuery => {
  const rule = { period: one.period, timezone: one.timezone ?? 'UTC', startDay: one.startDay ?? 1 }
  const { start, end } = periodAt(rule, now)
  const { teams = null, keys = null, tags = null, models = null, providers = null } = one.appliesTo ?? {}
  const amount = parseDollars(one.amount)
  const counters = countersOf(figures, one.id)
  return {
    by: tags === null && one.per !== 'user' && one.per !== 'end_user' && one.per !== 'session' ? 'week' : 'period',
    teams,
    keys,
    models,
    providers,
    period_start: start,
    period_end: end === END_OF_TIME ? null : end,
    // Each counter has the whole amount.
    amount: (amount.ok ? amount.value : 0) * Math.max(1, one.per === 'all' ? 1 : counters.length),
    spent: counters.reduce((total, state) => total + state.spent, 0),
  }
}

/** An amount without counter is unspent. */
const withNineDecimals = (amount: string): string => {
  const [whole = '0', decimals = ''] = amount.split('.')
  return `${whole}.${decimals.padEnd(9, '0')}`
}

/** Adds the current figures to the answer of an operation. */
const withNow = async (
  deps: AdminDeps,
  result: Promise<Outcome<Answered<StoredBudget>>>,
): Promise<Outcome<Answered<ShownBudget>>> => {
  const found = await result
  if (!found.ok || 'stream' in found.value) return found.ok ? bad(fail('internal', 'A budget has no stream.')) : found
  const { body } = found.value
  const now = nowOf(await deps.gateway.accounts.budgetFigures(), body, deps.gateway.world.date())
  return good({ ...found.value, body: { ...body, now } })
}

type Selecting = { readonly appliesTo?: StoredBudget['appliesTo'] | Budget['appliesTo'] }

/** The teams whose requests a budget counts; null: all teams. */
const teamsOfBudget = ({ control }: AdminDeps, { appliesTo }: Selecting): readonly string[] | null => {
  const { teams: named = null, keys = null } = appliesTo ?? {}
  if (named === null && keys === null) return null
  const directory = control.directory()
  return [...(named ?? []), ...(keys ?? []).flatMap((key) => directory.keys.get(key)?.team ?? [])]
}

/** Whether a budget counts something of these teams; null: all teams. */
export const concerns = (deps: AdminDeps, one: Selecting, teams: readonly string[] | null): boolean => {
  const counted = teamsOfBudget(deps, one)
  return teams === null || counted === null || counted.some((team) => teams.includes(team))
}

/** The budget of a call, if the actor may read it. */
const readable = async (
  deps: AdminDeps,
  call: AdminCall<{ readonly id: string }>,
): Promise<Outcome<Answered<StoredBudget>>> => {
  const found = await runFor<StoredBudget>(deps.control, call, { do: 'get', kind: 'budget', id: call.params.id })
  if (found.ok && 'body' in found.value && !concerns(deps, found.value.body, call.teams))
    return bad(fail('not_found', `No budget has the ID ${call.params.id}.`))
  return found
}

export const budgetRows = [
  row({
    method: 'GET',
    path: '/budgets',
    summary: 'List the budgets with what is spent',
    about: 'A viewer of a team sees the budgets that count its requests.',
    role: 'viewer',
    scope: 'team',
    query: z.strictObject({
      ...recordList,
      forecast: z.boolean().default(false).describe('With the estimate of `/budgets/{id}/forecast` for each'),
    }),
    answer: BUDGET_LIST,
    example: {
      query: { limit: '20' },
      answer: {
        object: 'list',
        data: [{ ...SHOWN, owners: null }],
        has_more: false,
        next: null,
        names: { team_kdvbwqhzmrtc: 'search' },
      },
    },
    async handle(deps, call) {
      const { forecast: isForecast, ...query } = call.query
      const operation = { do: 'list', kind: 'budget', query: defined(query) } as const
      const list = await runFor<z.input<ReturnType<typeof listOf<typeof stored>>>>(deps.control, call, operation)
      if (!list.ok || 'stream' in list.value) return list.ok ? bad(fail('internal', 'A list has no stream.')) : list
      const { body } = list.value
      const visible = body.data.filter((one) => concerns(deps, one, call.teams))
      const figures = await deps.gateway.accounts.budgetFigures()
      const at = deps.gateway.world.date()
      const forecasts = isForecast ? await forecastsOf(deps, visible, figures) : null
      const of = figuresById(figures)
      const data = visible.map((one, index) => ({
        ...one,
        now: nowOf(of(one.id), one, at),
        owners: ownersOf(visibleCounters(deps, of(one.id), one.id, call.teams), one),
        // The list is of use without its estimates, which need the ledger.
        ...(forecasts && { forecast: (forecasts.ok && forecasts.value[index]) || null }),
      }))
      const named = data.flatMap(({ appliesTo, owners }) => [
        ...(appliesTo?.teams ?? []),
        ...(appliesTo?.keys ?? []),
        owners?.fullest?.of ?? '',
      ])
      return good({ body: { ...body, data, names: namesOf(deps, named, call.teams) } })
    },
  }),
  row({
    method: 'POST',
    path: '/budgets',
    summary: 'Create a budget',
    role: 'admin',
    scope: 'all',
    body: BUDGET_BODY,
    answer: BUDGET,
    status: 201,
    example: {
      body: { name: 'research', amount: '2500.00', period: 'month', timezone: 'Europe/Berlin', alerts: [50, 80, 100] },
      answer: SHOWN,
    },
    async handle(deps, call) {
      const wasOpen = deps.control.isOpen()
      const created = runFor<StoredBudget>(deps.control, call, { do: 'create', kind: 'budget', body: call.body })
      const answered = await withNow(deps, created)
      return wasOpen ? withClosed(deps, answered) : answered
    },
  }),
  row({
    method: 'GET',
    path: '/budgets/{id}',
    summary: 'Show a budget with what is spent',
    role: 'viewer',
    scope: 'team',
    params: id,
    answer: BUDGET,
    example: { params: { id: SHOWN.id }, answer: SHOWN },
    handle: (deps, call) => withNow(deps, readable(deps, call)),
  }),
  row({
    method: 'PATCH',
    path: '/budgets/{id}',
    summary: 'Change a budget',
    about: 'What is spent stays, unless the period or `per` changes. A new amount applies at once, in all workers.',
    role: 'admin',
    scope: 'all',
    params: id,
    body: patchOf(BUDGET_BODY),
    answer: BUDGET,
    conditional: true,
    example: {
      params: { id: SHOWN.id },
      body: { amount: '3000.00' },
      answer: { ...SHOWN, amount: '3000.00', rev: 2 },
    },
    handle: (deps, call) => {
      const { params, body: patch, revision: rev } = call
      return withNow(deps, runFor(deps.control, call, { do: 'patch', kind: 'budget', id: params.id, patch, rev }))
    },
  }),
  row({
    method: 'DELETE',
    path: '/budgets/{id}',
    summary: 'Delete a budget',
    role: 'admin',
    scope: 'all',
    params: id,
    answer: deletedAs('budget'),
    conditional: true,
    example: { params: { id: SHOWN.id }, answer: { id: SHOWN.id, object: 'budget', deleted: true } },
    handle: ({ control }, call) =>
      runFor(control, call, { do: 'delete', kind: 'budget', id: call.params.id, rev: call.revision }),
  }),
  row({
    method: 'GET',
    path: '/budgets/{id}/counters',
    summary: 'List the counters of a budget, the fullest first',
    about: 'A budget per team, key or user has a counter for each that has spent something in the current period.',
    role: 'viewer',
    scope: 'team',
    params: id,
    query: z.strictObject({ limit: page.limit }),
    answer: BUDGET_COUNTERS,
    example: {
      params: { id: SHOWN.id },
      answer: {
        object: 'list',
        data: [COUNTER],
        has_more: false,
        next: null,
        names: {},
      },
    },
    async handle(deps, call) {
      const found = await readable(deps, call)
      if (!found.ok) return found
      const figures = await deps.gateway.accounts.budgetFigures()
      const mine = visibleCounters(deps, figures, call.params.id, call.teams)
      const data = mine.slice(0, call.query.limit).map(counterEntry)
      const owners = data.map(({ of }) => of)
      const names = namesOf(deps, owners, call.teams)
      return good({ body: { object: 'list' as const, data, has_more: mine.length > data.length, next: null, names } })
    },
  }),
  row({
    method: 'GET',
    path: '/budgets/{id}/forecast',
    summary: 'Estimate when a budget will be spent',
    about:
      'From the last seven days by hour of the week, and for a day never below the present rate. A budget that selects by tags or is counted per user continues with the rate of its period so far.',
    role: 'viewer',
    scope: 'team',
    params: id,
    answer: FORECAST,
    example: {
      params: { id: SHOWN.id },
      answer: { ...NO_FORECAST, projected: '1910.000000000', basis: 'week', hours: 168 },
    },
    async handle(deps, call) {
      const found = await readable(deps, call)
      if (!found.ok) return found
      if ('stream' in found.value) return bad(fail('internal', 'A budget has no stream.'))
      const figures = await deps.gateway.accounts.budgetFigures()
      const forecasts = await forecastsOf(deps, [found.value.body], figures)
      if (!forecasts.ok) return forecasts
      const [body = NO_FORECAST] = forecasts.value
      return good({ body })
    },
  }),
]
