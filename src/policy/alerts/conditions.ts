/** What deserves an alert now. Pure: `alert-state.ts` decides when an alert is sent, and that it is sent once. */
import type { Budget, ClientKey } from '../../core/accounts.ts'
import type { Alerts } from '../../core/config.ts'
import { formatDollars, type Nano } from '../../core/money.ts'

export type AlertRule = keyof Alerts['rules']

/** Something that deserves an alert while it lasts. */
export type AlertCondition = {
  readonly rule: AlertRule
  readonly type: string
  readonly severity: 'warning' | 'critical'
  readonly object: { readonly kind: string; readonly id: string; readonly name: string }
  /** What was reached, such as `80` or `7d`; empty if the rule has one threshold. */
  readonly threshold: string
  /** The period in which it is sent once, by its begin or end; empty: each time it begins. */
  readonly occasion: string
  /** The end of that period, in ms since 1970; null: there is none. */
  readonly until: number | null
  /** ms for which it must last. */
  readonly after: number
  /** Dollars, ms, percent or a time in ms since 1970, by the rule; so is `limit`. */
  readonly value: number | null
  readonly limit: number | null
  readonly message: string
}

export type BudgetView = {
  readonly budget: Budget
  readonly owner: string
  readonly periodStart: number
  readonly periodEnd: number
  readonly spent: Nano
}

/** The current state of the gateway. Times in ms. */
export type AlertView = {
  readonly now: number
  readonly budgets: readonly BudgetView[]
  /** Providers whose circuit is not closed. */
  readonly openCircuits: readonly string[]
  /** Provider keys that are refused. `key`: its fingerprint. */
  readonly deadKeys: readonly { readonly provider: string; readonly key: string; readonly why: string }[]
  /** Stores that do not work, by name, with the reason. */
  readonly brokenStores: readonly { readonly store: string; readonly reason: string }[]
  readonly ledgerLag: number
  /** Answers of the last hour. */
  readonly answers: { readonly all: number; readonly estimated: number }
  readonly keys: readonly Pick<ClientKey, 'id' | 'name' | 'status' | 'expiresAt'>[]
}

const DAY = 24 * 3_600_000
const NANO = 1e9
/** Answers in an hour below which their share is not judged. */
const MIN_ANSWERS = 20

/** All conditions that hold. */
export const alertConditions = (rules: Alerts['rules'], view: AlertView): AlertCondition[] => [
  ...view.budgets.flatMap((state) => budgetConditions(rules, state)),
  ...(rules.circuitOpen === 0 ? [] : view.openCircuits.map((provider) => circuitCondition(rules, provider))),
  ...(rules.keyDead ? view.deadKeys.map(keyDeadCondition) : []),
  ...(rules.storeDown === 0 ? [] : view.brokenStores.map((broken) => storeCondition(rules, broken))),
  ...(rules.ledgerLag === 0 || view.ledgerLag < rules.ledgerLag ? [] : [lagCondition(rules, view)]),
  ...estimatedConditions(rules, view),
  ...view.keys.flatMap((key) => expiryConditions(rules, key, view.now)),
]

const budgetConditions = (rules: Alerts['rules'], state: BudgetView): AlertCondition[] => {
  const { budget, owner, periodStart, periodEnd, spent } = state
  const thresholds = budget.alerts.length > 0 ? budget.alerts : rules.budget
  const of = owner === '' ? '' : ` of ${owner}`
  return thresholds
    .filter((percent) => spent > 0 && spent >= (budget.amount * percent) / 100)
    .map((percent) => ({
      rule: 'budget',
      type: 'budget.threshold',
      severity: percent >= 100 ? 'critical' : 'warning',
      object: { kind: 'budget', id: owner === '' ? budget.id : `${budget.id}:${owner}`, name: budget.name },
      threshold: String(percent),
      occasion: String(periodStart),
      until: periodEnd,
      after: 0,
      value: spent / NANO,
      limit: budget.amount / NANO,
      message: `The budget "${budget.name}"${of} has spent ${dollars(spent)} of ${dollars(budget.amount)} dollars (${percent} % reached).`,
    }))
}

