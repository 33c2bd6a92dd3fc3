/**
 * Sends alerts. A timer reads the state of the gateway and compares it with the alerts that were sent; what is due is first
 * saved and then sent, so that neither a restart nor a receiver that is down loses or repeats an alert. A request that was sent
 * but not confirmed is repeated with the same `webhook-id`. Of several gateways one sends the alerts of all; if it ends, another
 * one continues with what it has saved.
 */
import { createHash, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Alerts } from '../../core/config.ts'
import type { Dial } from '../../core/world.ts'
import {
  type AlertEntries,
  type AlertEntry,
  type DueAlert,
  type FiredEntry,
  nextAlerts,
  rankOf,
  restoredEntries,
  storedEntries,
} from '../../policy/alerts/alert-state.ts'
import { type AlertCondition, type AlertRule, type AlertView, alertConditions } from '../../policy/alerts/conditions.ts'
import type { AlertStorage } from './alert-storage.ts'
import { alertBody, sendAlert, slackBody, withUndelivered } from './webhook.ts'

export type AlertingOptions = {
  readonly storage: AlertStorage
  /** The current settings; null: no alerts are sent. */
  readonly alerts: () => Alerts | null
  /** The state of all processes now. `window`: ms in which failed requests are counted. */
  readonly view: (window: number) => Promise<Omit<AlertView, 'now'>>
  /** Connects to the receiver. */
  readonly dial: Dial
  readonly report: (event: AlertingEvent) => void
  /** ms between two looks at the state. */
  readonly interval?: number
  /** ms before each try of an alert. */
  readonly delays?: readonly number[]
  /** ms for which a condition must be over. */
  readonly resolveAfter?: number
}

/** `failed`: after the last try. `dropped`: so many alerts of each rule, since too many wait. `ignored`: too many conditions. */
export type AlertingEvent =
  | { readonly result: 'sent'; readonly rule: AlertRule }
  | { readonly result: 'failed'; readonly rule: AlertRule; readonly reason: string }
  | { readonly result: 'dropped'; readonly count: number; readonly rules: ReadonlyMap<AlertRule, number> }
  | { readonly result: 'ignored'; readonly count: number }
  | { readonly result: 'unstored'; readonly reason: string }

/** The alerts that were sent, and their delivery. Times as ISO 8601. Plain JSON data. */
export type AlertingState = {
  /** Those that are not over. */
  readonly alerts: readonly SentAlert[]
  /** Those that are over, the last one first. */
  readonly past: readonly PastAlert[]
  /** When an alert of each rule was last due. A rule without a time never had one in this data folder. */
  readonly fired: { readonly [rule: string]: string }
  /** Alerts that the receiver has not confirmed yet. */
  readonly waiting: number
  /** Alerts that were dropped or given up, and that no alert after them has mentioned yet. */
  readonly undelivered: number
  /** The last delivery that succeeded or was given up; null: none since the start. */
  readonly last: {
    readonly at: string
    readonly rule: string
    readonly result: 'sent' | 'failed'
    readonly reason: string | null
  } | null
}

type SentAlert = Pick<AlertCondition, 'rule' | 'type' | 'severity' | 'object' | 'value' | 'limit' | 'message'> & {
  readonly threshold: string | null
  readonly since: string
  readonly sent_at: string
}

type PastAlert = SentAlert & { readonly ended_at: string }

/** An alert that is not confirmed. `tries`: those made. `nextAt`: ms since 1970. Plain JSON data. */
type Delivery = {
  readonly id: string
  readonly rule: AlertRule
  /** Lower ranks are sent first. */
  readonly rank: number
  readonly body: string
  /** The alerts that its body reports as not delivered. */
  readonly undelivered: number
  readonly tries: number
  readonly nextAt: number
}

type StoredAlerts = {
  readonly version: 2
  readonly entries: readonly AlertEntry[]
  readonly waiting: readonly Delivery[]
  readonly undelivered: number
  /** Absent: an older version has stored it. */
  readonly past?: readonly PastAlert[]
  readonly fired?: AlertingState['fired']
}

const NOTHING: StoredAlerts = { version: 2, entries: [], waiting: [], undelivered: 0 }
const INTERVAL = 5_000
/** Five tries in ten minutes. */
const DELAYS: readonly number[] = [0, 5_000, 30_000, 120_000, 420_000]
/** Alerts that wait for their receiver. */
const MAX_WAITING = 100
/** Requests to the receiver at a time. */
const MAX_SENDING = 10
/** Alerts in the state. */
const MAX_LISTED = 200
/** Alerts that are over and kept; each has about 500 bytes. */
const MAX_PAST = 100
/** ms after which a gateway that has never reached the shared storage sends alerts of its own. */
const ALONE = 60_000

