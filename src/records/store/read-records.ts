/** Records as the API shows them, and lists of them. */
import { type Expression, type Kysely, type SqlBool, sql } from 'kysely'
import { isObject, type JsonObject, list } from '../../core/json.ts'
import type { SqlSyntax } from '../../storage/sql/syntax.ts'
import type { RecordKind } from '../entities/bodies.ts'
import { keyMembersOf } from '../entities/key.ts'
import { teamMembersOf } from '../entities/team.ts'
import type { ControlResult, RecordFilter, RecordList } from './record-operations.ts'
import { byOwner, isoOrNull, shownSecret } from './records.ts'
import { badValue, cursorOf, done, limitOf, parseCursor, refused, timeOf } from './results.ts'
import type { ControlTables, RecordRow, SecretRow } from './schema.ts'

/** `managed`: where the record is. */
export type AnyRecord = RecordRow & {
  readonly managed: 'file' | 'api'
  readonly last_used: number | null
  /** Of the amounts of the query; null: it has none. */
  readonly amount: number | null
}

/** What queries of records need. `file`: the records of headgate.yaml as JSON, a list of `RecordRow`s. `now`: ms since 1970. */
export type RecordSource = {
  readonly db: Kysely<ControlTables>
  readonly syntax: SqlSyntax
  readonly file: string
  readonly now: number
}

const COLUMNS = {
  id: 'text',
  kind: 'text',
  team: 'text',
  name: 'text',
  status: 'text',
  expires: 'integer',
  doc: 'text',
  rev: 'integer',
  created: 'integer',
  created_by: 'text',
  changed: 'integer',
} as const satisfies { readonly [Column in keyof RecordRow]: 'integer' | 'text' }

type Amount = NonNullable<RecordList['amounts']>[number]
const AMOUNT = { id: 'text', amount: 'integer' } as const

/**
 * The records of the file, and those of the database that the file does not replace. Those of the file are part of the query, so
 * that lists sort and filter all records in SQL, and nothing is kept in a session.
 */
export const anyRecord = (
  { db, syntax, file }: Pick<RecordSource, 'db' | 'syntax' | 'file'>,
  amounts: RecordList['amounts'] = [],
) => {
  const [amount, joined] =
    amounts.length === 0
      ? [sql`NULL`, sql``]
      : [
          sql`spending.amount`,
          sql`LEFT JOIN (${syntax.rows<Amount>(JSON.stringify(amounts), AMOUNT)}) AS spending ON spending.id = one.id`,
        ]
  const columns = sql.join(Object.keys(COLUMNS).map((column) => sql.ref(column)))
  return db.selectFrom(
    sql<AnyRecord>`(WITH file_record AS (${syntax.rows<RecordRow>(file, COLUMNS)})
      SELECT one.*, hour AS last_used, ${amount} AS amount FROM (
        SELECT ${columns}, 'file' AS managed FROM file_record
        UNION ALL
        SELECT ${columns}, 'api' AS managed FROM record WHERE id NOT IN (SELECT id FROM file_record)) AS one
      LEFT JOIN key_use ON key_use.id = one.id ${joined})`.as('any_record'),
  )
}

const SORTED = {
  created_at: 'created',
  name: 'name',
  status: 'status',
  expires_at: 'expires',
  last_used_at: 'last_used',
  spend: 'amount',
} as const satisfies Record<string, keyof AnyRecord>

/** The status that is in effect: expiry needs no writer. */
const effectiveStatus = ({ status, expires }: AnyRecord, now: number): string =>
  status === 'active' && expires !== null && expires <= now ? 'expired' : status

/** A record as the API shows it. */
export const shownRecord = (row: AnyRecord, secrets: readonly SecretRow[], now: number): JsonObject => {
  const { id, kind, name, rev, created, created_by, managed, last_used } = row
  const { prefix, secrets: written, ...body }: Record<string, JsonObject[string]> = JSON.parse(row.doc)
  const common = {
    id,
    object: kind === 'token' ? 'admin_token' : kind,
    ...body,
    // A record that was stored before a member existed has its default.
    ...(kind === 'route' && { team: row.team }),
    ...(kind === 'team' ? teamMembersOf(body) : kind === 'key' ? keyMembersOf(body) : {}),
    name,
    status: effectiveStatus(row, now),
    // The file has no times.
    created_at: created === 0 ? null : isoOrNull(created),
    created_by,
    rev,
    managed,
  }
  if (kind !== 'key' && kind !== 'token') return common
  // Those of the file are in its row.
  const own = managed === 'file' ? list(written).filter(isObject) : secrets.map(shownSecret)
  return {
    ...common,
    ...(kind === 'key' && { team: row.team }),
    prefix: prefix ?? null,
    last4: own[0]?.last4 ?? null,
    last_used_at: isoOrNull(last_used),
    secrets: own,
  }
}

/** The record with this ID, or undefined. */
export const findRecord = (source: RecordSource, kind: RecordKind, id: string): Promise<AnyRecord | undefined> =>
  anyRecord(source).selectAll().where('kind', '=', kind).where('id', '=', id).executeTakeFirst()

/** The secrets of several owners, by owner, the newest first. */
export const secretsOf = async (db: Kysely<ControlTables>, ids: readonly string[]) =>
  byOwner(ids.length === 0 ? [] : await db.selectFrom('secret').selectAll().where('owner', 'in', ids).execute())

export const noRecord = (kind: RecordKind, id: string): ControlResult =>
  refused(404, 'not_found', `No ${kind} has the ID ${id}.`)

