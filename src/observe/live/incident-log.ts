/**
 * Derives the outages of providers from the changes of circuits: an incident begins when the first circuit of a provider opens
 * and ends when all of them are closed. Half-open and open pairs in between are part of it. Requests are counted from the
 * failures that opened the circuit.
 */
import { rowOf } from '../../core/failure.ts'
import type { Incident } from '../../core/incident.ts'
import type { GatewayEvent, Trace } from '../../core/trace.ts'
import { type AttemptRecord, summaryOf, type TraceSummary } from '../../core/trace-summary.ts'
import { RESUME } from './incident.ts'
import { transitionOf } from './transition-log.ts'

export type IncidentLogOptions = {
  /** ms since 1970. */
  readonly date: () => number
  readonly later: (ms: number, run: () => void) => () => void
  /** The IDs of all providers, and of those with this base URL or proxy. */
  readonly providers: () => readonly string[]
  readonly sharing: (place: string) => readonly string[]
  /** An incident has begun, or is over for a minute. */
  readonly report: (incident: Incident) => void
  /** Stores an incident; a later one with the same ID replaces it. */
  readonly store: (incident: Incident) => void
  /** Letters of a new ID, which no other process of any gateway makes. */
  readonly letters: () => string
}

type Tracked = {
  incident: Incident
  /** The circuits that are not closed. */
  readonly open: Set<string>
  /** Its figures are stored soon. */
  isWaiting: boolean
}

/** Circuits of an incident that are followed, models of one that are listed, and failed requests that may belong to the next. */
const MOST = { circuits: 1_000, models: 50, recent: 100 } as const
/** ms after which changed figures are stored. */
const STORE_AFTER = 10_000
/** ms before a circuit opens within which failures are part of its incident. */
const LEAD = 60_000
/** Why a target was skipped: its circuit. */
const SKIPPED: ReadonlySet<string> = new Set(['circuit', 'warming'])

export class IncidentLog {
  readonly #options: IncidentLogOptions
  /** Those that last, and those that ended less than a minute ago. */
  #current: Tracked[] = []
  /** Requests that failed at a target without an incident, the oldest first. `at`: ms since 1970. */
  #recent: { readonly at: number; readonly summary: TraceSummary }[] = []

  constructor(options: IncidentLogOptions) {
    this.#options = options
  }

  observe(event: GatewayEvent): void {
    if (event.event === 'request') this.#countRequest(event.trace)
    else if (event.event === 'circuit' && event.what !== 'provider') this.#follow(event)
  }

