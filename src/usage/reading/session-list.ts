/** Sessions: a page of the list, and one with its agents. */
import { sql } from 'kysely'
import { isGuessed } from '../../core/session.ts'
import { slicesOf } from '../columns/time-slices.ts'
import type { SessionRow } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import type { LedgerReads } from './ledger-source.ts'
import type {
  AgentEntry,
  SessionEntry,
  SessionQuery,
  SessionSort,
  SessionsPage,
  SessionsQuery,
  SessionWithAgents,
} from './queries.ts'
import { dollars, isoTime, namedId } from './request-shape.ts'

/** ms without a request after which a session has ended, if clients name it and if it is guessed. */
const IDLE = { named: 86_400_000, guessed: 1_800_000 }
/** Agents of a session in a result. */
const AGENTS = 100

const COLUMN: { readonly [sort in SessionSort]: 'last' | 'cost' | 'requests' | 'failed' | 'most_input' } = {
  '-last_at': 'last',
  '-cost': 'cost',
  '-requests': 'requests',
  '-failed': 'failed',
  '-most_input': 'most_input',
}

/** The best of those that could be read in the time, the newest first. */
export const sessionsPage = async (reads: LedgerReads, query: SessionsQuery): Promise<SessionsPage> => {
  const { from, to, sort, limit, after } = query
  const column = COLUMN[sort]
  const compare = (one: SessionRow, other: SessionRow) => other[column] - one[column] || (one.id < other.id ? 1 : -1)
  let best: SessionRow[] = []
  let searchedUntil: number | null = null
  for await (const slice of slicesOf(reads, { from, to }, 'newest first')) {
    let found = matching(reads, { ...query, ...slice })
      .selectAll()
      .orderBy(column, 'desc')
      .orderBy('id', 'desc')
      .limit(limit + 1)
    if (after) found = found.where(sql<boolean>`(${sql.ref(column)}, id) < (${sql.join(after)})`)
    best = [...best, ...(await found.execute())].sort(compare).slice(0, limit + 1)
    if (slice.from > from && (reads.isOver('list') || (column === 'last' && best.length > limit))) {
      searchedUntil = best.length > limit && column === 'last' ? null : slice.from
      break
    }
  }
  const page = best.slice(0, limit)
  const last = page.at(-1)
  const hasMore = best.length > limit && last !== undefined
  const agents = await agentsOf(reads, page)
  return {
    object: 'list',
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil === null ? null : isoTime(searchedUntil),
    data: page.map((row) => sessionEntry(row, agents.get(row.id) ?? 0, reads.now)),
    has_more: hasMore,
    next: hasMore ? encodeCursor([last[column], last.id]) : null,
  }
}

/** Null: there is no such session, or its team is another one. */
export const oneSession = async (reads: LedgerReads, { id, team }: SessionQuery): Promise<SessionWithAgents | null> => {
  const one = reads.db.selectFrom('session').selectAll().where('id', '=', id)
  const row = await (team ? one.where('team', 'in', team) : one).executeTakeFirst()
  if (!row) return null
  const agents = await agentsOf(reads, [row])
  return { ...sessionEntry(row, agents.get(id) ?? 0, reads.now), by_agent: await byAgent(reads, row) }
}

const matching = ({ db }: LedgerReads, { from, to, filter }: Pick<SessionsQuery, 'from' | 'to' | 'filter'>) => {
  let rows = db.selectFrom('session').where('last', '>=', from).where('last', '<', to)
  for (const column of ['team', 'key', 'client', 'name'] as const) {
    const values = filter[column]
    if (values) rows = rows.where(sql<string>`coalesce(${sql.ref(column)}, '')`, 'in', values)
  }
  return rows
}

/** The number of agents of each session, from the index of its requests. */
const agentsOf = async ({ db }: LedgerReads, rows: readonly SessionRow[]): Promise<ReadonlyMap<string, number>> => {
  if (rows.length === 0) return new Map()
  const found = await db
    .selectFrom('request')
    .select(['session', sql<number>`count(DISTINCT coalesce(agent, ''))`.as('agents')])
    .where(
      'session',
      'in',
      rows.map(({ id }) => id),
    )
    .where('received', '>=', Math.min(...rows.map(({ first }) => first)))
    .where('received', '<=', Math.max(...rows.map(({ last }) => last)))
    .groupBy('session')
    .execute()
  return new Map(found.map(({ session, agents }) => [session ?? '', Number(agents)]))
}

const byAgent = async ({ db }: LedgerReads, { id, first, last }: SessionRow): Promise<readonly AgentEntry[]> => {
  const found = await db
    .selectFrom('request')
    .select([
      'agent',
      sql<number>`count(*)`.as('requests'),
      sql<number>`coalesce(sum(input), 0)`.as('input'),
      sql<number>`coalesce(sum(output), 0)`.as('output'),
      sql<number>`coalesce(sum(cost), 0)`.as('cost'),
      sql<number>`min(received)`.as('first'),
      sql<number>`max(received)`.as('last'),
    ])
    .where('session', '=', id)
    .where('received', '>=', first)
    .where('received', '<=', last)
    .groupBy('agent')
    .orderBy('cost', 'desc')
    .orderBy('first')
    .limit(AGENTS)
    .execute()
  return found.map(({ agent, requests, input, output, cost, ...row }) => ({
    agent,
    requests: Number(requests),
    input: Number(input),
    output: Number(output),
    cost: dollars(Number(cost)) ?? '',
    started_at: isoTime(Number(row.first)),
    last_at: isoTime(Number(row.last)),
  }))
}

const sessionEntry = (row: SessionRow, agents: number, now: number): SessionEntry => ({
  object: 'session',
  id: row.id,
  name: row.name,
  state: now - row.last > (isGuessed(row.id) ? IDLE.guessed : IDLE.named) ? 'ended' : 'active',
  key: namedId(row.key),
  team: namedId(row.team),
  client: row.client,
  started_at: isoTime(row.first),
  last_at: isoTime(row.last),
  requests: row.requests,
  failed: row.failed,
  attempts: row.attempts,
  agents,
  input: row.input,
  output: row.output,
  cache_read: row.cache_read,
  cache_write: row.cache_write,
  most_input: row.most_input,
  cost: dollars(row.cost) ?? '',
})
