/** What a client may read with its own key: its limits, budgets and use, and its requests. Loaded at the first such request. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { formatDollars } from '../../core/money.ts'
import type { ClientFigures } from '../../gateway/accounts/accounts.ts'
import type { BudgetState } from '../../gateway/accounts/budget-counters.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { END_OF_TIME } from '../../policy/accounts/period.ts'
import { reportOf } from '../../policy/accounts/rate-limit-headers.ts'
import { CLIENT_USAGE_PARAMETERS, type ClientUsageQuery, rangeOf } from '../../usage/reading/parameters.ts'
import type { UsageFilter } from '../../usage/reading/queries.ts'
import type { UsageReader } from '../../usage/reading/usage-reader.ts'
import type { ClientPages } from '../client-pages.ts'
import { summed } from './usage-query.ts'
import { invalid, readQuery } from './validation.ts'

/** Creates the pages. */
export const openClientPages = (
  { accounts, config, world }: Pick<Gateway, 'accounts' | 'config' | 'world'>,
  usage: Pick<UsageReader, 'usage' | 'request'>,
): ClientPages => ({
  async usage({ client, query: text }) {
    const query = readQuery(CLIENT_USAGE_PARAMETERS, text)
    if (!query.ok) return query
    // The schema returns this type.
    const asked = query.value as ClientUsageQuery
    const range = rangeOf(asked, 'usage', world.date())
    if (!range) return bad(invalid([{ path: 'from', message: 'It must be before `to`.' }], 'query'))
    const { session } = asked
    const filter: UsageFilter = {
      key: [client.id],
      team: [client.team.id],
      ...(session !== undefined && { session: [accounts.sessionId(client, session)] }),
    }
    const report = await usage.usage(summed({ ...asked, ...range, by: ['model'], filter }, config()))
    if (!report.ok) return report
    const { object: _list, names: _names, ...used } = report.value
    const figures = await accounts.figuresOf(client)
    return good({
      object: 'usage',
      key: client.id === '' ? null : { id: client.id, name: client.name },
      team: { ...client.team },
      limits: limitsOf(figures, world.now()),
      budgets: figures.budgets.map(budgetEntry),
      ...used,
    })
  },
  async request({ client }, id): Promise<Outcome<JsonObject>> {
    const found = await usage.request({ id, key: client.id, team: [client.team.id] })
    if (!found.ok) return found
    return found.value ? good({ ...found.value }) : bad(NO_REQUEST)
  },
})

/** The limits of the key and its team. */
const limitsOf = ({ rates, slots }: ClientFigures, now: number): JsonObject[] => [
  ...rates.map((rate) => {
    const { unit, limit, remaining, resetMs } = reportOf(rate, now)
    return { of: rate.id, unit: `${unit}_per_minute`, limit, remaining, reset_ms: resetMs }
  }),
  ...slots.map(({ id, limit, live }) => ({
    of: id,
    unit: 'concurrent',
    limit,
    remaining: Math.max(0, limit - live),
    reset_ms: null,
  })),
]

const budgetEntry = ({ budget, ...state }: BudgetState): JsonObject => ({
  id: budget.id,
  name: budget.name,
  mode: budget.mode,
  per: budget.per,
  amount: formatDollars(budget.amount),
  period: budget.period,
  timezone: budget.timezone,
  period_start: new Date(state.periodStart).toISOString(),
  period_end: state.periodEnd === END_OF_TIME ? null : new Date(state.periodEnd).toISOString(),
  spent: formatDollars(state.spent),
  reserved: formatDollars(state.reserved),
  remaining: formatDollars(state.remaining),
})

const NO_REQUEST = fail(
  'not_found',
  'No request of this key has this ID. Requests are kept for usage.keepDays, and appear a second after they end.',
)
