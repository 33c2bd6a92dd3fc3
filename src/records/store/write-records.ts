/** Writes of records. Each runs in one transaction; it checks everything before its first write. */
import { randomBytes } from 'node:crypto'
import { type ClientKey, DEFAULT_TEAM } from '../../core/accounts.ts'
import { CANARY_STATE } from '../../core/canary.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import { mergePatch } from '../../core/merge-patch.ts'
import { createAccountId, createKey, keyKindOf, last4 } from '../../policy/accounts/client-key.ts'
import { BODIES, type RecordKind } from '../entities/bodies.ts'
import { KEY_SECRET, MAX_SECRETS } from '../entities/key.ts'
import { PRICE_BODY, priceName } from '../entities/price.ts'
import { digestsOf, storedDigest } from '../entities/secret-digest.ts'
import { addAuditRow } from './audit.ts'
import {
  type AnyRecord,
  anyRecord,
  filteredRecords,
  findRecord,
  isInTeams,
  noRecord,
  type RecordSource,
  secretsOf,
  shownRecord,
} from './read-records.ts'
import type { BulkAction, ControlContext, ControlResult, ControlSettings, ControlWrite } from './record-operations.ts'
import { badBody, badValue, done, durationOf, refused } from './results.ts'
import type { RecordRow } from './schema.ts'
import { valueMessage } from './value-message.ts'

/** What a write needs besides the operation. */
export type WriteScope = RecordSource & {
  readonly context: ControlContext
  readonly settings: Pick<ControlSettings, 'pepper' | 'configured' | 'file'>
}

const PREFIXES: { readonly [kind in RecordKind]: string } = {
  team: 'team',
  key: 'key',
  budget: 'bud',
  price: 'prc',
  route: 'rte',
  token: 'adm',
}

/** Routes of one team. */
const MAX_ROUTES = 200

const countRoutes = async ({ db }: WriteScope, team: string): Promise<number> => {
  const found = await db
    .selectFrom('record')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('kind', '=', 'route')
    .where('team', '=', team)
    .executeTakeFirstOrThrow()
  return Number(found.count)
}

/** Records in one bulk operation. */
const MAX_BULK = 1_000

type Write<Do extends ControlWrite['do']> = Extract<ControlWrite, { readonly do: Do }>

export const createRecord = async (
  scope: WriteScope,
  { kind, body: given }: Write<'create'>,
): Promise<ControlResult> => {
  const { db, context, now } = scope
  if (!isObject(given)) return badValue('', 'Send a JSON object.')
  const { secret, digest, last4: end, ...rest } = given
  const imported =
    kind === 'key' ? KEY_SECRET.safeParse(defined({ secret, digest, last4: end }), { error: valueMessage }) : null
  if (imported && !imported.success) return badBody(imported.error)
  const checked = await checkedBody(scope, kind, imported ? rest : given, null)
  if ('ok' in checked) return checked
  const { doc, team, name, expires } = checked
  if (!mayWrite(context, kind, team)) return notPermitted(kind)
  if (imported?.data.digest !== undefined && context.teams !== null) return DIGEST_NOT_PERMITTED
  const taken = await nameProblem(scope, { kind, team, name, id: null })
  if (taken) return taken
  if (kind === 'route' && (await countRoutes(scope, team)) >= MAX_ROUTES)
    return refused(
      409,
      'too_many_routes',
      `The team has ${MAX_ROUTES} routes (limit ${MAX_ROUTES}). Delete others first.`,
    )
  const id = createAccountId(PREFIXES[kind], randomBytes)
  const made = hasSecret(kind) ? newSecret(scope, kind, imported?.data) : null
  if (imported && (await isTaken(scope, imported.data))) return SECRET_TAKEN
  const row: RecordRow = {
    id,
    kind,
    team,
    name,
    status: 'active',
    expires,
    rev: 1,
    created: now,
    created_by: context.actor.name,
    doc: JSON.stringify({ ...doc, ...(made && { prefix: made.prefix }) }),
    changed: now,
  }
  await db.insertInto('record').values(row).execute()
  if (made) await addSecret(scope, id, made)
  const shown = await finish(scope, { kind, id, action: 'create', before: null })
  return done({ ...shown, ...(made?.secret && { secret: made.secret }) }, 201)
}

