/** Sign-ins of programs by the device flow (RFC 8628), and their refresh tokens. */
import { randomBytes } from 'node:crypto'
import type { Kysely } from 'kysely'
import { createAccountId } from '../../policy/accounts/client-key.ts'
import { ACCESS_LIFE, DEVICE_LIFE, nextPoll, POLL_PAUSE, refreshUse, signInEnd } from '../../policy/sign-in/device.ts'
import { loginPerson, storePerson, updatePerson } from './logins.ts'
import type { ControlResult, ControlSignIn, PersonLogin } from './record-operations.ts'
import { done, refused } from './results.ts'
import type { ControlTables, RefreshRow, SignInRow } from './schema.ts'

type Db = Kysely<ControlTables>
type ProgramOperation<Do extends ControlSignIn['do']> = Extract<ControlSignIn, { readonly do: Do }>

const MAX = { waiting: 10_000, ofPerson: 20 }
/** ms after which the person is checked at the issuer again: of programs that refresh at once, one asks. */
const RECHECK = 60_000

const UNKNOWN = refused(404, 'expired_token', 'This code is unknown, was used, or has expired.')
const ENDED = refused(401, 'invalid_grant', 'This sign-in has ended. Sign in again.')
const BLOCKED = refused(403, 'person_blocked', 'An administrator of the gateway has blocked this person.')

/** Ends sign-ins. All processes read the decisions, and refuse access tokens of these sign-ins. */
export const endSignIns = async (db: Db, ids: readonly string[], now: number): Promise<void> => {
  if (ids.length === 0) return
  await db.deleteFrom('refresh').where('sign_in', 'in', ids).execute()
  await db.deleteFrom('sign_in').where('id', 'in', ids).execute()
  const row = { kind: 'sign_in', state: 'ended', until: now + ACCESS_LIFE, reason: '', actor: 'gateway', at: now }
  await db
    .insertInto('decision')
    .values(ids.map((id) => ({ ...row, id })))
    .onConflict((conflict) => conflict.columns(['kind', 'id']).doNothing())
    .execute()
  await db
    .insertInto('change')
    .values(ids.map((id) => ({ kind: 'decision', id, at: now })))
    .execute()
}

/** Deletes what has ended. */
export const deleteSignIns = async (db: Db, now: number): Promise<void> => {
  await db.deleteFrom('device').where('until', '<=', now).execute()
  const ended = db.selectFrom('sign_in').select('id').where('until', '<=', now)
  await db.deleteFrom('refresh').where('sign_in', 'in', ended).execute()
  await db.deleteFrom('sign_in').where('until', '<=', now).execute()
  await db.deleteFrom('decision').where('kind', '=', 'sign_in').where('until', '<=', now).execute()
}

/** Runs an operation. Needs a transaction. */
export const runSignIn = async (db: Db, operation: ControlSignIn, now: number): Promise<ControlResult> => {
  switch (operation.do) {
    case 'device_create':
      return createDevice(db, operation, now)
    case 'device_find': {
      const row = await waiting(db, now).where('code', '=', operation.code).executeTakeFirst()
      return row ? done({ client: row.client, address: row.address }) : UNKNOWN
    }
    case 'device_claim':
      return claim(db, operation, now)
    case 'device_decide':
      return decideDevice(db, operation, now)
    case 'device_poll':
      return poll(db, operation, now)
    case 'sign_in_use':
      return use(db, operation, now)
    case 'sign_in_rotate':
      return rotate(db, operation, now)
    case 'sign_in_unchecked': {
      const row = await signIns(db, now).where('id', '=', operation.id).executeTakeFirst()
      if (row) await storeLogin(db, row, { ...readLogin(row), checked: 0 })
      return done({})
    }
    case 'sign_in_end':
      return end(db, operation, now)
    case 'sign_in_person': {
      const row = await signIns(db, now).where('id', '=', operation.id).executeTakeFirst()
      return row ? personOf(db, row) : ENDED
    }
    default:
      throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
  }
}

const waiting = (db: Db, now: number) =>
  db.selectFrom('device').selectAll().where('until', '>', now).where('state', '=', 'pending')
