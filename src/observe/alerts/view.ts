/** The state of the gateway for alerts. */
import type { Directory } from '../../core/accounts.ts'
import type { FullConfig } from '../../core/config.ts'
import { keyId } from '../../core/target.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { outagesOf } from '../../gateway/handlers/outages.ts'
import { defaultModelOf, type HealthProblem, recentModels, retiringIn } from '../../gateway/handlers/pages.ts'
import type { AlertView, BudgetView } from '../../policy/alerts/conditions.ts'
import { lossText, type RouteReport } from '../../policy/drill/report.ts'
import type { ProcessCounts } from './request-counts.ts'

/** Cooldowns that end only when the operator or the provider acts. */
const DEAD = ['suspended', 'quota_exhausted']

/** Stores by the component of their problems. */
const STORES = {
  store: 'responses',
  ledger: 'usage',
  control: 'control',
  limits: 'limits',
  config: null,
  budgets: null,
  export: 'export',
} as const

/** What one process knows for alerts, beside what all of them count together. Plain JSON data, since workers exchange it. */
export type ProcessView = Omit<AlertView, 'now' | 'budgets' | 'keys'> & {
  /** The budgets of a gateway that have reached a threshold: it may count some of them alone. */
  readonly reached?: readonly BudgetView[]
}

/** What the gateway does not contain. `ledgerLag`: ms by which the usage database lags behind the journal. */
export type ProcessFacts = {
  readonly config: FullConfig
  readonly problems: readonly HealthProblem[]
  readonly ledgerLag: number
  readonly counts: ProcessCounts
  readonly certificates: NonNullable<AlertView['certificates']>
  /** Of the last drill. */
  readonly drilled: readonly RouteReport[]
}

export const processView = (
  gateway: Gateway,
  { config, problems, ledgerLag, counts, certificates, drilled }: ProcessFacts,
): ProcessView => {
  const { health } = gateway
  const outages = outagesOf(health, config, (instance) => defaultModelOf(gateway, instance))
  return {
    ...counts,
    retiring: retiringIn(gateway, YEAR, recentModels(gateway)).map(({ instance, model, retirement }) => {
      const { at, successor = null } = retirement
      return { provider: instance.id, model, at, successor }
    }),
    certificates,
    drillLosses: lossesOf(drilled),
    stoppedCanaries: gateway.health.canaries.stopped(config),
    openCircuits: outages.providers,
    closedRoutes: outages.routes,
    deadKeys: config.instances.flatMap((instance) =>
      instance.keys.flatMap((key) => {
        const why = health.cooldowns.of(keyId(instance, key))?.why
        return why !== undefined && DEAD.includes(why) ? [{ provider: instance.id, key: key.id, why }] : []
      }),
    ),
    brokenStores: problems.flatMap(({ component, reason }) => {
      const store = STORES[component]
      return store ? [{ store, reason }] : []
    }),
    ledgerLag,
  }
}

