/** People who have signed in: lists, and what administrators change. */
import { type Kysely, sql } from 'kysely'
import type { JsonObject } from '../../core/json.ts'
import type { RecordSource } from './read-records.ts'
import type { ControlRead, ControlResult, ControlWrite } from './record-operations.ts'
import { isoOrNull } from './records.ts'
import { cursorOf, done, pageOf, refused } from './results.ts'
import type { ControlTables, PersonRow } from './schema.ts'
import { endSignIns } from './sign-ins.ts'
import { audit, type WriteScope } from './write-records.ts'

type People = Extract<ControlRead, { readonly do: 'people' }>['query']
type PersonWrite<Do extends 'person_patch' | 'person_sign_out'> = Extract<ControlWrite, { readonly do: Do }>

/** Lists people, the one who signed in last first. */
export const listPeople = async (
  { db, syntax }: Pick<RecordSource, 'db' | 'syntax'>,
  { q, ...query }: People,
): Promise<ControlResult> => {
  const asked = pageOf(query)
  if ('wrong' in asked) return asked.wrong
  const { limit, after } = asked
  let select = db
    .selectFrom('person')
    .selectAll()
    .orderBy('seen', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (after)
    select = select.where(({ and, or, eb }) =>
      or([eb('seen', '<', Number(after.value)), and([eb('seen', '=', Number(after.value)), eb('id', '<', after.id)])]),
    )
  if (q !== undefined) {
    const part = q.toLowerCase()
    const found = (column: 'email' | 'name') => syntax.contains(sql`lower(coalesce(${sql.ref(column)}, ''))`, part)
    select = select.where(({ or, eb }) => or([eb('id', '=', q), found('email'), found('name')]))
  }
  const rows = await select.execute()
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const sessions = await sessionsOf(db, page)
  return done({
    object: 'list',
    data: page.map((row) => shown(row, sessions.get(row.id) ?? 0)),
    has_more: rows.length > limit,
    next: rows.length > limit && last ? cursorOf(last.seen, last.id) : null,
  })
}

/** One person, or an error with status 404. */
export const readPerson = async (db: Kysely<ControlTables>, id: string): Promise<ControlResult> => {
  const row = await findPerson(db, id)
  if (!row) return noPerson(id)
  return done(shown(row, (await sessionsOf(db, [row])).get(id) ?? 0))
}

/** Changes status and roles. Blocking ends the sessions of the person. */
export const patchPerson = async (
  scope: WriteScope,
  { id, rev, patch: { status, bindings } }: PersonWrite<'person_patch'>,
): Promise<ControlResult> => {
  const { db } = scope
  const row = await findPerson(db, id)
  if (!row) return noPerson(id)
  if (rev !== null && rev !== row.rev)
    return refused(
      412,
      'precondition_failed',
      `The person has revision ${row.rev}, not ${rev}. Read it again and repeat the change.`,
    )
  const changed = {
    status: status ?? row.status,
    bindings: bindings === undefined ? row.bindings : JSON.stringify(bindings),
    rev: row.rev + 1,
  }
  await db.updateTable('person').set(changed).where('id', '=', id).execute()
  if (changed.status === 'blocked') await endSessions(scope, id)
  const [before, after] = [row, { ...row, ...changed }].map((one) => ({
    status: one.status,
    bindings: JSON.parse(one.bindings),
  }))
  await audit(scope, { action: 'person.update', object: id, details: { before, after } })
  return readPerson(db, id)
}

/** Ends the sessions of a person in all processes. */
export const signOutPerson = async (
  scope: WriteScope,
  { id }: PersonWrite<'person_sign_out'>,
): Promise<ControlResult> => {
  const { db } = scope
  if (!(await findPerson(db, id))) return noPerson(id)
  const ended = await endSessions(scope, id)
  await audit(scope, { action: 'person.sign_out', object: id, details: { sessions: ended } })
  return done({ id, ended })
}

/** Of browsers and of programs. */
const endSessions = async ({ db, now }: Pick<WriteScope, 'db' | 'now'>, id: string): Promise<number> => {
  const { numDeletedRows } = await db.deleteFrom('login').where('person', '=', id).executeTakeFirst()
  const signIns = await db.selectFrom('sign_in').select('id').where('person', '=', id).execute()
  await endSignIns(
    db,
    signIns.map((row) => row.id),
    now,
  )
  return Number(numDeletedRows) + signIns.length
}

const findPerson = (db: Kysely<ControlTables>, id: string): Promise<PersonRow | undefined> =>
  db.selectFrom('person').selectAll().where('id', '=', id).executeTakeFirst()

const sessionsOf = async (
  db: Kysely<ControlTables>,
  people: readonly PersonRow[],
): Promise<ReadonlyMap<string | null, number>> => {
  if (people.length === 0) return new Map()
  const ids = people.map(({ id }) => id)
  const counted = (table: 'login' | 'sign_in') =>
    db
      .selectFrom(table)
      .select(({ fn }) => ['person', fn.countAll<number>().as('count')])
      .where('person', 'in', ids)
      .groupBy('person')
      .execute()
  const sessions = new Map<string | null, number>()
  for (const { person, count } of [...(await counted('login')), ...(await counted('sign_in'))])
    sessions.set(person, (sessions.get(person) ?? 0) + Number(count))
  return sessions
}

const noPerson = (id: string): ControlResult =>
  refused(404, 'not_found', `No person has the ID "${id}". A person is known after the first sign-in.`)

const shown = (row: PersonRow, sessions: number): JsonObject => ({
  id: row.id,
  object: 'person',
  issuer: row.issuer,
  subject: row.subject,
  provider: row.provider,
  email: row.email,
  name: row.name,
  status: row.status,
  groups: JSON.parse(row.member_of),
  bindings: JSON.parse(row.bindings),
  sessions,
  created_at: isoOrNull(row.created),
  seen_at: isoOrNull(row.seen),
  rev: row.rev,
})
