/** Outages of providers as they are listed: one object for each, whatever number of circuits and probes it had. */

/** Plain JSON data: workers exchange it, and a file keeps it. Times in ms since 1970. */
export type Incident = {
  readonly id: string
  /** Providers whose circuits opened: several if they share a base URL or a proxy. */
  readonly providers: readonly string[]
  /** Models whose circuits opened, at most 50; empty: only that of the base URL or the proxy. */
  readonly models: readonly string[]
  /** The base URL or the proxy whose circuit opened; null: only circuits of models. */
  readonly base_url: string | null
  /** When the first circuit opened. */
  readonly begin: number
  /** When the last one closed; null: it lasts. */
  readonly end: number | null
  /** `recovered`: a probe succeeded; `restart`: the process ended, and its circuits with it. */
  readonly ended_by: 'recovered' | 'operator' | 'restart' | 'removed' | null
  /** The kind of the failure that opened the first circuit. */
  readonly cause: string
  /** The ID of the request that had it. */
  readonly request: string | null
  /** Attempts at them that failed from then on. */
  readonly failures: number
  /** Requests that another target answered. */
  readonly rerouted: number
  /** Requests that failed. */
  readonly lost: number
}

/** ms within which a circuit that opens again continues its incident. */
export const RESUME = 60_000

/** The same outage in several processes as one: incidents of the same providers that overlap, or follow within a minute. */
export const mergeIncidents = (lists: readonly (readonly Incident[])[]): readonly Incident[] => {
  const merged = new Map<string, Incident[]>()
  for (const incident of lists.flat().toSorted((one, other) => one.begin - other.begin)) {
    const name = incident.providers.toSorted().join(' ')
    const known = merged.get(name) ?? []
    merged.set(name, known)
    const last = known.at(-1)
    if (last && (last.end === null || incident.begin <= last.end + RESUME))
      known[known.length - 1] = joined(last, incident)
    else known.push(incident)
  }
  return [...merged.values()].flat().toSorted((one, other) => other.begin - one.begin)
}

const joined = (one: Incident, other: Incident): Incident => {
  const isOver = one.end !== null && other.end !== null
  const last = (other.end ?? 0) >= (one.end ?? 0) ? other : one
  return {
    ...one,
    models: [...new Set([...one.models, ...other.models])],
    base_url: one.base_url ?? other.base_url,
    end: isOver ? last.end : null,
    ended_by: isOver ? last.ended_by : null,
    failures: one.failures + other.failures,
    rerouted: one.rerouted + other.rerouted,
    lost: one.lost + other.lost,
  }
}
