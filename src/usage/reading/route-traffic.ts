/** Requests for each route in a range, and the attempts of these requests at each target. */
import { type SqlBool, sql } from 'kysely'
import { LIMITED, quantile, UNHEALTHY } from './activity.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth, countWhere } from './outcome-counts.ts'
import type { RoutesTraffic, RouteTraffic, RouteTrafficQuery, TargetTraffic, TimeRange } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { readNewest } from './slices.ts'

/** Routes of a result and targets of a route, and times to first content that are read of a target in a part, the newest. */
const MOST = { routes: 1_000, targets: 100, sample: 200 }
/** Parts that are read one after another, and the least width of one in ms. */
const PARTS = { most: 120, width: 300_000 }

type Counts = Omit<RouteTraffic, 'targets' | 'team' | 'route'>
type OfRoute = { readonly route: string; readonly team: string }
type RouteCounts = OfRoute & Counts
type TargetCounts = OfRoute & Omit<TargetTraffic, 'first_content_p50_ms'>
type FirstTime = OfRoute & Pick<TargetTraffic, 'provider' | 'model'> & { readonly ms: number }
type RoutesPart = {
  readonly routes: readonly RouteCounts[]
  readonly targets: readonly TargetCounts[]
  readonly firsts: readonly FirstTime[]
}

export const routesTraffic = async (reads: LedgerReads, query: RouteTrafficQuery): Promise<RoutesTraffic> => {
  const { from, to, filter, own } = query
  const { memory, now } = reads
  const width = Math.max(PARTS.width, bucketWidth(query, PARTS.most))
  const name = `routes ${JSON.stringify(filter)}`
  const { buckets, searchedUntil } = await readNewest(reads, bucketsOf(query, width), (part) => {
    const isInside = part.from >= from && part.to <= to
    const read = () => partOf(reads, { from: Math.max(part.from, from), to: Math.min(part.to, to) }, query)
    return memory && isInside ? memory.get(name, part, now, read) : read()
  })
  const names = new Set(own)
  const place = ({ route, team }: OfRoute) => JSON.stringify([route, names.has(route) ? team : ''])
  const all = buckets.map(({ value }) => value)
  const targets = Map.groupBy(
    all.flatMap((part) => part.targets),
    place,
  )
  const firsts = Map.groupBy(
    all.flatMap((part) => part.firsts),
    place,
  )
  const routes = Map.groupBy(
    all.flatMap((part) => part.routes),
    place,
  )
  const data = [...routes]
    .map(([id, rows]): RouteTraffic => {
      const { route = '', team = '' } = rows[0] ?? {}
      return {
        route,
        team: names.has(route) ? team : null,
        ...sumsOf(rows, ['requests', 'answered', 'cached', 'refused', 'failed']),
        targets: targetsOf(targets.get(id) ?? [], firsts.get(id) ?? []),
      }
    })
    .sort((one, other) => other.requests - one.requests)
    .slice(0, MOST.routes)
  return {
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil === null || searchedUntil <= from ? null : isoTime(searchedUntil),
    data,
  }
}

/** The sums of these members. */
const sumsOf = <Name extends string>(
  rows: readonly { readonly [name in Name]: number }[],
  names: readonly Name[],
): { readonly [name in Name]: number } =>
  // The names are the members.
  Object.fromEntries(names.map((name) => [name, rows.reduce((sum, row) => sum + Number(row[name]), 0)])) as {
    readonly [name in Name]: number
  }

const targetsOf = (counts: readonly TargetCounts[], firsts: readonly FirstTime[]): readonly TargetTraffic[] => {
  const place = ({ provider, model }: Pick<TargetTraffic, 'provider' | 'model'>) => JSON.stringify([provider, model])
  const times = Map.groupBy(firsts, place)
  return [...Map.groupBy(counts, place)]
    .map(([id, rows]): TargetTraffic => {
      const { provider = '', model = '' } = rows[0] ?? {}
      const sorted = (times.get(id) ?? []).map(({ ms }) => Number(ms)).sort((one, other) => one - other)
      const sums = sumsOf(rows, ['attempts', 'answered', 'failed', 'limited'])
      return { provider, model, ...sums, first_content_p50_ms: quantile(sorted, 0.5) }
    })
    .sort((one, other) => other.attempts - one.attempts)
    .slice(0, MOST.targets)
}

/** The default route has no name of a route. */
export const ROUTE = sql<string>`coalesce(route, CASE WHEN lower(asked) = 'auto' THEN 'auto' END)`
export const TEAM = sql<string>`coalesce(team, '')`

const partOf = async (reads: LedgerReads, part: TimeRange, { filter }: RouteTrafficQuery): Promise<RoutesPart> => {
  const { db } = reads
  const isOfTeam = filter.team ? sql<SqlBool>`team IN (${sql.join(filter.team)})` : sql<SqlBool>`1 = 1`
  const isRouted = sql<SqlBool>`${ROUTE} IS NOT NULL`
  const route = ROUTE.as('route')
  const team = TEAM.as('team')
  const routes = await db
    .selectFrom('request')
    .where('received', '>=', part.from)
    .where('received', '<', part.to)
    .where(isRouted)
    .where(isOfTeam)
    .groupBy([ROUTE, TEAM])
    .select([
      route,
      team,
      sql<number>`count(*)`.as('requests'),
      countWhere(sql`outcome = 'answered'`).as('answered'),
      countWhere(sql`outcome = 'answered' AND cache IN ('hit', 'shared')`).as('cached'),
      countWhere(sql`outcome = 'refused' AND status < 500`).as('refused'),
      countWhere(sql`outcome = 'interrupted' OR (outcome = 'refused' AND status >= 500)`).as('failed'),
    ])
    .execute()
  if (routes.length === 0) return { routes, targets: [], firsts: [] }
  const attempts = db
    .selectFrom('attempt')
    .where('received', '>=', part.from)
    .where('received', '<', part.to)
    .where(isRouted)
    .where(isOfTeam)
  const kind = sql`coalesce(kind, '')`
  const targets = await attempts
    .groupBy([ROUTE, TEAM, 'provider', 'model'])
    .select([
      route,
      team,
      'provider',
      'model',
      sql<number>`count(*)`.as('attempts'),
      countWhere(sql`outcome = 'ok'`).as('answered'),
      countWhere(sql`outcome = 'interrupted' OR (outcome = 'failed' AND ${kind} IN (${sql.join(UNHEALTHY)}))`).as(
        'failed',
      ),
      countWhere(sql`outcome = 'failed' AND ${kind} IN (${sql.join(LIMITED)})`).as('limited'),
    ])
    .execute()
  await reads.turn()
  const newest = attempts
    .where('outcome', '=', 'ok')
    .where('first_content_ms', 'is not', null)
    .select([
      route,
      team,
      'provider',
      'model',
      sql<number>`first_content_ms`.as('ms'),
      sql<number>`row_number() OVER (PARTITION BY ${ROUTE}, ${TEAM}, provider, model ORDER BY started DESC)`.as('rank'),
    ])
  const firsts = await db
    .selectFrom(newest.as('newest'))
    .select(['route', 'team', 'provider', 'model', 'ms'])
    .where('rank', '<=', MOST.sample)
    .execute()
  return { routes, targets, firsts }
}
