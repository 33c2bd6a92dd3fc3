/** The shapes of requests of routes, from the sums of days. */
import { sql } from 'kysely'
import { daysIn } from '../bookkeeper/zone-days.ts'
import { OTHER } from '../columns/usage-schema.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { DrillShape, DrillShapesQuery } from './queries.ts'

/** Shapes of an answer, of all routes and of one, the most frequent. Further ones are counted as `OTHER`. */
const MOST = { all: 5_000, route: 200 }

export const drillShapes = async (
  { db, timezone }: LedgerReads,
  { from, to }: DrillShapesQuery,
): Promise<readonly DrillShape[]> => {
  const dayOf = daysIn(timezone)
  const rows = await db
    .with('summed', (on) =>
      on
        .selectFrom('shape_day')
        .where('day', '>=', dayOf(from))
        .where('day', '<=', dayOf(to))
        .groupBy(['route', 'access', 'shape'])
        .select(['route', 'access', 'shape', sql<number>`sum(weight)`.as('weight')]),
    )
    .with('ranked', (on) =>
      on
        .selectFrom('summed')
        .select(['route', 'access', 'shape', 'weight'])
        .select(sql<number>`row_number() OVER (PARTITION BY route ORDER BY weight DESC, shape, access)`.as('place')),
    )
    .with('kept', (on) =>
      on
        .selectFrom('ranked')
        .select(['route', 'access', 'weight'])
        .select(sql<string>`CASE WHEN place <= ${MOST.route} THEN shape ELSE ${OTHER} END`.as('shape')),
    )
    .selectFrom('kept')
    .groupBy(['route', 'access', 'shape'])
    .select(['route', 'access', 'shape', sql<number>`sum(weight)`.as('weight')])
    .orderBy('weight', 'desc')
    .orderBy('shape')
    .execute()
  return bounded(rows.map((row) => ({ ...row, weight: Number(row.weight) })))
}

/** The most frequent of all routes. */
const bounded = (rows: readonly DrillShape[]): readonly DrillShape[] => {
  const kept = new Map<string, DrillShape>()
  for (const row of rows) {
    const { route, access } = row
    const shape = kept.size < MOST.all ? row.shape : OTHER
    const name = JSON.stringify([route, access, shape])
    kept.set(name, { route, access, shape, weight: row.weight + (kept.get(name)?.weight ?? 0) })
  }
  return [...kept.values()]
}
