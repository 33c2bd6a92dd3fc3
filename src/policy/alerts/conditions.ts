/** What deserves an alert now. Pure: `alert-state.ts` decides when an alert is sent, and that it is sent once. */
import type { Budget, ClientKey } from '../../core/accounts.ts'
import type { Alerts } from '../../core/config.ts'
import type { FoundLoop } from '../../core/loops.ts'
import { formatDollars, type Nano } from '../../core/money.ts'
import { boundedMessage, quotedName } from './quoted-name.ts'

export type AlertRule = Exclude<keyof Alerts['rules'], 'failedLeast' | 'failedWindow'>

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
  /** Names that others chose are in double quotes (`quotedName`). */
  readonly message: string
  /** Any client can cause it at will. Its alert is sent after all others, and dropped before them. */
  readonly byClients?: true
}

export type BudgetView = {
  readonly budget: Budget
  /** The name of a team, key or user; empty: all, or requests without a user. */
  readonly owner: string
  readonly periodStart: number
  readonly periodEnd: number
  readonly spent: Nano
}

/** `session`: its ID. */
export type SessionLoop = Pick<FoundLoop, 'detector' | 'tool' | 'times'> & {
  readonly session: string
  readonly team: string
}

/** The current state of the gateway. Times in ms. */
export type AlertView = {
  readonly now: number
  readonly budgets: readonly BudgetView[]
  /** Providers whose base URL or whose models in use have no closed circuit. */
  readonly openCircuits: readonly string[]
  /** Routes without a target that could be tried. */
  readonly closedRoutes: readonly string[]
  /** Provider keys that are refused. `key`: its fingerprint. */
  readonly deadKeys: readonly { readonly provider: string; readonly key: string; readonly why: string }[]
  /** Stores that do not work, by name, with the reason. */
  readonly brokenStores: readonly { readonly store: string; readonly reason: string }[]
  readonly ledgerLag: number
  /** Answers of the last hour. */
  readonly answers: { readonly all: number; readonly estimated: number }
  /** Requests in the window of the rule `failedShare`; without those that the gateway refused or whose client left. */
  readonly requests: { readonly all: number; readonly failed: number }
  /** Addresses from which the token of `auth.admin` was used in the last ten minutes, although people sign in. Absent: none. */
  readonly breakGlass?: readonly { readonly address: string }[]
  /** Targets that were about to receive a request whose data policy they do not satisfy, in the last hour. Absent: none. */
  readonly breaches?: readonly { readonly provider: string; readonly model: string; readonly lack: string }[]
  /** Loops of sessions in the last hour, where `loops` is `alert` or `block`. Absent: none. */
  readonly loops?: readonly SessionLoop[]
  /** Requests of the last ten minutes that the service of a guard has not checked. Absent: none. */
  readonly guardErrors?: readonly { readonly guard: string; readonly count: number }[]
  /** Canaries that are stopped. `since`: ms since 1970. Absent: none. */
  readonly stoppedCanaries?: readonly { readonly route: string; readonly since: number; readonly reason: string }[]
  /** Models in use that end within a year. Absent: none. `successor` null: none is known. */
  readonly retiring?: readonly {
    readonly provider: string
    readonly model: string
    readonly at: number
    readonly successor: string | null
  }[]
  /** What routes would lose if a provider failed. `requests`: of the route. Absent: nothing. */
  readonly drillLosses?: readonly {
    readonly route: string
    readonly unit: string
    readonly lost: number
    readonly requests: number
    readonly message: string
  }[]
  /** Certificates of the port. `notAfter`: ms since 1970. Absent: the port takes plain HTTP. */
  readonly certificates?: readonly { readonly file: string; readonly notAfter: number }[]
  readonly keys: readonly Pick<ClientKey, 'id' | 'name' | 'status' | 'expiresAt'>[]
}

const DAY = 24 * 3_600_000
const NANO = 1e9
/** Answers in an hour below which their share is not judged. */
const MIN_ANSWERS = 20

