/** The state of the gateway for alerts. */
import type { Directory } from '../../core/accounts.ts'
import type { FullConfig } from '../../core/config.ts'
import { keyId } from '../../core/target.ts'
import { outagesOf } from '../../gateway/endpoints/outages.ts'
import { defaultModelOf, type HealthProblem } from '../../gateway/endpoints/pages.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { AlertView, BudgetView } from '../../policy/alerts/conditions.ts'

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
} as const

/** What the gateway does not contain. `ledgerLag`: ms by which the usage database lags behind the journal. */
export type AlertFacts = {
  readonly config: FullConfig
  readonly directory: Directory
  readonly problems: readonly HealthProblem[]
  readonly ledgerLag: number
}

/** With the name of a team or key in place of its ID. */
const withOwnerName = (state: BudgetView, { teams, keys }: Directory): BudgetView => {
  const { per } = state.budget
  if (per !== 'team' && per !== 'key') return state
  const name = (per === 'team' ? teams : keys).get(state.owner)?.name
  return name === undefined ? state : { ...state, owner: name }
}

/** The part of the view that is not counted from events. */
export type StateView = Omit<AlertView, 'now' | 'answers' | 'requests'>

export const alertView = async (
  gateway: Gateway,
  { config, directory, problems, ledgerLag }: AlertFacts,
): Promise<StateView> => {
  const { accounts, health } = gateway
  const outages = outagesOf(health, config, (instance) => defaultModelOf(gateway, instance))
  return {
    budgets: (await accounts.budgetFigures()).states.map((state) => withOwnerName(state, directory)),
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
    keys: [...directory.keys.values()],
  }
}