/** Of providers alone: their models, keys and regions would say the same again. */
const lossesOf = (routes: readonly RouteReport[]): NonNullable<AlertView['drillLosses']> =>
  routes.flatMap(({ route, requests, units }) =>
    units.flatMap((unit) =>
      unit.lost && !/[/#:]/.test(unit.unit)
        ? [{ route, requests, unit: unit.unit, lost: unit.lost, message: lossText(route, unit) }]
        : [],
    ),
  )

/** ms; alerts are sent at most so long before the end of a model. */
const YEAR = 365 * 24 * 3_600_000

/** Budgets of one gateway that others are sent. */
const MAX_REACHED = 500

/** The budgets that have reached a threshold, in percent; of many those that are spent the most. */
export const reachedBudgets = (all: readonly BudgetView[], thresholds: readonly number[]): readonly BudgetView[] => {
  const share = ({ spent, budget }: BudgetView) => spent / Math.max(1, budget.amount)
  return all
    .filter((one) => {
      const { alerts } = one.budget
      return one.spent > 0 && share(one) * 100 >= Math.min(...(alerts.length > 0 ? alerts : thresholds))
    })
    .toSorted((a, b) => share(b) - share(a))
    .slice(0, MAX_REACHED)
}

/** The budgets of all gateways: the most that one of them has counted. */
export const joinBudgets = (all: readonly BudgetView[]): readonly BudgetView[] =>
  [...Map.groupBy(all, ({ budget, owner, periodStart }) => `${budget.id} ${periodStart} ${owner}`).values()].flatMap(
    (states) => states.reduce((most, one) => (one.spent > most.spent ? one : most)),
  )

/**
 * The views of all processes as one: requests are added, and a circuit, a key or a store that fails in any process has failed.
 * Another process in which it has not failed may have had no request for it.
 */
export const joinViews = (all: readonly ProcessView[]): ProcessView => {
  const sum = (of: (one: ProcessView) => number) => all.reduce((total, one) => total + of(one), 0)
  return {
    answers: { all: sum(({ answers }) => answers.all), estimated: sum(({ answers }) => answers.estimated) },
    requests: { all: sum(({ requests }) => requests.all), failed: sum(({ requests }) => requests.failed) },
    openCircuits: [...new Set(all.flatMap(({ openCircuits }) => openCircuits))],
    closedRoutes: [...new Set(all.flatMap(({ closedRoutes }) => closedRoutes))],
    breakGlass: firstOfEach(
      all.flatMap(({ breakGlass = [] }) => breakGlass),
      ({ address }) => address,
    ),
    guardErrors: Array.from(
      Map.groupBy(
        all.flatMap(({ guardErrors = [] }) => guardErrors),
        ({ guard }) => guard,
      ),
      ([guard, errors]) => ({ guard, count: errors.reduce((total, { count }) => total + count, 0) }),
    ),
    loops: firstOfEach(
      all.flatMap(({ loops = [] }) => loops),
      ({ session }) => session,
    ),
    stoppedCanaries: firstOfEach(
      all.flatMap(({ stoppedCanaries = [] }) => stoppedCanaries),
      ({ route }) => route,
    ),
    retiring: firstOfEach(
      all.flatMap(({ retiring = [] }) => retiring),
      ({ provider, model }) => `${provider} ${model}`,
    ),
    drillLosses: firstOfEach(
      all.flatMap(({ drillLosses = [] }) => drillLosses),
      ({ route, unit }) => `${route} ${unit}`,
    ),
    // Of gateways with different ones, the one that ends first.
    certificates: firstOfEach(
      all.flatMap(({ certificates = [] }) => certificates).toSorted((a, b) => a.notAfter - b.notAfter),
      ({ file }) => file,
    ),
    breaches: firstOfEach(
      all.flatMap(({ breaches = [] }) => breaches),
      ({ provider, model }) => `${provider} ${model}`,
    ),
    deadKeys: firstOfEach(
      all.flatMap(({ deadKeys }) => deadKeys),
      ({ provider, key }) => `${provider}#${key}`,
    ),
    brokenStores: firstOfEach(
      all.flatMap(({ brokenStores }) => brokenStores),
      ({ store }) => store,
    ),
    ledgerLag: Math.max(0, ...all.map(({ ledgerLag }) => ledgerLag)),
  }
}

const firstOfEach = <T>(list: readonly T[], idOf: (one: T) => string): readonly T[] =>
  [...Map.groupBy(list, idOf).values()].flatMap(([first]) => first ?? [])

/** With the name of a team or key in place of its ID. */
const withOwnerName = (state: BudgetView, { teams, keys }: Directory): BudgetView => {
  const { per } = state.budget
  if (per !== 'team' && per !== 'key') return state
  const name = (per === 'team' ? teams : keys).get(state.owner)?.name
  return name === undefined ? state : { ...state, owner: name }
}

/** What is the same in all processes. */
export const sharedView = async (
  { accounts }: Gateway,
  directory: Directory,
): Promise<Pick<AlertView, 'budgets' | 'keys'>> => ({
  budgets: (await accounts.budgetFigures()).states.map((state) => withOwnerName(state, directory)),
  keys: [...directory.keys.values()],
})