/** All conditions that hold. */
export const alertConditions = (rules: Alerts['rules'], view: AlertView): AlertCondition[] =>
  found(rules, view).map((condition) => ({ ...condition, message: boundedMessage(condition.message) }))

const found = (rules: Alerts['rules'], view: AlertView): AlertCondition[] => [
  ...[...Map.groupBy(view.budgets, ({ budget }) => budget.id).values()].flatMap((states) =>
    budgetConditions(rules, states),
  ),
  ...(rules.circuitOpen === 0
    ? []
    : [
        ...view.openCircuits.map((provider) => circuitCondition(rules, provider)),
        ...view.closedRoutes.map((route) => routeCondition(rules, route)),
      ]),
  ...failedConditions(rules, view),
  ...(rules.keyDead ? view.deadKeys.map(keyDeadCondition) : []),
  ...(rules.breakGlass ? (view.breakGlass ?? []).map(breakGlassCondition) : []),
  ...guardConditions(rules, view),
  ...(rules.loop ? (view.loops ?? []).map(loopCondition) : []),
  ...(rules.canaryStopped ? (view.stoppedCanaries ?? []).map(canaryCondition) : []),
  ...(rules.policyBreach ? (view.breaches ?? []).map(breachCondition) : []),
  ...(rules.storeDown === 0 ? [] : view.brokenStores.map((broken) => storeCondition(rules, broken))),
  ...(rules.ledgerLag === 0 || view.ledgerLag < rules.ledgerLag ? [] : [lagCondition(rules, view)]),
  ...estimatedConditions(rules, view),
  ...view.keys.flatMap((key) => expiryConditions(rules, key, view.now)),
  ...(view.retiring ?? []).flatMap((model) => retirementConditions(rules, model, view.now)),
  ...(view.drillLosses ?? []).flatMap((loss) => drillConditions(rules, loss)),
  ...(view.certificates ?? []).flatMap((certificate) => certificateConditions(rules, certificate, view.now)),
]

/** One for each threshold, however many owners have reached it: clients name the owners of some budgets. */
const budgetConditions = (rules: Alerts['rules'], states: readonly BudgetView[]): AlertCondition[] => {
  const [any] = states
  if (!any) return []
  const { id, name, amount, alerts, per } = any.budget
  const thresholds = alerts.length > 0 ? alerts : rules.budget
  return thresholds.flatMap((percent): AlertCondition[] => {
    const reached = states.filter(({ spent }) => spent > 0 && spent >= (amount * percent) / 100)
    const most = mostSpent(reached)
    const [first] = most
    if (!first) return []
    const spent = `${dollars(first.spent)} of ${dollars(amount)} dollars`
    return [
      {
        rule: 'budget',
        type: 'budget.threshold',
        severity: percent >= 100 ? 'critical' : 'warning',
        object: { kind: 'budget', id, name },
        threshold: String(percent),
        occasion: String(first.periodStart),
        until: first.periodEnd,
        after: 0,
        value: first.spent / NANO,
        limit: amount / NANO,
        message:
          per === 'all'
            ? `The budget ${quotedName(name)} has spent ${spent} (${percent} % reached).`
            : `The budget ${quotedName(name)} is ${percent} % spent for ${ownersOf(most, reached.length)} (${spent}).`,
        ...((per === 'end_user' || per === 'session') && { byClients: true }),
      },
    ]
  })
}

/** Owners that a message names. */
const MAX_NAMED = 3

/** The states that spent the most, in this order. Sorts only a few: a budget has up to 100,000 owners. */
const mostSpent = (states: readonly BudgetView[]): readonly BudgetView[] => {
  let most: BudgetView[] = []
  for (const state of states)
    if (most.length < MAX_NAMED || state.spent > (most.at(-1)?.spent ?? 0))
      most = [...most, state].sort((a, b) => b.spent - a.spent).slice(0, MAX_NAMED)
  return most
}

