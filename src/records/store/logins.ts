/** Sessions of browsers as rows, so that each process accepts them, also after a restart. */
import { randomBytes } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { SessionRules, SignedIn } from '../../core/sign-in.ts'
import { createAccountId } from '../../policy/accounts/client-key.ts'
import { isCheckDue, sessionEnd } from '../../policy/sign-in/session-life.ts'
import type { ControlLogin, ControlResult, LoginPerson, PersonLogin } from './record-operations.ts'
import { done, refused } from './results.ts'
import type { ControlTables, PersonRow } from './schema.ts'

/** ms for which a session of a token is valid after its last use. */
export const SESSION_AGE = 8 * 3_600_000
/** ms between two renewals. */
const RENEWAL = 60_000
/** Sessions kept; the one used longest ago ends first. */
const MAX_SESSIONS = { tokens: 1_000, people: 20_000 }

const DONE = done({})
const ENDED = refused(404, 'not_found', 'The session has ended.')

type Login<Do extends ControlLogin['do']> = Extract<ControlLogin, { readonly do: Do }>

/** Deletes the sessions that have ended. */
export const deleteLogins = async (db: Kysely<ControlTables>, now: number): Promise<void> => {
  await db.deleteFrom('login').where('until', '<=', now).execute()
}

/** Runs an operation. Needs a transaction. */
export const runLogin = async (
  db: Kysely<ControlTables>,
  operation: ControlLogin,
  now: number,
): Promise<ControlResult> => {
  switch (operation.do) {
    case 'login_create': {
      const until = now + SESSION_AGE
      const { digest, csrf, actor } = operation
      await makeRoom(db, 'tokens')
      const row = { digest, actor: JSON.stringify(actor), csrf, until, person: null, sid: null, doc: null }
      await db.insertInto('login').values(row).execute()
      return done({ actor, csrf, until })
    }
    case 'login_person':
      return beginForPerson(db, operation, now)
    case 'login_use':
      return useLogin(db, operation, now)
    case 'login_checked': {
      const { digest, person, login } = operation
      if (person) await updatePerson(db, person, now)
      await db
        .updateTable('login')
        .set({ doc: JSON.stringify(login) })
        .where('digest', '=', digest)
        .execute()
      return DONE
    }
    case 'login_end_by_issuer':
      return endByIssuer(db, operation, now)
    case 'login_end':
      await db.deleteFrom('login').where('digest', '=', operation.digest).execute()
      return DONE
    default:
      throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
  }
}

const makeRoom = async (db: Kysely<ControlTables>, kind: keyof typeof MAX_SESSIONS): Promise<void> => {
  const by = kind === 'tokens' ? ('is' as const) : ('is not' as const)
  const newest = db
    .selectFrom('login')
    .select('digest')
    .where('person', by, null)
    .orderBy('until', 'desc')
    .limit(MAX_SESSIONS[kind] - 1)
  await db.deleteFrom('login').where('person', by, null).where('digest', 'not in', newest).execute()
}

const beginForPerson = async (
  db: Kysely<ControlTables>,
  { digest, csrf, person: signedIn, sid, login, rules }: Login<'login_person'>,
  now: number,
): Promise<ControlResult> => {
  const person = await storePerson(db, signedIn, now)
  if (person.status === 'blocked')
    return refused(403, 'person_blocked', 'An administrator of the gateway has blocked this person.')
  await makeRoom(db, 'people')
  const until = sessionEnd({ begun: login.begun, used: now, isCheckable: login.refreshToken !== null }, rules)
  const row = { digest, actor: '{}', csrf, until, person: person.id, sid, doc: JSON.stringify(login) }
  await db.insertInto('login').values(row).execute()
  return done({ csrf, until, login, person: loginPerson(person), isCheckDue: false })
}