const signIns = (db: Db, now: number) => db.selectFrom('sign_in').selectAll().where('until', '>', now)
/** Written by this program. */
const readLogin = ({ doc }: Pick<SignInRow, 'doc'>): PersonLogin => JSON.parse(doc)

const storeLogin = async (db: Db, { id }: Pick<SignInRow, 'id'>, login: PersonLogin): Promise<void> => {
  await db
    .updateTable('sign_in')
    .set({ doc: JSON.stringify(login) })
    .where('id', '=', id)
    .execute()
}

const createDevice = async (
  db: Db,
  { digest, code, client, address }: ProgramOperation<'device_create'>,
  now: number,
): Promise<ControlResult> => {
  await db.deleteFrom('device').where('until', '<=', now).execute()
  const { count } = await db
    .selectFrom('device')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  if (Number(count) >= MAX.waiting) return refused(503, 'temporarily_unavailable', 'Too many programs wait for a code.')
  const row = { digest, code, client, address, state: 'pending', created: now, until: now + DEVICE_LIFE, polled: null }
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('device')
    .values({ ...row, pause: POLL_PAUSE, person: null, confirm: null, doc: null })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return Number(numInsertedOrUpdatedRows ?? 0) === 1 ? done({}) : refused(409, 'conflict', 'The code is in use.')
}

const claim = async (
  db: Db,
  { code, confirm, person: signedIn, login }: ProgramOperation<'device_claim'>,
  now: number,
): Promise<ControlResult> => {
  const person = await storePerson(db, signedIn, now)
  if (person.status === 'blocked') return BLOCKED
  const row = await waiting(db, now).where('code', '=', code).executeTakeFirst()
  if (!row) return UNKNOWN
  await db
    .updateTable('device')
    .set({ person: person.id, confirm, doc: JSON.stringify(login) })
    .where('digest', '=', row.digest)
    .execute()
  return done({ person: loginPerson(person), client: row.client, address: row.address })
}

const decideDevice = async (
  db: Db,
  { confirm, approve }: ProgramOperation<'device_decide'>,
  now: number,
): Promise<ControlResult> => {
  const row = await waiting(db, now).where('confirm', '=', confirm).executeTakeFirst()
  if (!row || row.person === null) return UNKNOWN
  await db
    .updateTable('device')
    .set(approve ? { state: 'approved', confirm: null } : { state: 'denied', confirm: null, doc: null })
    .where('digest', '=', row.digest)
    .execute()
  return done({ person: row.person, client: row.client, address: row.address })
}

const poll = async (
  db: Db,
  { digest, refresh }: ProgramOperation<'device_poll'>,
  now: number,
): Promise<ControlResult> => {
  const row = await db
    .selectFrom('device')
    .selectAll()
    .where('digest', '=', digest)
    .where('until', '>', now)
    .executeTakeFirst()
  if (!row) return UNKNOWN
  if (row.state === 'pending') {
    const { error, pause } = nextPoll(row, now)
    await db.updateTable('device').set({ polled: now, pause }).where('digest', '=', digest).execute()
    return refused(400, error, 'The person has not decided yet.')
  }
  const { numDeletedRows } = await db.deleteFrom('device').where('digest', '=', digest).executeTakeFirst()
  if (Number(numDeletedRows) !== 1) return UNKNOWN
  if (row.state !== 'approved' || row.person === null || row.doc === null)
    return refused(400, 'access_denied', 'The person has refused.')
  const login = readLogin({ doc: row.doc })
  const until = signInEnd({ begun: now, used: now, isCheckable: login.refreshToken !== null })
  const { person, client, address, doc } = row
  const signIn = {
    id: createAccountId('sgn', randomBytes),
    person,
    client,
    address,
    created: now,
    used: now,
    until,
    doc,
  }
  await makeRoom(db, person, now)
  await db.insertInto('sign_in').values(signIn).execute()
  await db.insertInto('refresh').values({ digest: refresh, sign_in: signIn.id, created: now, used: null }).execute()
  return personOf(db, signIn)
}