export class Alerting {
  readonly #options: AlertingOptions
  readonly #stopped = new AbortController()
  readonly #timer: NodeJS.Timeout
  /** Null: not loaded. */
  #entries: AlertEntries | null = null
  /** Whether this gateway sends the alerts; null: it was never known. */
  #isSender: boolean | null = null
  readonly #startedAt = Date.now()
  #waiting: readonly Delivery[] = []
  #undelivered = 0
  #past: readonly PastAlert[] = []
  #fired: AlertingState['fired'] = {}
  #ignored = 0
  #last: AlertingState['last'] = null
  #working: Promise<void> | null = null
  #isUnstored = false

  /** Starts at once. */
  constructor(options: AlertingOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#start(), options.interval ?? INTERVAL).unref()
    this.#start()
  }

  /** The newest alert comes first. Null: another gateway sends them. */
  state(): AlertingState | null {
    if (!this.#sends()) return null
    const alerts = [...(this.#entries?.values() ?? [])].flatMap((entry) =>
      entry.firedAt === null || entry.resolved ? [] : [{ ...entry, firedAt: entry.firedAt }],
    )
    return {
      alerts: alerts
        .toSorted((a, b) => b.firedAt - a.firedAt)
        .slice(0, MAX_LISTED)
        .map(sentAlert),
      past: this.#past,
      fired: this.#fired,
      waiting: this.#waiting.length,
      undelivered: this.#undelivered + this.#waiting.reduce((sum, { undelivered }) => sum + undelivered, 0),
      last: this.#last,
    }
  }

  /** Ends the timer and the request in progress. What is not confirmed is sent after the next start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#stopped.abort()
    await this.#working
    if (this.#isSender) await this.#options.storage.release().catch(() => {})
  }

  #start(): void {
    if (this.#working || this.#stopped.signal.aborted) return
    this.#working = this.#work().finally(() => {
      this.#working = null
    })
  }

  /** Does not throw. */
  async #work(): Promise<void> {
    const { alerts, view, resolveAfter } = this.#options
    const settings = alerts()
    if (!settings) return
    try {
      await this.#claim()
      if (!this.#sends()) return
      if (!this.#entries) await this.#load()
      const now = Date.now()
      const conditions = alertConditions(settings.rules, { ...(await view(settings.rules.failedWindow)), now })
      const next = nextAlerts(this.#entries ?? new Map(), conditions, now, resolveAfter)
      this.#entries = next.entries
      if (next.ignored > 0 && this.#ignored === 0) this.#options.report({ result: 'ignored', count: next.ignored })
      this.#ignored = next.ignored
      this.#remember(next, now)
      this.#enqueue(next.due, settings, now)
      if (next.changed || this.#isUnstored) await this.#store()
      await this.#deliver(settings)
    } catch (error) {
      this.#unstored(error)
    }
  }

  #sends(): boolean {
    return this.#isSender ?? Date.now() - this.#startedAt >= ALONE
  }

  /** While the storage cannot be used, the one that has sent the alerts continues. */
  async #claim(): Promise<void> {
    const { storage } = this.#options
    const claimed = await storage.claim().catch(() => null)
    if (claimed === null || claimed === this.#isSender) return
    this.#isSender = claimed
    if (storage.isShared) this.#entries = null
  }

  /** Keeps what has ended, and when each rule last had an alert. */
  #remember({ due, over }: Pick<ReturnType<typeof nextAlerts>, 'due' | 'over'>, now: number): void {
    const at = new Date(now).toISOString()
    const begun = due.filter(({ isResolved }) => !isResolved)
    if (begun.length > 0)
      this.#fired = { ...this.#fired, ...Object.fromEntries(begun.map(({ condition: { rule } }) => [rule, at])) }
    if (over.length > 0)
      this.#past = [...over.map((entry) => ({ ...sentAlert(entry), ended_at: at })), ...this.#past].slice(0, MAX_PAST)
  }

  #enqueue(due: readonly DueAlert[], { format }: Alerts, at: number): void {
    const node = hostname()
    const made = due.map((alert): Delivery => {
      const id = idOf(alert)
      const body = format === 'slack' ? slackBody(alert, node) : alertBody(alert, { id, at, node })
      const [first = 0] = this.#options.delays ?? DELAYS
      const { rule } = alert.condition
      const rank = rankOf(alert)
      return { id, rule, rank, body: JSON.stringify(body), undelivered: 0, tries: 0, nextAt: at + first }
    })
    if (made.length === 0) return
    // Of the same rank, the newest are kept.
    const urgent = [...this.#waiting, ...made].reverse().sort((a, b) => a.rank - b.rank)
    this.#waiting = urgent
      .slice(0, MAX_WAITING)
      .reverse()
      .sort((a, b) => a.rank - b.rank)
    const dropped = urgent.slice(MAX_WAITING)
    if (dropped.length === 0) return
    for (const { undelivered } of dropped) this.#undelivered += undelivered + 1
    const rules = new Map([...Map.groupBy(dropped, ({ rule }) => rule)].map(([rule, { length }]) => [rule, length]))
    this.#options.report({ result: 'dropped', count: dropped.length, rules })
  }

  /** Sends the most urgent; the others wait for the next look, which may find more urgent ones. */
  async #deliver(settings: Alerts): Promise<void> {
    const now = Date.now()
    const [urgent, ...others] = this.#waiting.filter(({ nextAt }) => nextAt <= now).slice(0, MAX_SENDING)
    if (!urgent) return
    const informed = { ...urgent, undelivered: urgent.undelivered + this.#undelivered }
    this.#undelivered = 0
    this.#waiting = this.#waiting.map((one) => (one === urgent ? informed : one))
    const { signal } = this.#stopped
    const { dial } = this.#options
    const send = async (one: Delivery) => {
      const message = { id: one.id, body: withUndelivered(one.body, one.undelivered) }
      return [one, await sendAlert(settings, message, { dial, signal })] as const
    }
    const problems = new Map(await Promise.all([informed, ...others].map(send)))
    this.#waiting = this.#waiting.flatMap((one) => {
      const problem = problems.get(one)
      // A request that was cut off by the shutdown is repeated after the next start.
      return problem === undefined || (problem !== null && signal.aborted) ? one : this.#afterTry(one, problem)
    })
    await this.#store()
  }

  /** The delivery after a try; empty: it is over. */
  #afterTry(delivery: Delivery, problem: string | null): Delivery[] {
    const { rule } = delivery
    const tries = delivery.tries + 1
    const delay = (this.#options.delays ?? DELAYS)[tries]
    if (problem !== null && delay !== undefined) return [{ ...delivery, tries, nextAt: Date.now() + delay }]
    if (problem !== null) this.#undelivered += delivery.undelivered + 1
    this.#last = {
      at: new Date().toISOString(),
      rule,
      result: problem === null ? 'sent' : 'failed',
      reason: problem,
    }
    this.#options.report(problem === null ? { rule, result: 'sent' } : { rule, result: 'failed', reason: problem })
    return []
  }

  async #load(): Promise<void> {
    const { storage } = this.#options
    try {
      const text = await storage.load()
      const stored: StoredAlerts = text === null ? NOTHING : JSON.parse(text)
      if (stored.version !== NOTHING.version) throw new Error('it has another version')
      this.#entries = restoredEntries(stored.entries)
      this.#waiting = [...stored.waiting]
      this.#undelivered = stored.undelivered
      this.#past = stored.past ?? []
      this.#fired = stored.fired ?? {}
    } catch (error) {
      // What others have sent would be sent again.
      if (storage.isShared && !(error instanceof SyntaxError)) throw error
      this.#entries = new Map()
      this.#unstored(error)
    }
  }

