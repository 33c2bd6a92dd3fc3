/** Outages of providers as they are listed: the same outage in several processes and gateways is one. */
import type { NodeIncident } from '../../core/incident.ts'

/** ms within which a circuit that opens again continues its incident. */
export const RESUME = 60_000

/** The same outage in several processes as one: incidents of the same providers that overlap, or follow within a minute. */
export const mergeIncidents = (incidents: readonly NodeIncident[]): readonly NodeIncident[] => {
  const merged = new Map<string, NodeIncident[]>()
  for (const incident of incidents.toSorted((one, other) => one.begin - other.begin)) {
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

const joined = (one: NodeIncident, other: NodeIncident): NodeIncident => {
  const isOver = one.end !== null && other.end !== null
  const last = (other.end ?? 0) >= (one.end ?? 0) ? other : one
  return {
    ...one,
    models: [...new Set([...one.models, ...other.models])],
    nodes: [...new Set([...one.nodes, ...other.nodes])],
    base_url: one.base_url ?? other.base_url,
    end: isOver ? last.end : null,
    ended_by: isOver ? last.ended_by : null,
    failures: one.failures + other.failures,
    rerouted: one.rerouted + other.rerouted,
    lost: one.lost + other.lost,
  }
}