  /** Those that last, and those that ended less than a minute ago, the newest first. */
  all(): readonly Incident[] {
    const known = new Set(this.#options.providers())
    for (const tracked of this.#current)
      if (tracked.open.size > 0 && !tracked.incident.providers.some((id) => known.has(id))) {
        tracked.open.clear()
        this.#end(tracked, 'removed')
      }
    return this.#current.map(({ incident }) => incident).toReversed()
  }

  /** Ends those that last: the circuits end with the process. */
  stop(): void {
    const last = this.#current.filter(({ open }) => open.size > 0)
    for (const tracked of last) {
      tracked.incident = { ...tracked.incident, end: this.#options.date(), ended_by: 'restart' }
      this.#options.report(tracked.incident)
    }
    for (const { incident } of this.#current) this.#options.store(incident)
  }

  #follow(event: Extract<GatewayEvent, { event: 'circuit' }>): void {
    const { what, name, to, why, request = null } = event
    const circuit = `${what}\n${name}`
    if (to === 'closed') {
      const tracked = this.#current.find(({ open }) => open.delete(circuit))
      if (tracked?.open.size === 0) this.#end(tracked, why === 'operator' ? 'operator' : 'recovered')
      return
    }
    if (to !== 'open' || this.#current.some(({ open }) => open.has(circuit))) return
    const place = transitionOf(event)
    if (!place) return
    const { provider, model, base_url } = place
    const providers = provider === null ? this.#options.sharing(base_url ?? '') : [provider]
    const found = this.#current.find(({ incident }) => incident.providers.some((id) => providers.includes(id)))
    if (found) this.#extend(found, circuit, { providers, model, base_url })
    else {
      const begin = this.#options.date()
      const incident: Incident = {
        id: `inc_${begin.toString(36)}_${this.#options.letters()}`,
        providers: providers.length > 0 ? providers : [base_url ?? ''],
        models: model === null ? [] : [model],
        base_url,
        begin,
        end: null,
        ended_by: null,
        cause: why,
        request,
        failures: 0,
        rerouted: 0,
        lost: 0,
      }
      const whole = this.#withEarlier(incident)
      this.#current.push({ incident: whole, open: new Set([circuit]), isWaiting: false })
      this.#options.report(whole)
      this.#options.store(whole)
    }
  }

  #extend(
    tracked: Tracked,
    circuit: string,
    { providers, model, base_url }: { providers: readonly string[]; model: string | null; base_url: string | null },
  ): void {
    const { incident, open } = tracked
    if (open.size < MOST.circuits) open.add(circuit)
    const models = new Set(incident.models)
    if (model !== null && models.size < MOST.models) models.add(model)
    tracked.incident = {
      ...incident,
      providers: [...new Set([...incident.providers, ...providers])],
      models: [...models],
      base_url: incident.base_url ?? base_url,
      end: null,
      ended_by: null,
    }
    this.#storeSoon(tracked)
  }

  #end(tracked: Tracked, ended_by: Incident['ended_by']): void {
    const end = this.#options.date()
    tracked.incident = { ...tracked.incident, end, ended_by }
    this.#options.store(tracked.incident)
    this.#options.later(RESUME, () => {
      // It may have begun again, and ended later.
      if (tracked.incident.end !== end || !this.#current.includes(tracked)) return
      this.#current = this.#current.filter((one) => one !== tracked)
      this.#options.report(tracked.incident)
    })
  }

  /** Begins an incident with the failures that led to it. */
  #withEarlier(incident: Incident): Incident {
    const { begin } = incident
    let whole = incident
    this.#recent = this.#recent.filter(({ at, summary }) => {
      const counted = at < begin - LEAD ? null : countedIn(whole, summary)
      if (counted) whole = { ...counted, begin: Math.min(whole.begin, at) }
      return counted === null
    })
    return whole
  }

  /** Adds a request to the incidents that it met. */
  #countRequest(trace: Trace): void {
    const summary = summaryOf(trace)
    let isMet = false
    for (const tracked of this.#current) {
      const counted = countedIn(tracked.incident, summary)
      if (!counted) continue
      tracked.incident = counted
      this.#storeSoon(tracked)
      isMet = true
    }
    if (isMet || !summary.attempts.some(hasFailed)) return
    this.#recent = [...this.#recent, { at: this.#options.date(), summary }].slice(-MOST.recent)
  }

  /** Stores changed figures together: many requests meet an outage. */
  #storeSoon(tracked: Tracked): void {
    if (tracked.isWaiting) return
    tracked.isWaiting = true
    this.#options.later(STORE_AFTER, () => {
      tracked.isWaiting = false
      this.#options.store(tracked.incident)
    })
  }
}

/** The incident with a request that it concerned; null: it did not. */
const countedIn = (
  incident: Incident,
  { attempts, skipped, outcome, status, provider, upstreamModel }: TraceSummary,
): Incident | null => {
  const failures = attempts.filter((one) => hasFailed(one) && isAt(incident, one.provider, one.model)).length
  if (failures === 0 && !skipped.some((one) => SKIPPED.has(one.why) && isAt(incident, one.provider, one.model)))
    return null
  const isRerouted = outcome === 'answered' && !isAt(incident, provider ?? '', upstreamModel ?? '')
  const isLost = outcome === 'interrupted' || (outcome === 'refused' && status >= 500)
  return {
    ...incident,
    failures: incident.failures + failures,
    rerouted: incident.rerouted + (isRerouted ? 1 : 0),
    lost: incident.lost + (isLost ? 1 : 0),
  }
}

const hasFailed = ({ failure }: AttemptRecord): boolean => failure !== undefined && rowOf(failure).side === 'upstream'

/** Whether a target is one of those of the incident. */
const isAt = ({ providers, models, base_url }: Incident, provider: string, model: string): boolean =>
  providers.includes(provider) && (base_url !== null || models.includes(model))
