/** Sign-ins of programs as administrators see and end them. */

import type { RecordSource } from './read-records.ts'
import type { ControlRead, ControlResult, ControlWrite } from './record-operations.ts'
import { isoOrNull } from './records.ts'
import { cursorOf, done, pageOf, refused } from './results.ts'
import { endSignIns } from './sign-ins.ts'
import { audit, type WriteScope } from './write-records.ts'

type SignInQuery = Extract<ControlRead, { readonly do: 'sign_ins' }>['query']
type Deletion = Extract<ControlWrite, { readonly do: 'sign_in_delete' }>

/** Lists the sign-ins that have not ended, the one used last first. */
export const listSignIns = async (
  { db, now }: Pick<RecordSource, 'db' | 'now'>,
  { person, ...query }: SignInQuery,
): Promise<ControlResult> => {
  const asked = pageOf(query)
  if ('wrong' in asked) return asked.wrong
  const { limit, after } = asked
  let select = db
    .selectFrom('sign_in')
    .innerJoin('person', 'person.id', 'sign_in.person')
    .select(['sign_in.id', 'sign_in.person', 'sign_in.client', 'sign_in.address'])
    .select(['sign_in.created', 'sign_in.used', 'sign_in.until', 'person.email', 'person.name'])
    .where('sign_in.until', '>', now)
    .orderBy('sign_in.used', 'desc')
    .orderBy('sign_in.id', 'desc')
    .limit(limit + 1)
  if (person !== undefined) select = select.where('sign_in.person', '=', person)
  if (after)
    select = select.where(({ and, or, eb }) =>
      or([
        eb('sign_in.used', '<', Number(after.value)),
        and([eb('sign_in.used', '=', Number(after.value)), eb('sign_in.id', '<', after.id)]),
      ]),
    )
  const rows = await select.execute()
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return done({
    object: 'list',
    data: page.map((row) => ({
      id: row.id,
      object: 'sign_in',
      person: row.person,
      email: row.email,
      name: row.name,
      client: row.client,
      address: row.address,
      created_at: isoOrNull(row.created),
      used_at: isoOrNull(row.used),
      ends_at: isoOrNull(row.until),
    })),
    has_more: rows.length > limit,
    next: rows.length > limit && last ? cursorOf(last.used, last.id) : null,
  })
}

/** Ends a sign-in in all processes. Its program must sign in again. */
export const deleteSignIn = async (scope: WriteScope, { id }: Deletion): Promise<ControlResult> => {
  const { db, now } = scope
  const row = await db
    .selectFrom('sign_in')
    .select(['person', 'client', 'address'])
    .where('id', '=', id)
    .where('until', '>', now)
    .executeTakeFirst()
  if (!row) return refused(404, 'not_found', `No sign-in has the ID "${id}", or it has ended.`)
  await endSignIns(db, [id], now)
  await audit(scope, { action: 'sign_in.end', object: id, details: row })
  return done({ id, object: 'sign_in', deleted: true })
}
