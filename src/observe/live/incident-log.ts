/**
 * Derives the outages of providers from the changes of circuits: an incident begins when the first circuit of a provider opens
 * and ends when all of them are closed. Half-open and open pairs in between are part of it. Requests are counted from the
 * failures that opened the circuit.
 */
import { rowOf } from '../../core/failure.ts'
import type { GatewayEvent, Trace } from '../../core/trace.ts'
import { type AttemptRecord, summaryOf, type TraceSummary } from '../../core/trace-summary.ts'
import { type Incident, RESUME } from './incident.ts'
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
  /** The incidents that must survive a restart have changed. */
  readonly changed: (incidents: readonly Incident[]) => void
  /** Those of earlier processes, the oldest first. */
  readonly earlier?: readonly Incident[]
}

type Tracked = {
  incident: Incident
  /** The circuits that are not closed. */
  readonly open: Set<string>
}

/** Incidents that are kept, circuits of one that are followed, and models of one that are listed. */
const MOST = { incidents: 500, circuits: 1_000, models: 50, recent: 100 } as const
/** ms before a circuit opens within which failures are part of its incident. */
const LEAD = 60_000
/** Why a target was skipped: its circuit. */
const SKIPPED: ReadonlySet<string> = new Set(['circuit', 'warming'])

export class IncidentLog {
  readonly #options: IncidentLogOptions
  /** Over for a minute, the oldest first. */
  #past: Incident[]
  /** Those that last, and those that ended less than a minute ago. */
  #current: Tracked[] = []
  /** Requests that failed at a target without an incident, the oldest first. `at`: ms since 1970. */
  #recent: { readonly at: number; readonly summary: TraceSummary }[] = []
  #count = 0

  constructor(options: IncidentLogOptions) {
    this.#options = options
    const now = options.date()
    this.#past = (options.earlier ?? []).map((one) =>
      one.end === null ? { ...one, end: now, ended_by: 'restart' } : one,
    )
  }

  observe(event: GatewayEvent): void {
    if (event.event === 'request') this.#countRequest(event.trace)
    else if (event.event === 'circuit' && event.what !== 'provider') this.#follow(event)
  }

  /** All incidents, the newest first. */
  all(): readonly Incident[] {
    const known = new Set(this.#options.providers())
    for (const tracked of this.#current)
      if (tracked.open.size > 0 && !tracked.incident.providers.some((id) => known.has(id))) {
        tracked.open.clear()
        this.#end(tracked, 'removed')
      }
    return [...this.#past, ...this.#current.map(({ incident }) => incident)].toReversed()
  }

  /** Ends those that last: the circuits end with the process. */
  stop(): void {
    const last = this.#current.filter(({ open }) => open.size > 0)
    for (const tracked of last) {
      tracked.incident = { ...tracked.incident, end: this.#options.date(), ended_by: 'restart' }
      this.#options.report(tracked.incident)
    }
    if (this.#current.length > 0) this.#save()
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
        id: `inc_${begin.toString(36)}_${++this.#count}`,
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
      this.#current.push({ incident: whole, open: new Set([circuit]) })
      this.#options.report(whole)
      this.#save()
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
  }

  #end(tracked: Tracked, ended_by: Incident['ended_by']): void {
    const end = this.#options.date()
    tracked.incident = { ...tracked.incident, end, ended_by }
    this.#options.later(RESUME, () => {
      // It may have begun again, and ended later.
      if (tracked.incident.end !== end || !this.#current.includes(tracked)) return
      this.#current = this.#current.filter((one) => one !== tracked)
      this.#past = [...this.#past, tracked.incident].slice(-MOST.incidents)
      this.#options.report(tracked.incident)
      this.#save()
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
      isMet = true
    }
    if (isMet || !summary.attempts.some(hasFailed)) return
    this.#recent = [...this.#recent, { at: this.#options.date(), summary }].slice(-MOST.recent)
  }

  #save(): void {
    this.#options.changed([...this.#past, ...this.#current.map(({ incident }) => incident)].slice(-MOST.incidents))
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