export const patchRecord = async (
  scope: WriteScope,
  { kind, id, patch, rev }: Write<'patch'>,
): Promise<ControlResult> => {
  const { db, context, now } = scope
  const found = await writable(scope, { kind, id, rev })
  if ('ok' in found) return found
  const { row, before } = found
  if (!isObject(patch)) return badValue('', 'Send a JSON object.')
  if (row.status === 'revoked') return refused(409, 'revoked', `The ${kind} was revoked and cannot be changed.`)
  const { prefix, ...current } = JSON.parse(row.doc)
  const checked = await checkedBody(
    scope,
    kind,
    mergePatch({ ...current, ...(isOfTeam(kind) && { team: row.team }) }, patch),
    current,
  )
  if ('ok' in checked) return checked
  const { team, name, expires } = checked
  if (!mayWrite(context, kind, team)) return notPermitted(kind)
  const taken = await nameProblem(scope, { kind, team, name, id })
  if (taken) return taken
  const doc = JSON.stringify({ ...checked.doc, ...(prefix !== undefined && { prefix }) })
  await db
    .updateTable('record')
    .set({ team, name, expires, doc, rev: row.rev + 1, changed: now })
    .where('id', '=', id)
    .execute()
  return done(await finish(scope, { kind, id, action: 'update', before }))
}

/** Keys and tokens are revoked. A deleted team stays for its name, as revoked keys do; other records are removed. */
export const deleteRecord = async (
  scope: WriteScope,
  { kind, id, rev, keys }: Write<'delete'>,
): Promise<ControlResult> => {
  const { db, now } = scope
  const found = await writable(scope, { kind, id, rev })
  if ('ok' in found) return found
  if (hasSecret(kind)) return setStatus(scope, found, 'revoked')
  if (id === DEFAULT_TEAM.id) return refused(409, 'default_team', 'The team "default" always exists. Block it instead.')
  if (kind === 'team') {
    const members = await anyRecord(scope)
      .selectAll()
      .where('kind', '=', 'key')
      .where('team', '=', id)
      .where('status', '<>', 'revoked')
      .execute()
    const managed = members.find((one) => one.managed === 'file')
    if (managed) return byFile(scope, managed)
    if (members.length > 0 && keys !== 'revoke')
      return refused(
        409,
        'team_has_keys',
        `The team has ${members.length} keys. Move them, or delete with keys=revoke.`,
      )
    for (const member of members) await setStatus(scope, { row: member, before: await shown(scope, member) }, 'revoked')
    const routes = await db
      .selectFrom('record')
      .select('id')
      .where('kind', '=', 'route')
      .where('team', '=', id)
      .execute()
    for (const route of routes) await deleteRecord(scope, { do: 'delete', kind: 'route', id: route.id, rev: null })
  }
  if (kind === 'team') {
    const { rev } = found.row
    await db
      .updateTable('record')
      .set({ status: 'deleted', rev: rev + 1, changed: now })
      .where('id', '=', id)
      .execute()
  } else await db.deleteFrom('record').where('id', '=', id).execute()
  await noteChange(scope, kind, id)
  await audit(scope, { action: `${kind}.delete`, object: id, details: { before: found.before, after: null } })
  return done({ id, object: kind, deleted: true })
}

export const rotateKey = async (scope: WriteScope, { id, overlap }: Write<'rotate'>): Promise<ControlResult> => {
  const { db, now } = scope
  const found = await writable(scope, { kind: 'key', id, rev: null })
  if ('ok' in found) return found
  const { row, before } = found
  const length = durationOf(overlap)
  if (length === null || length > MAX_OVERLAP)
    return badValue('overlap', `"${overlap}" is not a duration up to 90 days. Write it as 0s, 24h or 7d.`)
  if (row.status === 'revoked') return refused(409, 'revoked', 'The key was revoked. Create another one.')
  const until = now + length
  const secrets = (await secretsOf(db, [id])).get(id) ?? []
  const valid = length === 0 ? [] : secrets.filter((secret) => secret.until === null || secret.until > now)
  if (valid.length >= MAX_SECRETS)
    return refused(
      409,
      'too_many_secrets',
      `The key has ${valid.length} valid secrets (limit ${MAX_SECRETS}). Wait until one ends, or rotate with overlap 0s.`,
    )
  const kept = new Set(valid.map(({ digest }) => digest))
  for (const { digest } of secrets)
    if (!kept.has(digest)) await db.deleteFrom('secret').where('digest', '=', digest).execute()
  for (const { digest, until: end } of valid)
    await db
      .updateTable('secret')
      .set({ until: Math.min(end ?? until, until) })
      .where('digest', '=', digest)
      .execute()
  const made = newSecret(scope, 'key', undefined)
  await addSecret(scope, id, made)
  const doc = JSON.stringify({ ...JSON.parse(row.doc), prefix: made.prefix })
  await db
    .updateTable('record')
    .set({ doc, rev: row.rev + 1, changed: now })
    .where('id', '=', id)
    .execute()
  return done({ ...(await finish(scope, { kind: 'key', id, action: 'rotate', before })), secret: made.secret })
}