/** The sign-ins used longest ago end. */
const makeRoom = async (db: Db, person: string, now: number): Promise<void> => {
  const rows = await db
    .selectFrom('sign_in')
    .select('id')
    .where('person', '=', person)
    .orderBy('used', 'desc')
    .execute()
  await endSignIns(
    db,
    rows.slice(MAX.ofPerson - 1).map(({ id }) => id),
    now,
  )
}

const personOf = async (db: Db, { id, person: of }: Pick<SignInRow, 'id' | 'person'>): Promise<ControlResult> => {
  const person = await db.selectFrom('person').selectAll().where('id', '=', of).executeTakeFirst()
  if (!person) return ENDED
  return person.status === 'active' ? done({ id, person: loginPerson(person) }) : BLOCKED
}

const findRefresh = async (db: Db, digest: string, now: number) => {
  const token = await db.selectFrom('refresh').selectAll().where('digest', '=', digest).executeTakeFirst()
  const signIn = token && (await signIns(db, now).where('id', '=', token.sign_in).executeTakeFirst())
  return signIn && { token, signIn }
}

const use = async (db: Db, { refresh }: ProgramOperation<'sign_in_use'>, now: number): Promise<ControlResult> => {
  const found = await findRefresh(db, refresh, now)
  if (!found) return ENDED
  const { token, signIn } = found
  if (refreshUse(token.used, now) === 'replayed') {
    // Another program has it too (RFC 9700, 4.14.2).
    await endSignIns(db, [signIn.id], now)
    return refused(401, 'replayed', 'This refresh token was used before. Its sign-in has ended.')
  }
  const result = await personOf(db, signIn)
  if (!result.ok) return result
  const login = readLogin(signIn)
  const isCheckDue = login.refreshToken !== null && now - login.checked >= RECHECK
  // The one that finds it due asks the issuer: many issuers end the tokens of those who use one twice.
  if (isCheckDue) await storeLogin(db, signIn, { ...login, checked: now })
  return done({ ...result.value, login, isCheckDue })
}

const rotate = async (
  db: Db,
  { refresh, next, person, login }: ProgramOperation<'sign_in_rotate'>,
  now: number,
): Promise<ControlResult> => {
  const found = await findRefresh(db, refresh, now)
  if (!found || refreshUse(found.token.used, now) === 'replayed') return ENDED
  const { token, signIn } = found
  if (person) await updatePerson(db, person, now)
  const result = await personOf(db, signIn)
  if (!result.ok) return result
  const at = await nextOf(db, token, next, now)
  if (at === -1) return ENDED
  const kept = login ?? readLogin(signIn)
  const until = signInEnd({ begun: signIn.created, used: now, isCheckable: kept.refreshToken !== null })
  await db
    .updateTable('sign_in')
    .set({ used: now, until, doc: JSON.stringify(kept) })
    .where('id', '=', signIn.id)
    .execute()
  return done({ ...result.value, next: at })
}

/** The number of the refresh token that replaces another; -1: it was replaced by one of a secret that is no longer used. */
const nextOf = async (
  db: Db,
  { digest, used, sign_in }: RefreshRow,
  next: readonly string[],
  now: number,
): Promise<number> => {
  const [first] = next
  if (used === null && first !== undefined) {
    await db.updateTable('refresh').set({ used: now }).where('digest', '=', digest).execute()
    await db.insertInto('refresh').values({ digest: first, sign_in, created: now, used: null }).execute()
    return 0
  }
  const known = await db.selectFrom('refresh').select('digest').where('digest', 'in', next).executeTakeFirst()
  return known ? next.indexOf(known.digest) : -1
}

const end = async (db: Db, operation: ProgramOperation<'sign_in_end'>, now: number): Promise<ControlResult> => {
  const id = 'id' in operation ? operation.id : (await findRefresh(db, operation.refresh, now))?.signIn.id
  const row = id && (await signIns(db, now).where('id', '=', id).executeTakeFirst())
  if (!row) return done({ person: null })
  await endSignIns(db, [row.id], now)
  return done({ person: row.person })
}