const dollars = (nano: Nano): string => formatDollars(nano).replace(/(\.[0-9]{2}[0-9]*?)0+$/, '$1')

/** What conditions without a period have in common. */
const EPISODE = { threshold: '', occasion: '', until: null, value: null, limit: null } as const

const circuitCondition = ({ circuitOpen }: Alerts['rules'], provider: string): AlertCondition => ({
  ...EPISODE,
  rule: 'circuitOpen',
  type: 'circuit.open',
  severity: 'critical',
  object: { kind: 'provider', id: provider, name: provider },
  after: circuitOpen,
  limit: circuitOpen,
  message: `The circuit of the provider ${provider} is open for ${seconds(circuitOpen)} s: it receives no calls.`,
})

const keyDeadCondition = ({ provider, key, why }: AlertView['deadKeys'][number]): AlertCondition => ({
  ...EPISODE,
  rule: 'keyDead',
  type: 'key.dead',
  severity: 'critical',
  object: { kind: 'provider_key', id: `${provider}#${key}`, name: `${provider}#${key}` },
  after: 0,
  message: `The provider ${provider} refuses the key ${key} (${why}).`,
})

const storeCondition = (
  { storeDown }: Alerts['rules'],
  { store, reason }: AlertView['brokenStores'][number],
): AlertCondition => ({
  ...EPISODE,
  rule: 'storeDown',
  type: 'store.down',
  severity: 'critical',
  object: { kind: 'store', id: store, name: store },
  after: storeDown,
  limit: storeDown,
  message: `The store ${store} does not work for ${seconds(storeDown)} s: ${reason}.`,
})

const lagCondition = ({ ledgerLag: limit }: Alerts['rules'], { ledgerLag: value }: AlertView): AlertCondition => ({
  ...EPISODE,
  rule: 'ledgerLag',
  type: 'ledger.lag',
  severity: 'warning',
  object: { kind: 'store', id: 'usage', name: 'usage' },
  after: 0,
  value,
  limit,
  message: `The usage database lags ${seconds(value)} s behind the journal (limit ${seconds(limit)} s).`,
})

const estimatedConditions = ({ estimatedShare: limit }: Alerts['rules'], { answers }: AlertView): AlertCondition[] => {
  const { all, estimated } = answers
  const value = Math.round((100 * estimated) / all)
  if (limit === 0 || all < MIN_ANSWERS || 100 * estimated < limit * all) return []
  return [
    {
      ...EPISODE,
      rule: 'estimatedShare',
      type: 'usage.estimated',
      severity: 'warning',
      object: { kind: 'usage', id: 'usage', name: 'usage' },
      after: 0,
      value,
      limit,
      message: `The usage of ${value} % of the answers of the last hour is estimated (limit ${limit} %): their providers did not count it.`,
    },
  ]
}

const expiryConditions = (
  { keyExpiry }: Alerts['rules'],
  { id, name, status, expiresAt }: AlertView['keys'][number],
  now: number,
): AlertCondition[] => {
  if (expiresAt === null || expiresAt <= now || status !== 'active') return []
  return keyExpiry
    .filter((days) => days > 0 && expiresAt - now <= days * DAY)
    .map((days) => ({
      rule: 'keyExpiry',
      type: 'key.expiry',
      severity: 'warning',
      object: { kind: 'key', id, name },
      threshold: `${days}d`,
      occasion: String(expiresAt),
      until: expiresAt,
      after: 0,
      value: expiresAt,
      limit: null,
      message: `The client key "${name}" expires at ${new Date(expiresAt).toISOString()}.`,
    }))
}

const seconds = (ms: number): number => Math.round(ms / 1000)