/** Ends the older secrets of a rotation, which have an end; the newest stays. */
export const retireSecrets = async (scope: WriteScope, { id }: Write<'retire'>): Promise<ControlResult> => {
  const { db, now } = scope
  const found = await writable(scope, { kind: 'key', id, rev: null })
  if ('ok' in found) return found
  const { row, before } = found
  const older = ((await secretsOf(db, [id])).get(id) ?? []).filter(({ until }) => until !== null)
  if (older.length === 0) return done(before)
  for (const { digest } of older) await db.deleteFrom('secret').where('digest', '=', digest).execute()
  await db
    .updateTable('record')
    .set({ rev: row.rev + 1, changed: now })
    .where('id', '=', id)
    .execute()
  return done(await finish(scope, { kind: 'key', id, action: 'retire', before }))
}

const MAX_OVERLAP = 90 * 86_400_000

export const blockRecord = async (
  scope: WriteScope,
  { do: action, kind, id }: Write<'block' | 'unblock'>,
): Promise<ControlResult> => {
  const found = await writable(scope, { kind, id, rev: null })
  if ('ok' in found) return found
  return setStatus(scope, found, action === 'block' ? 'blocked' : 'active')
}

/** Applies an action to each key. Keys that cannot be changed are listed with their error. */
export const bulkAction = async (scope: WriteScope, operation: Write<'bulk'>): Promise<ControlResult> => {
  const { context } = scope
  const limit = MAX_BULK + 1
  const ids =
    'ids' in operation
      ? [...new Set(operation.ids)]
      : await filteredRecords(scope, { kind: 'key', filter: operation.filter, limit }, context.teams)
  if ('ok' in ids) return ids
  if (ids.length > MAX_BULK)
    return badValue(
      'ids' in operation ? 'ids' : 'filter',
      `At most ${MAX_BULK} keys can be changed at once. Select fewer.`,
    )
  const failed: JsonObject[] = []
  for (const id of ids) {
    const result = await bulkOne(scope, operation.action, id)
    if (!result.ok) failed.push({ id, error: { ...result.error, errors: null } })
  }
  return done({ done: ids.length - failed.length, failed })
}

const bulkOne = (scope: WriteScope, action: BulkAction, id: string): Promise<ControlResult> =>
  action === 'revoke'
    ? deleteRecord(scope, { do: 'delete', kind: 'key', id, rev: null })
    : blockRecord(scope, { do: action, kind: 'key', id })

const DECISIONS: { readonly [kind: string]: readonly string[] } = {
  credential: ['disabled'],
  circuit: ['open', 'closed'],
  end_user: ['blocked'],
  identity: ['blocked'],
  session: ['stopped'],
}

/** Characters of the ID of a decision. */
const MAX_DECIDED = 1_536
/** Every process has them in memory. */
const MAX_BLOCKED = 10_000
/** Kinds of which there may be many, as messages name them. */
const BLOCKED: { readonly [kind: string]: string | undefined } = {
  end_user: 'end users',
  identity: 'subjects',
  session: 'sessions',
}

const countDecisions = async (db: WriteScope['db'], kind: string): Promise<number> => {
  const found = await db
    .selectFrom('decision')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('kind', '=', kind)
    .executeTakeFirstOrThrow()
  return Number(found.count)
}

