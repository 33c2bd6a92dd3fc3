/** The audit log: append only, each row with the hash of the row before. */
import { hash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { JsonObject } from '../../core/json.ts'
import type { RecordSource } from './read-records.ts'
import type { AuditList, ControlContext, ControlResult } from './record-operations.ts'
import { badValue, cursorOf, done, pageOf, timeOf } from './results.ts'
import type { AuditRow, ControlTables } from './schema.ts'

/** Rows that are read at once while the chain is checked. */
const CHECKED = 1_000

export type AuditEntry = {
  readonly id: string
  readonly at: number
  readonly action: string
  readonly object: string
  readonly details: JsonObject
}

/** Adds a row. Needs a transaction. */
export const addAuditRow = async (
  db: Kysely<ControlTables>,
  { actor, from, requestId }: ControlContext,
  { id, at, action, object, details }: AuditEntry,
): Promise<void> => {
  const { last_seq, last_hash } = await db.selectFrom('audit_range').selectAll().executeTakeFirstOrThrow()
  const row = {
    seq: last_seq + 1,
    id,
    at,
    actor: JSON.stringify(actor),
    source: from,
    action,
    object,
    doc: JSON.stringify({ ...details, request_id: requestId }),
    previous: last_hash,
  }
  const sealed: AuditRow = { ...row, hash: hashOf(row) }
  await db.insertInto('audit').values(sealed).execute()
  await db.updateTable('audit_range').set({ last_seq: sealed.seq, last_hash: sealed.hash }).execute()
}

const hashOf = ({ seq, id, at, actor, source, action, object, doc, previous }: Omit<AuditRow, 'hash'>): string =>
  hash('sha256', JSON.stringify([previous, seq, id, at, actor, source, action, object, doc]), 'hex')

/** Deletes rows from before `until` (ms since 1970), at most `limit`; returns whether more may be left. Needs a transaction. */
export const deleteAuditRows = async (db: Kysely<ControlTables>, until: number, limit: number): Promise<boolean> => {
  const rows = await db.selectFrom('audit').select(['seq', 'hash', 'at']).orderBy('seq').limit(limit).execute()
  // The clock may have been set back: only rows at the beginning are deleted, so that the chain has no gap.
  const kept = rows.findIndex(({ at }) => at >= until)
  const last = rows.at(kept === -1 ? -1 : kept - 1)
  if (!last || kept === 0) return false
  await db.deleteFrom('audit').where('seq', '<=', last.seq).execute()
  await db
    .updateTable('audit_range')
    .set({ first_seq: last.seq + 1, first_previous: last.hash })
    .execute()
  return kept === -1 && rows.length === limit
}

/** How far the chain is checked: the next row, and the hash of the row before it. */
export type AuditCheck = { readonly checked: number; readonly next: number; readonly previous: string }

/**
 * Checks the next rows, or the first ones (null). Returns how far it came, or at the end the result `{ok, checked, problem}`.
 * Rows may be added and old ones deleted meanwhile.
 */
export const checkAudit = async (
  db: Kysely<ControlTables>,
  before: AuditCheck | null,
): Promise<{ readonly check: AuditCheck } | { readonly result: ControlResult }> => {
  const range = await db.selectFrom('audit_range').selectAll().executeTakeFirstOrThrow()
  const start = { next: range.first_seq, previous: range.first_previous }
  let { checked, next, previous } = before ?? { checked: 0, ...start }
  if (next < start.next) ({ next, previous } = start)
  const broken = (problem: string) => ({ result: done({ ok: false, checked, problem }) })
  const rows = await db
    .selectFrom('audit')
    .selectAll()
    .where('seq', '>=', before === null ? 0 : next)
    .orderBy('seq')
    .limit(CHECKED)
    .execute()
  for (const row of rows) {
    if (row.seq !== next) return broken(`Row ${next} is missing.`)
    if (row.previous !== previous || row.hash !== hashOf(row)) return broken(`Row ${row.seq} (${row.id}) was changed.`)
    checked++
    next++
    previous = row.hash
  }
  if (rows.length === CHECKED) return { check: { checked, next, previous } }
  if (next !== range.last_seq + 1 || (checked > 0 && previous !== range.last_hash))
    return broken(`Rows after ${next - 1} are missing (last: ${range.last_seq}).`)
  return { result: done({ ok: true, checked, problem: null }) }
}

const SIGN_INS = ['login', 'login.refused', 'logout', 'session.create', 'breakglass.use']

/** Lists rows, the newest first. */
export const listAudit = async (
  { db, syntax }: Pick<RecordSource, 'db' | 'syntax'>,
  query: AuditList,
): Promise<ControlResult> => {
  const asked = pageOf(query)
  if ('wrong' in asked) return asked.wrong
  const { limit, after } = asked
  const [from, to] = [timeOf(query.from), timeOf(query.to)]
  if (from === null) return badValue('from', 'Write a time as in 2026-12-01T00:00:00Z.')
  if (to === null) return badValue('to', 'Write a time as in 2026-12-01T00:00:00Z.')
  let select = db
    .selectFrom('audit')
    .selectAll()
    .orderBy('seq', 'desc')
    .limit(limit + 1)
  if (after) select = select.where('seq', '<', Number(after.value))
  if (from !== undefined) select = select.where('at', '>=', from)
  if (to !== undefined) select = select.where('at', '<', to)
  if (query.action) select = select.where('action', 'in', query.action)
  if (query.object) select = select.where('object', 'in', query.object)
  const { kind, q, sign_ins } = query
  if (kind)
    select = select.where((where) =>
      where.or(kind.map((one) => sql<boolean>`substr(action, 1, ${one.length + 1}) = ${`${one}.`}`)),
    )
  if (sign_ins) select = select.where('action', sign_ins === 'only' ? 'in' : 'not in', SIGN_INS)
  if (q) {
    const wanted = q.toLowerCase()
    // In lower case on both sides, because databases differ in what `LIKE` ignores.
    const has = (column: 'action' | 'object' | 'actor' | 'source' | 'doc') =>
      syntax.contains(sql`lower(coalesce(${sql.ref(column)}, ''))`, wanted)
    select = select.where((where) =>
      where.or(
        [has('action'), has('object'), has('actor'), has('source'), has('doc')].map((one) => sql<boolean>`${one}`),
      ),
    )
  }
  const { actor } = query
  if (actor) select = select.where((where) => where(syntax.member(where.ref('actor'), 'id'), 'in', actor))
  const rows = await select.execute()
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return done({
    object: 'list',
    data: page.map(shown),
    has_more: rows.length > limit,
    next: rows.length > limit && last ? cursorOf(last.seq, last.id) : null,
  })
}

const shown = ({ id, at, actor, source, action, object, doc }: AuditRow): JsonObject => ({
  id,
  at: new Date(at).toISOString(),
  actor: JSON.parse(actor),
  from: source,
  action,
  object,
  ...JSON.parse(doc),
})
