/** Incidents of all gateways that share the database, the newest first. */
import type { Incident, NodeIncident } from '../../core/incident.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { IncidentsQuery } from './queries.ts'

/** Rows of an answer. The same outage has one for each process. */
const MOST = 5_000

export const incidentsOf = async (
  { db }: LedgerReads,
  { from, to }: IncidentsQuery,
): Promise<readonly NodeIncident[]> => {
  const rows = await db
    .selectFrom('incident')
    .selectAll()
    .where('began', '<', to)
    .where(({ eb, or }) => or([eb('ended', 'is', null), eb('ended', '>=', from)]))
    .orderBy('began', 'desc')
    .limit(MOST)
    .execute()
  return rows.map(({ id, began, ended, ended_by, node, details }) => ({
    // Only the fold writes the rows.
    ...(JSON.parse(details) as Omit<Incident, 'id' | 'begin' | 'end' | 'ended_by'>),
    id,
    begin: began,
    end: ended,
    ended_by: ended_by as Incident['ended_by'],
    nodes: [node],
  }))
}