export const decide = async (
  scope: WriteScope,
  { kind, id, state, until, reason }: Write<'decide'>,
): Promise<ControlResult> => {
  const { db, context, now } = scope
  const end = until === null ? null : Date.parse(until)
  if (context.teams !== null) return notPermitted(kind)
  if (end !== null && Number.isNaN(end)) return badValue('until', 'Write a time as in 2026-12-01T00:00:00Z.')
  const isAllowed = kind === 'canary' ? CANARY_STATE.test(state ?? '') : DECISIONS[kind]?.includes(state ?? '')
  if (state !== null && !isAllowed) return badValue('state', `Choose one of ${DECISIONS[kind]?.join(', ')}.`)
  const blocked = state === null ? undefined : BLOCKED[kind]
  if (blocked !== undefined && (await countDecisions(db, kind)) >= MAX_BLOCKED)
    return badValue(kind, `At most ${MAX_BLOCKED} ${blocked} can be blocked. Unblock others first.`)
  if (id === '' || id.length > MAX_DECIDED || reason.length > 1_000)
    return badValue('reason', 'Write at most 1,000 characters.')
  const before = await db
    .selectFrom('decision')
    .selectAll()
    .where('kind', '=', kind)
    .where('id', '=', id)
    .executeTakeFirst()
  await db.deleteFrom('decision').where('kind', '=', kind).where('id', '=', id).execute()
  const row = { kind, id, until: end, reason, actor: context.actor.name, at: now }
  if (state !== null)
    await db
      .insertInto('decision')
      .values({ ...row, state })
      .execute()
  await noteChange(scope, 'decision', id)
  const after = state === null ? null : { state, until, reason }
  const details = { before: before ? { state: before.state, reason: before.reason } : null, after }
  await audit(scope, { action: `${kind}.${state ?? 'release'}`, object: id, details })
  return done({ kind, id, state, until, reason })
}

export const note = async (scope: WriteScope, { action, object, details }: Write<'note'>): Promise<ControlResult> => {
  await audit(scope, { action, object, details })
  return done({ action, object })
}

// ── Checks ─────────────────────────────────────────────────────────────────────────────────────────────────────

type Found = { readonly row: AnyRecord; readonly before: JsonObject }

/** The record that a write changes, or why it may not be changed. */
const writable = async (
  scope: WriteScope,
  { kind, id, rev }: { readonly kind: RecordKind; readonly id: string; readonly rev: number | null },
): Promise<Found | ControlResult> => {
  const row = await findRecord(scope, kind, id)
  if (!row || row.status === 'deleted' || !isInTeams(row, scope.context.teams)) return noRecord(kind, id)
  if (!mayWrite(scope.context, kind, row.team)) return notPermitted(kind)
  if (row.managed === 'file') return byFile(scope, row)
  if (rev !== null && rev !== row.rev)
    return refused(
      412,
      'precondition_failed',
      `The ${kind} has revision ${row.rev}, not ${rev}. Read it again and repeat the change.`,
    )
  return { row, before: await shown(scope, row) }
}

/** Whether records of this kind belong to a team. */
const isOfTeam = (kind: RecordKind): boolean => kind === 'key' || kind === 'route'

/** Actors who are bound to teams change keys and routes of these teams only. */
const mayWrite = ({ teams }: ControlContext, kind: RecordKind, team: string): boolean =>
  teams === null || (isOfTeam(kind) && teams.includes(team))

const notPermitted = (kind: string): ControlResult =>
  refused(403, 'not_permitted', `Your role does not permit this change of a ${kind}.`)

const byFile = (
  { settings: { file } }: WriteScope,
  { kind, id, name }: Pick<RecordRow, 'kind' | 'id' | 'name'>,
): ControlResult =>
  refused(
    409,
    'managed_by_file',
    `The ${kind} "${name}" is defined in ${file.places[id] ?? 'headgate.yaml'}. Change it there.`,
  )

/** States of records that are kept for their names, which others may have. */
const ENDED = ['revoked', 'deleted'] as const