/** One record. `teams`: the teams whose records may be read; null: all. */
export const getRecord = async (
  source: RecordSource,
  { kind, id }: { readonly kind: RecordKind; readonly id: string },
  teams: readonly string[] | null,
): Promise<ControlResult> => {
  const row = await findRecord(source, kind, id)
  if (!row || !isInTeams(row, teams)) return noRecord(kind, id)
  return done(shownRecord(row, (await secretsOf(source.db, [id])).get(id) ?? [], source.now))
}

/** Whether an actor who is bound to these teams may read the record. */
export const isInTeams = (
  { kind, team, id }: Pick<AnyRecord, 'kind' | 'team' | 'id'>,
  teams: readonly string[] | null,
): boolean => teams === null || kind === 'budget' || kind === 'price' || teams.includes(kind === 'team' ? id : team)

/** A page of records. */
export const listRecords = async (
  source: RecordSource,
  { kind, query }: { readonly kind: RecordKind; readonly query: RecordList },
  teams: readonly string[] | null,
): Promise<ControlResult> => {
  const { db, now } = source
  const limit = limitOf(query.limit)
  if (limit === null) return badValue('limit', 'Write a whole number from 1 to 200.')
  const sort = query.sort ?? '-created_at'
  const order = sort.startsWith('-') ? 'desc' : 'asc'
  const member = sort.replace(/^-/, '')
  if (!isSorted(member)) return badValue('sort', `Choose one of ${Object.keys(SORTED).join(', ')}; with - descending.`)
  const column = SORTED[member]
  const conditions = filterOf(source, kind, query, teams)
  if (!Array.isArray(conditions)) return conditions
  const isText = column === 'name' || column === 'status'
  const value = isText
    ? sql<string | number>`${sql.ref(column)}`
    : sql<string | number>`coalesce(${sql.ref(column)}, 0)`
  let select = anyRecord(source, query.amounts)
    .selectAll()
    .where('kind', '=', kind)
    .where((where) => where.and(conditions))
    .orderBy(value, order)
    .orderBy('id', order)
    .limit(limit + 1)
  if (query.after !== undefined) {
    const after = parseCursor(query.after)
    if (!after || typeof after.value !== (isText ? 'string' : 'number'))
      return badValue('after', 'Send `next` of the page before, with the same sort.')
    const operator = sql.raw(order === 'desc' ? '<' : '>')
    select = select.where(sql<SqlBool>`(${value}, id) ${operator} (${after.value}, ${after.id})`)
  }
  const rows = await select.execute()
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const secrets = await secretsOf(
    db,
    page.map(({ id }) => id),
  )
  return done({
    object: 'list',
    data: page.map((row) => shownRecord(row, secrets.get(row.id) ?? [], now)),
    has_more: rows.length > limit,
    next: rows.length > limit && last ? cursorOf(last[column] ?? 0, last.id) : null,
  })
}

const isSorted = (member: string): member is keyof typeof SORTED => Object.hasOwn(SORTED, member)

/** The records that a filter selects, at most `limit`. */
export const filteredRecords = async (
  source: RecordSource,
  { kind, filter, limit }: { readonly kind: RecordKind; readonly filter: RecordFilter; readonly limit: number },
  teams: readonly string[] | null,
): Promise<readonly string[] | ControlResult> => {
  const conditions = filterOf(source, kind, filter, teams)
  if (!Array.isArray(conditions)) return conditions
  const rows = await anyRecord(source)
    .select('id')
    .where('kind', '=', kind)
    .where((where) => where.and(conditions))
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** The conditions of a filter, or the refusal of an invalid one. */
const filterOf = (
  { syntax, now }: RecordSource,
  kind: RecordKind,
  filter: RecordFilter,
  teams: readonly string[] | null,
): Expression<SqlBool>[] | ControlResult => {
  const conditions: Expression<SqlBool>[] = []
  const among = (expression: Expression<unknown>, values: readonly string[]) =>
    conditions.push(syntax.among(expression, values))
  if (teams !== null && (kind === 'key' || kind === 'route')) among(sql.ref('team'), teams)
  if (teams !== null && kind === 'team') among(sql.ref('id'), teams)
  if (teams !== null && kind === 'token') conditions.push(sql<SqlBool>`1 = 0`)
  if (filter.team) among(sql.ref('team'), filter.team)
  if (filter.managed) among(sql.ref('managed'), filter.managed)
  if (filter.status)
    among(sql`CASE WHEN status = 'active' AND expires <= ${now} THEN 'expired' ELSE status END`, filter.status)
  // Deleted teams are listed only on request.
  else if (kind === 'team') conditions.push(sql<SqlBool>`status <> 'deleted'`)
  const tags = (filter.tag ?? []).map((tag) => /^([A-Za-z0-9_.-]{1,64}):(.*)$/s.exec(tag))
  if (tags.includes(null)) return badValue('tag', 'Write the name of a tag, a colon and the value.')
  const pairs = tags.map((tag) => [tag?.[1] ?? '', tag?.[2] ?? ''] as const)
  if (pairs.length > 0) conditions.push(syntax.hasPair(sql.ref('doc'), 'tags', pairs))
  if (filter.last_used_before !== undefined) {
    const time = timeOf(filter.last_used_before)
    if (typeof time !== 'number') return badValue('last_used_before', 'Write a time as in 2026-12-01T00:00:00Z.')
    conditions.push(sql<SqlBool>`coalesce(last_used, 0) < ${time}`)
  }
  if (filter.q !== undefined)
    conditions.push(
      sql<SqlBool>`(${syntax.contains(sql`lower(name)`, filter.q.toLowerCase())} OR id = ${filter.q}
        OR id IN (SELECT owner FROM secret WHERE last4 = ${filter.q}))`,
    )
  return conditions
}