/** The row of a person, which their first sign-in creates. Issuer and subject identify it, and nothing else. */
export const storePerson = async (db: Kysely<ControlTables>, person: SignedIn, now: number): Promise<PersonRow> => {
  const { issuer, subject, provider, email, name } = person
  const known = await updatePerson(db, person, now)
  if (known) return known
  const row: PersonRow = {
    id: createAccountId('usr', randomBytes),
    ...{ issuer, subject, provider, email, name },
    member_of: JSON.stringify(person.groups),
    status: 'active',
    bindings: '[]',
    rev: 1,
    created: now,
    seen: now,
  }
  await db.insertInto('person').values(row).execute()
  return row
}

export const updatePerson = (
  db: Kysely<ControlTables>,
  { issuer, subject, provider, email, name, groups }: SignedIn,
  now: number,
): Promise<PersonRow | undefined> =>
  db
    .updateTable('person')
    .set({ provider, email, name, member_of: JSON.stringify(groups), seen: now })
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .returningAll()
    .executeTakeFirst()

/** Written by this program. */
export const loginPerson = ({
  member_of,
  bindings,
  id,
  issuer,
  subject,
  provider,
  email,
  name,
}: PersonRow): LoginPerson => ({
  ...{ id, issuer, subject, provider, email, name },
  groups: JSON.parse(member_of),
  bindings: JSON.parse(bindings),
})

const useLogin = async (
  db: Kysely<ControlTables>,
  { digest, rules }: Login<'login_use'>,
  now: number,
): Promise<ControlResult> => {
  const row = await db
    .selectFrom('login')
    .selectAll()
    .where('digest', '=', digest)
    .where('until', '>', now)
    .executeTakeFirst()
  if (!row) return ENDED
  const { csrf, actor, person: id, doc } = row
  if (id === null || doc === null) {
    const until = row.until < now + SESSION_AGE - RENEWAL ? now + SESSION_AGE : row.until
    if (until !== row.until) await db.updateTable('login').set({ until }).where('digest', '=', digest).execute()
    return done({ actor: JSON.parse(actor), csrf, until })
  }
  const person = await db.selectFrom('person').selectAll().where('id', '=', id).executeTakeFirst()
  if (rules === null || person?.status !== 'active') return ENDED
  return usePersonLogin(db, { ...row, doc }, { person, rules, now })
}

const usePersonLogin = async (
  db: Kysely<ControlTables>,
  row: { readonly digest: string; readonly csrf: string; readonly until: number; readonly doc: string },
  { person, rules, now }: { readonly person: PersonRow; readonly rules: SessionRules; readonly now: number },
): Promise<ControlResult> => {
  const { digest, csrf } = row
  const stored: PersonLogin = JSON.parse(row.doc)
  const isCheckable = stored.refreshToken !== null
  const isDue = isCheckable && isCheckDue(stored.checked, rules, now)
  const login = isDue ? { ...stored, checked: now } : stored
  const end = sessionEnd({ begun: login.begun, used: now, isCheckable }, rules)
  const until = row.until < end - RENEWAL || row.until > end ? end : row.until
  if (isDue || until !== row.until)
    await db
      .updateTable('login')
      .set({ until, doc: JSON.stringify(login) })
      .where('digest', '=', digest)
      .execute()
  return done({ csrf, until, login, person: loginPerson(person), isCheckDue: isDue })
}

const endByIssuer = async (
  db: Kysely<ControlTables>,
  { issuer, subject, sid, jti }: Login<'login_end_by_issuer'>,
  now: number,
): Promise<ControlResult> => {
  const once = { key: JSON.stringify(['logout', issuer, jti]), print: '', status: 200, answer: '{}', at: now }
  const noted = await db
    .insertInto('once')
    .values(once)
    .onConflict((conflict) => conflict.column('key').doNothing())
    .executeTakeFirst()
  if (Number(noted.numInsertedOrUpdatedRows ?? 0) === 0)
    return refused(400, 'invalid_value', 'This logout token was used before.')
  let people = db.selectFrom('person').select('id').where('issuer', '=', issuer)
  if (subject !== null) people = people.where('subject', '=', subject)
  let ended = db.deleteFrom('login').where('person', 'in', people)
  if (sid !== null) ended = ended.where('sid', '=', sid)
  const { numDeletedRows } = await ended.executeTakeFirst()
  return done({ ended: Number(numDeletedRows) })
}