/** Another record of the same name. */
const nameProblem = async (
  scope: WriteScope,
  { kind, team, name, id }: Pick<RecordRow, 'kind' | 'team' | 'name'> & { readonly id: string | null },
): Promise<ControlResult | null> => {
  const other = await anyRecord(scope)
    .select(['id', 'kind', 'name', 'managed'])
    .where('kind', '=', kind)
    .where('team', '=', team)
    .where('name', '=', name)
    .where('status', 'not in', ENDED)
    .where('id', '<>', id ?? '')
    .executeTakeFirst()
  if (!other) return null
  if (other.managed === 'file') return byFile(scope, other)
  return refused(409, 'name_taken', `The ${kind} ${other.id} has the name "${name}". Choose another name.`, 'name')
}

type CheckedBody = {
  readonly doc: JsonObject
  readonly team: string
  readonly name: string
  readonly expires: number | null
}

/** Validates a body and replaces names of teams and keys with their IDs. `current`: the body before a patch. */
const checkedBody = async (
  scope: WriteScope,
  kind: RecordKind,
  body: JsonObject,
  current: JsonObject | null,
): Promise<CheckedBody | ControlResult> => {
  const parsed = BODIES[kind].safeParse(body, { error: valueMessage })
  if (!parsed.success) return badBody(parsed.error)
  const doc: JsonObject = JSON.parse(JSON.stringify(parsed.data))
  const resolve = async (of: RecordKind, reference: string) =>
    (
      await anyRecord(scope)
        .select('id')
        .where('kind', '=', of)
        .where((where) => where.or([where('id', '=', reference), where('name', '=', reference)]))
        .where('status', 'not in', ENDED)
        // An ID comes first, if a record has it as its name.
        .orderBy((order) => order('id', '=', reference), 'desc')
        .executeTakeFirst()
    )?.id
  const unknown = (path: string, of: RecordKind, reference: string) =>
    badValue(path, `No ${of} has the ID or the name "${reference}".`)
  const expires = typeof doc.expires_at === 'string' ? Date.parse(doc.expires_at) : null
  const name = kind === 'price' ? priceName(PRICE_BODY.parse(body)) : String(doc.name)
  if (isOfTeam(kind)) {
    const team = await resolve('team', String(doc.team))
    return team === undefined ? unknown('team', 'team', String(doc.team)) : { doc, team, name, expires }
  }
  if (kind === 'budget' && isObject(doc.appliesTo)) {
    const known = new Set(
      isObject(current?.appliesTo) ? textsIn([current.appliesTo.teams, current.appliesTo.keys]) : [],
    )
    const resolved: Record<string, Json | undefined> = { ...doc.appliesTo }
    for (const [member, of] of [
      ['teams', 'team'],
      ['keys', 'key'],
    ] as const) {
      const references = doc.appliesTo[member]
      if (!Array.isArray(references)) continue
      const ids: string[] = []
      for (const reference of textsIn([references])) {
        const id = known.has(reference) ? reference : await resolve(of, reference)
        if (id === undefined) return unknown(`appliesTo.${member}`, of, reference)
        ids.push(id)
      }
      resolved[member] = ids
    }
    return { doc: { ...doc, appliesTo: resolved }, team: '', name, expires }
  }
  if (kind === 'token' && Array.isArray(doc.bindings)) {
    const bindings: Json[] = []
    for (const [index, binding] of doc.bindings.entries()) {
      const reference = isObject(binding) ? binding.team : null
      const team = typeof reference === 'string' ? await resolve('team', reference) : null
      if (team === undefined) return unknown(`bindings.${index}.team`, 'team', String(reference))
      bindings.push({ ...(isObject(binding) && binding), team })
    }
    return { doc: { ...doc, bindings }, team: '', name, expires }
  }
  return { doc, team: '', name, expires }
}

const textsIn = (lists: readonly (Json | undefined)[]): readonly string[] =>
  lists.flatMap((list) => (Array.isArray(list) ? list.filter((one) => typeof one === 'string') : []))

const defined = (members: { readonly [name: string]: unknown }) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

// ── Secrets ────────────────────────────────────────────────────────────────────────────────────────────────────

type NewSecret = {
  readonly digest: string
  readonly last4: string
  /** Null for imported keys. */
  readonly prefix: string | null
  /** Shown once; absent if the actor has it already. */
  readonly secret?: string
}

const hasSecret = (kind: RecordKind): kind is 'key' | 'token' => kind === 'key' || kind === 'token'

