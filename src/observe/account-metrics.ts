/** Metrics of teams, client keys, budgets and recorded usage. Label values are names and IDs that operators chose. */
import { DEFAULT_TEAM } from '../core/accounts.ts'
import type { Failure } from '../core/failure.ts'
import type { TraceSummary } from '../core/trace-summary.ts'
import type { BudgetState } from '../gateway/accounts/budget-counters.ts'
import type { Reading, Registry } from './registry.ts'

const NANO = 1e9
/** Owners reported of a budget with a counter for each. */
const MAX_OWNERS = 20
/** The label of a counter whose owner is not named: the one that is fullest. */
const FULLEST = 'fullest'
/** The label of requests without a team: they were refused before the client was known. */
const NO_TEAM = '-'

type AccountMetrics = {
  /** Counts a request. `label`: the model as a label value. `isPriced`: the price of its answer is known. */
  readonly count: (summary: TraceSummary, label: string, isPriced: boolean) => void
  /** Counts a refusal before the request became a call. */
  readonly refused: (failure: Failure) => void
}

/** Registers the counters. `perKey`: also requests of each key. */
export const accountMetrics = (registry: Registry, perKey: () => boolean): AccountMetrics => {
  const requests = registry.counter('headgate_team_requests_total', 'Requests of a team, by outcome.', [
    'team',
    'outcome',
  ])
  const tokens = registry.counter('headgate_team_tokens_total', 'Tokens used by a team.', ['team', 'type'])
  const cost = registry.counter(
    'headgate_team_cost_dollars_total',
    'Cost of all attempts of a team, where the price is known.',
    ['team'],
  )
  const keyRequests = registry.counter('headgate_key_requests_total', 'Requests of a client key (metrics.perKey).', [
    'team',
    'key',
    'outcome',
  ])
  const refusals = registry.counter(
    'headgate_admission_refused_total',
    'Requests refused by a budget, a limit, access rules or authentication.',
    ['team', 'why'],
  )
  const estimated = registry.counter(
    'headgate_usage_estimated_total',
    'Answers with estimated tokens: the upstream did not count them, or the answer is incomplete.',
    ['provider', 'model'],
  )
  const unpriced = registry.counter('headgate_unpriced_total', 'Answers without a known price.', ['provider', 'model'])
  const assumed = registry.counter(
    'headgate_price_assumed_total',
    'Answers charged at the dearest known prices of the provider, because that of the model is unknown (budget.unknownPrice).',
    ['provider', 'model'],
  )
  return {
    count: (summary, model, isPriced) => {
      const { provider = '', team = DEFAULT_TEAM.name, client, outcome, usage, failure } = summary
      requests.add({ team, outcome })
      if (client !== undefined && perKey()) keyRequests.add({ team, key: client, outcome })
      const why = failure && refusalOf(failure)
      if (why !== undefined) refusals.add({ team, why })
      if (summary.cost !== undefined) cost.add({ team }, summary.cost / NANO)
      // An answer that was shared has no attempt of its own.
      if (!usage || provider === '') return
      tokens.add({ team, type: 'input' }, usage.input)
      tokens.add({ team, type: 'output' }, usage.output)
      if (!isPriced) unpriced.add({ provider, model })
      if (summary.isPriceAssumed) assumed.add({ provider, model })
      if (summary.estimated) estimated.add({ provider, model })
    },
    refused: (failure) => {
      const why = refusalOf(failure)
      if (why !== undefined) refusals.add({ team: NO_TEAM, why })
    },
  }
}

/** The `why` label of a refusal; undefined for failures of another kind. */
const refusalOf = ({ kind, limit }: Failure): string | undefined => {
  switch (kind) {
    case 'budget_exceeded':
    case 'budget_unavailable':
      return 'budget'
    case 'client_limit':
      // `requests; id=key_…`
      return limit?.split(';', 1)[0] ?? 'requests'
    case 'model_not_allowed':
    case 'style_not_allowed':
      return 'access'
    case 'data_policy':
      return 'policy'
    case 'unauthenticated':
      return 'auth'
    default:
      return undefined
  }
}

/**
 * Gauges of budgets; `of` is the owner's ID. A budget with a counter for each team or (`perKey`) each key has a series for the fullest 20; one
 * with a counter for each user only for the fullest, because names of users come from clients.
 */
export const budgetReadings = (states: readonly BudgetState[], perKey: boolean): Reading[] => {
  const reported = [...Map.groupBy(states, ({ budget }) => budget.id).values()].flatMap((of) => {
    const fullest = of.toSorted((one, other) => share(other) - share(one))
    const [first] = fullest
    if (!first) return []
    const { per } = first.budget
    const isNamed = per === 'all' || per === 'team' || (per === 'key' && perKey)
    if (!isNamed) return [{ state: first, owner: FULLEST }]
    return fullest.slice(0, MAX_OWNERS).map((state) => ({ state, owner: state.owner }))
  })
  const gauge = (name: string, help: string, nano: (state: BudgetState) => number): Reading[] =>
    reported.map(({ state, owner }) => ({
      name,
      help,
      labels: { budget: state.budget.name, of: owner },
      value: nano(state) / NANO,
    }))
  return [
    ...gauge('budget_limit_dollars', 'Amount of a budget for its period.', ({ budget }) => budget.amount),
    ...gauge('budget_spent_dollars', 'What is spent of a budget in its current period.', ({ spent }) => spent),
    ...gauge('budget_reserved_dollars', 'What calls in progress reserve of a budget.', ({ reserved }) => reserved),
  ]
}

const share = ({ budget, spent, reserved }: BudgetState): number => (spent + reserved) / Math.max(1, budget.amount)