/** The owner of the counter that requests without a user share. */
const NAMELESS = 'requests without a user'

/** `1 owner: "a"`, or the count and the owners that spent the most. */
const ownersOf = (most: readonly BudgetView[], count: number): string => {
  const names = most.map(({ owner }) => (owner === '' ? NAMELESS : quotedName(owner))).join(', ')
  return count === 1 ? `1 owner: ${names}` : `${count} owners, the most by ${names}`
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
  message: `The provider ${provider} has had no closed circuit for ${seconds(circuitOpen)} s: it receives only probes.`,
})

const routeCondition = ({ circuitOpen }: Alerts['rules'], route: string): AlertCondition => ({
  ...EPISODE,
  rule: 'circuitOpen',
  type: 'route.unavailable',
  severity: 'critical',
  object: { kind: 'route', id: route, name: route },
  after: circuitOpen,
  limit: circuitOpen,
  message: `No target of the route ${quotedName(route)} has been available for ${seconds(circuitOpen)} s: their circuits are open, or their keys are not usable.`,
})

const failedConditions = (
  { failedShare: limit, failedLeast, failedWindow }: Alerts['rules'],
  { requests: { all, failed } }: AlertView,
): AlertCondition[] => {
  if (limit === 0 || all < failedLeast || 100 * failed < limit * all) return []
  const value = Math.round((100 * failed) / all)
  return [
    {
      ...EPISODE,
      rule: 'failedShare',
      type: 'requests.failed',
      severity: 'critical',
      object: { kind: 'requests', id: 'requests', name: 'requests' },
      after: 0,
      value,
      limit,
      message: `${value} % of ${all} requests in ${seconds(failedWindow)} s have failed (limit ${limit} %).`,
    },
  ]
}

const keyDeadCondition = ({ provider, key, why }: AlertView['deadKeys'][number]): AlertCondition => ({
  ...EPISODE,
  rule: 'keyDead',
  type: 'key.dead',
  severity: 'critical',
  object: { kind: 'provider_key', id: `${provider}#${key}`, name: `${provider}#${key}` },
  after: 0,
  message: `The provider ${provider} refuses the key ${key} (${why}).`,
})

const breakGlassCondition = ({ address }: NonNullable<AlertView['breakGlass']>[number]): AlertCondition => ({
  ...EPISODE,
  rule: 'breakGlass',
  type: 'auth.break_glass',
  severity: 'critical',
  object: { kind: 'token', id: 'bootstrap', name: 'auth.admin' },
  // Of several addresses one alert each.
  threshold: address,
  after: 0,
  message: `The token of auth.admin was used from ${address}, although people sign in with single sign-on. The audit log has the request (breakglass.use).`,
})

const guardConditions = ({ guardErrors }: Alerts['rules'], view: AlertView): AlertCondition[] =>
  (view.guardErrors ?? []).flatMap(({ guard, count }) => {
    if (guardErrors === 0 || count < guardErrors) return []
    return {
      ...EPISODE,
      rule: 'guardErrors',
      type: 'guard.errors',
      severity: 'critical',
      object: { kind: 'guard', id: guard, name: guard },
      after: 0,
      value: count,
      limit: guardErrors,
      message: `The service of the guard ${quotedName(guard)} has not checked ${count} requests in the last ten minutes. The log has the reasons (guard_error).`,
    }
  })

/** One alert for a session. */
const loopCondition = ({ session, team, detector, tool, times }: SessionLoop): AlertCondition => ({
  ...EPISODE,
  rule: 'loop',
  type: 'session.loop',
  severity: 'warning',
  object: { kind: 'session', id: session, name: session },
  after: 0,
  value: times,
  message: `The session ${session} of the team ${quotedName(team)} repeats itself (${detector}${tool === '' ? '' : ` ${quotedName(tool)}`}, ${times} times). headgate explain --session shows its requests.`,
})