/** A digest names a key whose secret the actor need not know: it would let a team take over the key of another one. */
const DIGEST_NOT_PERMITTED = refused(
  403,
  'not_permitted',
  'Only an administrator of all teams may import a digest. Import the secret, or have a secret generated.',
  'digest',
)
const SECRET_TAKEN = refused(
  409,
  'secret_taken',
  'Another key or token has this secret, in the database, in headgate.yaml or in auth.keys or auth.admin. Give each its own.',
  'secret',
)

const newSecret = (
  { settings: { pepper } }: WriteScope,
  kind: 'key' | 'token',
  given:
    | {
        readonly secret?: string | undefined
        readonly digest?: string | undefined
        readonly last4?: string | undefined
      }
    | undefined,
): NewSecret => {
  if (given?.digest !== undefined) return { digest: given.digest, last4: given.last4 ?? '', prefix: null }
  const secret = given?.secret ?? createKey(kind === 'key' ? 'client' : 'admin', randomBytes)
  const digest = storedDigest(secret, pepper ?? undefined)
  const prefix = keyKindOf(secret) === undefined ? null : secret.slice(0, 'hgk_'.length)
  return { digest, last4: last4(secret), prefix, ...(given?.secret === undefined && { secret }) }
}

const addSecret = async ({ db, now }: WriteScope, owner: string, { digest, last4: end }: NewSecret): Promise<void> => {
  await db.insertInto('secret').values({ digest, owner, last4: end, created: now, until: null }).execute()
}

/** Whether another credential has the secret or the digest: a key or token of the database, revoked ones included, or a configured one. */
const isTaken = async (
  { db, settings: { pepper, configured, file } }: WriteScope,
  { secret, digest }: { readonly secret?: string | undefined; readonly digest?: string | undefined },
): Promise<boolean> => {
  const digests = digest !== undefined ? [digest] : secret !== undefined ? digestsOf(secret, pepper ?? undefined) : []
  if (digests.length === 0) return false
  const isOf = ({ secrets }: ClientKey) => secrets.some((one) => digests.includes(one.digest))
  if (digests.some((one) => configured.includes(one)) || file.keys.some(isOf)) return true
  return (
    (await db.selectFrom('secret').select('digest').where('digest', 'in', digests).executeTakeFirst()) !== undefined
  )
}

// ── Common parts of writes ─────────────────────────────────────────────────────────────────────────────────────

const setStatus = async (scope: WriteScope, { row, before }: Found, status: string): Promise<ControlResult> => {
  const { db, now } = scope
  const { id, rev } = row
  const kind = row.kind as RecordKind
  if (row.status === status) return done(before)
  if (row.status === 'revoked') return refused(409, 'revoked', `The ${kind} was revoked, which cannot be undone.`)
  await db
    .updateTable('record')
    .set({ status, rev: rev + 1, changed: now })
    .where('id', '=', id)
    .execute()
  const action = status === 'revoked' ? 'revoke' : status === 'blocked' ? 'block' : 'unblock'
  return done(await finish(scope, { kind, id, action, before }))
}

/** Records the change for other processes and in the audit log. Returns the record as it is now. */
const finish = async (
  scope: WriteScope,
  {
    kind,
    id,
    action,
    before,
  }: { readonly kind: RecordKind; readonly id: string; readonly action: string; readonly before: JsonObject | null },
): Promise<JsonObject> => {
  await noteChange(scope, kind, id)
  const row = await findRecord(scope, kind, id)
  if (!row) throw new Error(`the ${kind} ${id} was not stored`)
  const after = await shown(scope, row)
  await audit(scope, { action: `${kind}.${action}`, object: id, details: { before, after } })
  return after
}

const shown = async ({ db, now }: WriteScope, row: AnyRecord): Promise<JsonObject> =>
  shownRecord(row, (await secretsOf(db, [row.id])).get(row.id) ?? [], now)

const noteChange = async ({ db, now }: WriteScope, kind: string, id: string): Promise<void> => {
  await db.insertInto('change').values({ kind, id, at: now }).execute()
}

export const audit = (
  { db, context, now }: WriteScope,
  entry: { readonly action: string; readonly object: string; readonly details: JsonObject },
): Promise<void> => addAuditRow(db, context, { id: createAccountId('aud', randomBytes), at: now, ...entry })