  /** Replaces what is stored. Without it, alerts are sent all the same. */
  async #store(): Promise<void> {
    const stored: StoredAlerts = {
      version: NOTHING.version,
      entries: storedEntries(this.#entries ?? new Map()),
      waiting: this.#waiting,
      undelivered: this.#undelivered,
      past: this.#past,
      fired: this.#fired,
    }
    try {
      await this.#options.storage.save(JSON.stringify(stored))
      this.#isUnstored = false
    } catch (error) {
      this.#unstored(error)
    }
  }

  /** Reports the first of several failures. */
  #unstored(error: unknown): void {
    if (this.#isUnstored) return
    this.#isUnstored = true
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'it is invalid'
    this.#options.report({ result: 'unstored', reason })
  }
}

const sentAlert = ({ condition, since, firedAt }: FiredEntry): SentAlert => {
  const { rule, type, severity, object, threshold, value, limit, message } = condition
  return {
    ...{ rule, type, severity, object, threshold: threshold === '' ? null : threshold, value, limit, message },
    since: new Date(since).toISOString(),
    sent_at: new Date(firedAt).toISOString(),
  }
}

/**
 * The ID of a message, by which a receiver recognises one that it has. That of a period follows from what it reports: gateways
 * that cannot reach each other may both send it.
 */
const idOf = ({ condition: { rule, object, threshold, occasion }, isResolved }: DueAlert): string => {
  if (occasion === '') return `msg_${randomUUID()}`
  const text = JSON.stringify([rule, object.id, threshold, occasion, isResolved])
  return `msg_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
}