const breachCondition = ({ provider, model, lack }: NonNullable<AlertView['breaches']>[number]): AlertCondition => ({
  ...EPISODE,
  rule: 'policyBreach',
  type: 'policy.breach',
  severity: 'critical',
  object: { kind: 'provider', id: provider, name: provider },
  // Of several models one alert each.
  threshold: model,
  after: 0,
  message: `A request was planned for ${quotedName(`${provider}/${model}`)}, which does not satisfy its data policy (${lack}). Nothing was sent; this is a bug of the gateway.`,
})

const canaryCondition = ({
  route,
  since,
  reason,
}: NonNullable<AlertView['stoppedCanaries']>[number]): AlertCondition => ({
  ...EPISODE,
  rule: 'canaryStopped',
  type: 'canary.stopped',
  severity: 'warning',
  object: { kind: 'route', id: route, name: route },
  occasion: String(since),
  after: 0,
  message: `The canary of the route ${quotedName(route)} is stopped: ${reason}. Its share is 0; POST /admin/api/v1/canaries resumes it.`,
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
      message: `The client key ${quotedName(name)} expires at ${new Date(expiresAt).toISOString()}.`,
    }))
}

const retirementConditions = (
  { modelRetires }: Alerts['rules'],
  { provider, model, at, successor }: NonNullable<AlertView['retiring']>[number],
  now: number,
): AlertCondition[] => {
  if (at <= now) return []
  const name = `${provider}/${model}`
  const replaced = successor === null ? '' : ` Its successor is ${quotedName(successor)}.`
  return modelRetires
    .filter((days) => at - now <= days * DAY)
    .map((days) => ({
      rule: 'modelRetires',
      type: 'model.retires',
      severity: 'warning',
      object: { kind: 'model', id: name, name },
      threshold: `${days}d`,
      occasion: String(at),
      until: at,
      after: 0,
      value: at,
      limit: null,
      message: `The provider ends the model ${quotedName(name)} at ${new Date(at).toISOString()}.${replaced}`,
    }))
}

/** Requests of a route below which its loss is not judged. */
const MIN_DRILLED = 20

const drillConditions = (
  { drillLost: limit }: Alerts['rules'],
  { route, unit, lost, requests, message }: NonNullable<AlertView['drillLosses']>[number],
): AlertCondition[] => {
  const value = 100 * lost
  if (limit === 0 || requests < MIN_DRILLED || value < limit) return []
  return [
    {
      ...EPISODE,
      rule: 'drillLost',
      type: 'drill.lost',
      severity: 'warning',
      object: { kind: 'route', id: route, name: route },
      // Of several units one alert each.
      threshold: unit,
      after: 0,
      value: Math.round(value),
      limit,
      message: `${message.charAt(0).toUpperCase()}${message.slice(1)}.`,
    },
  ]
}

const certificateConditions = (
  { certExpiry }: Alerts['rules'],
  { file, notAfter }: NonNullable<AlertView['certificates']>[number],
  now: number,
): AlertCondition[] => {
  const about = {
    rule: 'certExpiry',
    object: { kind: 'certificate', id: file, name: file },
    occasion: String(notAfter),
    after: 0,
    value: notAfter,
    limit: null,
  } as const
  const end = new Date(notAfter).toISOString()
  if (certExpiry.length > 0 && notAfter <= now) {
    const message = `The certificate ${quotedName(file)} of the port has expired at ${end}. Clients refuse the connection.`
    return [{ ...about, type: 'certificate.expired', severity: 'critical', threshold: 'expired', until: null, message }]
  }
  return certExpiry
    .filter((days) => notAfter - now <= days * DAY)
    .map((days) => ({
      ...about,
      type: 'certificate.expiry',
      severity: 'warning',
      threshold: `${days}d`,
      until: notAfter,
      message: `The certificate ${quotedName(file)} of the port expires at ${end}.`,
    }))
}

const seconds = (ms: number): number => Math.round(ms / 1000)
