/** Teams, client keys, prices and admin tokens. */
import { z } from 'zod'
import { NO_REQUIRE } from '../../../core/data-policy.ts'
import { good, type Outcome } from '../../../core/failure.ts'
import type { Settings } from '../../../core/settings.ts'
import { clientOf } from '../../../policy/accounts/client.ts'
import { combined } from '../../../policy/accounts/data-policy.ts'
import { restrictionsOf } from '../../../policy/accounts/key-access.ts'
import { listModels } from '../../../policy/routing/models.ts'
import { configFor } from '../../../policy/routing/team-routes.ts'
import type { RecordKind } from '../../../records/entities/bodies.ts'
import { KEY, KEY_BODY, NEW_KEY } from '../../../records/entities/key.ts'
import { PRICE, PRICE_BODY } from '../../../records/entities/price.ts'
import { TEAM, TEAM_BODY } from '../../../records/entities/team.ts'
import { TOKEN, TOKEN_BODY } from '../../../records/entities/token.ts'
import { deletedAs, listOf } from '../../answers/fields.ts'
import type { Role, RoleScope } from '../actor.ts'
import { checkChange } from '../claims.ts'
import { defined, runFor, withClosed, withWarning } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id } from '../fields.ts'
import { askProcesses } from '../processes.ts'
import { keyFilter, patchOf, recordList } from '../records.ts'
import { type AdminCall, type AdminRow, type Answered, row } from '../row.ts'
import { COMMON, KEY_SHOWN, SECRETS, UNLIMITED, UNRESTRICTED } from './account-examples.ts'
import { keyList } from './key-list.ts'

const TEAM_SHOWN = {
  id: 'team_kdvbwqhzmrtc',
  object: 'team',
  name: 'search',
  access: { ...UNRESTRICTED, models: ['openai/*'] },
  limits: { ...UNLIMITED, requestsPerMinute: 600 },
  require: { ...NO_REQUIRE, region: ['eu'] },
  loops: null,
  cache: null,
  tags: {},
  ...COMMON,
}
const PRICE_SHOWN = {
  id: 'prc_kdvbwqhzmrtc',
  object: 'price',
  name: 'openai/gpt-5*',
  provider: 'openai',
  model: 'gpt-5*',
  effective_from: null,
  prices: { factor: 0.85 },
  ...COMMON,
}
const TOKEN_SHOWN = {
  id: 'adm_kdvbwqhzmrtc',
  object: 'admin_token',
  name: 'ci',
  bindings: [{ role: 'viewer', team: null }],
  expires_at: null,
  ...COMMON,
  ...SECRETS,
  prefix: 'hga_',
}
const SHOWN_ONCE = 'hgk_0123456789abcdefghijABCDEFGHIJ01234567'

type RecordArea = {
  readonly kind: Exclude<RecordKind, 'budget' | 'route'>
  readonly path: string
  readonly noun: string
  /** Who reads. */
  readonly role: Role
  readonly scope: RoleScope
  /** Where the role `admin` is needed for writes. */
  readonly writes: RoleScope
  readonly shown: z.ZodObject
  readonly body: z.ZodObject
  readonly patch: z.ZodObject
  readonly filters: z.ZodRawShape
  readonly example: Readonly<Record<string, unknown>>
  readonly newBody: Readonly<Record<string, unknown>>
  readonly patchBody: Readonly<Record<string, unknown>>
  readonly secret: string | null
  readonly about?: string
}

/** `a team`, `an admin token`. */
const withArticle = (noun: string): string => `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`

type ListedRecords = z.output<ReturnType<typeof listOf<z.ZodObject>>>

const LISTED_TEAM = TEAM.extend({ keys: z.int().describe('Its keys that are not revoked') })

/** Adds the number of its keys to each team of a list. */
const withKeys = (
  { control }: AdminDeps,
  found: Outcome<Answered<ListedRecords>>,
): Outcome<Answered<ListedRecords>> => {
  if (!found.ok || 'stream' in found.value) return found
  const counts = new Map<string, number>()
  for (const { team, status } of control.directory().keys.values())
    if (status !== 'revoked') counts.set(team, (counts.get(team) ?? 0) + 1)
  const { body } = found.value
  const data = body.data.map((team) => ({ ...team, keys: counts.get(String(team.id)) ?? 0 }))
  return good({ ...found.value, body: { ...body, data } })
}

const list = ({ kind, path, noun, role, scope, shown, filters, example }: RecordArea): AdminRow =>
  row({
    method: 'GET',
    path,
    summary: `List the ${noun}s`,
    role,
    scope,
    query: z.strictObject({ ...recordList, ...filters }),
    answer: listOf<z.ZodObject>(kind === 'team' ? LISTED_TEAM : shown),
    example: {
      query: { limit: '20' },
      answer: {
        object: 'list',
        data: [kind === 'team' ? { ...example, keys: 4 } : example],
        has_more: false,
        next: null,
      },
    },
    async handle(deps, call) {
      const found = await runFor<ListedRecords>(deps.control, call, {
        do: 'list',
        kind,
        query: defined(call.query),
      })
      return kind === 'team' ? withKeys(deps, found) : found
    },
  })

const show = ({ kind, path, noun, role, scope, shown, example }: RecordArea): AdminRow =>
  row({
    method: 'GET',
    path: `${path}/{id}`,
    summary: `Show ${withArticle(noun)}`,
    role,
    scope,
    params: id,
    answer: shown,
    example: { params: { id: String(example.id) }, answer: example },
    handle: ({ control }, call) => runFor(control, call, { do: 'get', kind, id: call.params.id }),
  })

const create = ({ kind, path, noun, writes, shown, body, example, newBody, secret, about }: RecordArea): AdminRow =>
  row({
    method: 'POST',
    path,
    summary: `Create ${withArticle(noun)}`,
    ...(about !== undefined && { about }),
    role: 'admin',
    scope: writes,
    body,
    answer: shown,
    status: 201,
    example: { body: newBody, answer: { ...example, ...(secret !== null && { secret }) } },
    async handle(deps, call) {
      const wasOpen = kind !== 'price' && deps.control.isOpen()
      const { body } = call
      const answered = await withClaims(deps, call, { kind, id: null, body }, async () => {
        const created = await runFor<Record<string, unknown>>(deps.control, call, { do: 'create', kind, body })
        const warning = kind === 'key' ? unusableKey(deps, created) : null
        return warning === null ? created : withWarning(created, warning)
      })
      return wasOpen ? withClosed(deps, answered) : answered
    },
  })

/** Writes a team or a key if no claim about the data policy prevents it; with a warning if the write breaks one. */
const withClaims = async (
  deps: AdminDeps,
  call: AdminCall,
  { kind, ...change }: { readonly kind: RecordArea['kind']; readonly id: string | null; readonly body: unknown },
  write: () => Promise<Outcome<Answered<Record<string, unknown>>>>,
): Promise<Outcome<Answered<Record<string, unknown>>>> => {
  if (kind !== 'team' && kind !== 'key') return write()
  const checked = await checkChange(deps, call, { kind, ...change })
  if (!checked.ok) return checked
  const written = await write()
  return checked.value === null ? written : withWarning(written, checked.value)
}

/** A warning about a key that may use nothing of what is configured, such as one for a route that does not exist. */
const unusableKey = (
  { control, gateway }: AdminDeps,
  created: Outcome<Answered<Record<string, unknown>>>,
): string | null => {
  if (!created.ok || 'stream' in created.value) return null
  const { keys, teams } = control.directory()
  const made = keys.get(String(created.value.body.id))
  const team = made && teams.get(made.team)
  if (!team) return null
  const client = clientOf(made, team)
  const config = configFor(gateway, gateway.config(), client)
  const limits = { rules: restrictionsOf(client), require: combined(config.require, client.require) }
  if (!limits.rules && !limits.require) return null
  if (listModels(config, gateway.lists(), gateway.catalogue, limits).length > 0) return null
  return 'what this key and its team may use and require permits no model and no route that is configured now, so its calls are refused; headgate models lists the names'
}

const change = ({ kind, path, noun, writes, shown, patch, example, patchBody }: RecordArea): AdminRow =>
  row({
    method: 'PATCH',
    path: `${path}/{id}`,
    summary: `Change ${withArticle(noun)}`,
    role: 'admin',
    scope: writes,
    params: id,
    body: patch,
    answer: shown,
    conditional: true,
    example: { params: { id: String(example.id) }, body: patchBody, answer: { ...example, rev: 2 } },
    handle(deps, call) {
      const { id: changed } = call.params
      return withClaims(deps, call, { kind, id: changed, body: call.body }, () =>
        runFor<Record<string, unknown>>(deps.control, call, {
          do: 'patch',
          kind,
          id: changed,
          patch: call.body,
          rev: call.revision,
        }),
      )
    },
  })

const TEAMS: RecordArea = {
  kind: 'team',
  path: '/teams',
  noun: 'team',
  role: 'viewer',
  scope: 'team',
  writes: 'all',
  shown: TEAM,
  body: TEAM_BODY,
  patch: patchOf(TEAM_BODY),
  filters: {
    status: z
      .array(z.enum(['active', 'blocked', 'deleted']))
      .optional()
      .describe('Default: active and blocked. A deleted team keeps its name'),
  },
  example: TEAM_SHOWN,
  newBody: { name: 'search', access: { models: ['openai/*'] }, limits: { requestsPerMinute: 600 } },
  patchBody: { limits: { requestsPerMinute: null } },
  secret: null,
}
const KEYS: RecordArea = {
  kind: 'key',
  path: '/keys',
  noun: 'client key',
  role: 'viewer',
  scope: 'team',
  writes: 'team',
  shown: KEY,
  body: NEW_KEY,
  patch: patchOf(KEY_BODY),
  // Those of its list are in key-list.ts.
  filters: {},
  example: KEY_SHOWN,
  newBody: { name: 'search-prod', team: 'default', tags: { app: 'search' } },
  patchBody: { limits: { concurrent: 50 }, tags: { app: null } },
  secret: SHOWN_ONCE,
  about:
    'The answer contains the secret, which is shown once. `secret` or `digest` imports an existing key that no other credential has, in the database, in headgate.yaml or in the environment; only administrators of all teams import digests. An administrator of a team creates keys of that team; a key never has more access than its team.',
}
const PRICES: RecordArea = {
  kind: 'price',
  path: '/prices',
  noun: 'price override',
  role: 'viewer',
  scope: 'any',
  writes: 'all',
  shown: PRICE,
  body: PRICE_BODY,
  patch: patchOf(PRICE_BODY),
  filters: {},
  example: PRICE_SHOWN,
  newBody: { provider: 'openai', model: 'gpt-5*', prices: { factor: 0.85 } },
  patchBody: { prices: { factor: 0.9 } },
  secret: null,
  about: 'Prices in US dollars per million tokens. It applies to calls from then on; costs in the ledger stay.',
}
const TOKENS: RecordArea = {
  kind: 'token',
  path: '/tokens',
  noun: 'admin token',
  role: 'admin',
  scope: 'all',
  writes: 'all',
  shown: TOKEN,
  body: TOKEN_BODY,
  patch: patchOf(TOKEN_BODY),
  filters: {},
  example: TOKEN_SHOWN,
  newBody: { name: 'ci', bindings: [{ role: 'viewer', team: null }] },
  patchBody: { bindings: [{ role: 'operator', team: null }] },
  secret: 'hga_0123456789abcdefghijABCDEFGHIJ01234567',
  about: 'The answer contains the secret, which is shown once.',
}

/** Whether no client has a key that may be used, though all need one. */
const isLastKey = ({ control }: AdminDeps, { auth }: Settings): boolean =>
  !control.isOpen() &&
  auth.keys.length === 0 &&
  control
    .directory()
    .keys.values()
    .every(({ status }) => status === 'revoked')

const LAST_KEY =
  'this was the last client key, and every model call needs one: create another (headgate keys create NAME), or set AUTH_REQUIRED=false to serve without keys'

const removal = {
  method: 'DELETE',
  role: 'admin',
  params: id,
  conditional: true,
} as const

const block = ({
  kind,
  path,
  noun,
  scope,
  shown,
  example,
}: RecordArea & { readonly kind: 'team' | 'key' }): AdminRow[] =>
  (['block', 'unblock'] as const).map((action) =>
    row({
      method: 'POST',
      path: `${path}/{id}/${action}`,
      summary: action === 'block' ? `Block a ${noun} until it is unblocked` : `Unblock a ${noun}`,
      role: 'operator',
      scope: kind === 'team' ? 'all' : scope,
      params: id,
      answer: shown,
      example: {
        params: { id: String(example.id) },
        answer: { ...example, status: action === 'block' ? 'blocked' : 'active' },
      },
      handle: ({ control }, call) => runFor(control, call, { do: action, kind, id: call.params.id }),
    }),
  )

export const accountRows: readonly AdminRow[] = [
  list(TEAMS),
  create(TEAMS),
  show(TEAMS),
  change(TEAMS),
  row({
    ...removal,
    path: '/teams/{id}',
    summary: 'Delete a team',
    about:
      'A team with keys is deleted with `keys=revoke` only, which revokes them. Usage keeps the name of a deleted team, which `GET /teams?status=deleted` lists; another team may take that name.',
    scope: 'all',
    query: z.strictObject({ keys: z.enum(['revoke']).optional() }),
    answer: deletedAs('team'),
    example: { params: { id: TEAM_SHOWN.id }, answer: { id: TEAM_SHOWN.id, object: 'team', deleted: true } },
    handle: ({ control }, call) => {
      const { keys } = call.query
      const operation = { do: 'delete', kind: 'team', id: call.params.id, rev: call.revision } as const
      return runFor(control, call, keys === undefined ? operation : { ...operation, keys })
    },
  }),
  ...block({ ...TEAMS, kind: 'team' }),

  keyList,
  create(KEYS),
  row({
    method: 'POST',
    path: '/keys/bulk',
    summary: 'Block, unblock or revoke several client keys',
    role: 'admin',
    scope: 'team',
    body: z.union([
      z.strictObject({
        action: z.enum(['block', 'unblock', 'revoke']),
        ids: z.array(z.string()).min(1).max(1_000),
      }),
      z.strictObject({
        action: z.enum(['block', 'unblock', 'revoke']),
        filter: z.strictObject({ ...keyFilter, q: recordList.q }),
      }),
    ]),
    answer: z.strictObject({
      done: z.int(),
      failed: z.array(
        z.strictObject({ id: z.string(), error: z.looseObject({ code: z.string(), message: z.string() }) }),
      ),
    }),
    example: {
      body: { action: 'block', filter: { tag: ['app:search'] } },
      answer: { done: 12, failed: [] },
    },
    handle: ({ control }, call) => {
      const { body } = call
      const { action } = body
      const chosen = 'ids' in body ? { ids: body.ids } : { filter: defined(body.filter) }
      return runFor(control, call, { do: 'bulk', action, ...chosen })
    },
  }),
  show(KEYS),
  change(KEYS),
  row({
    ...removal,
    path: '/keys/{id}',
    summary: 'Revoke a client key for ever',
    about:
      'The key stays in lists, because the ledger refers to it. Requests in progress finish; with `cut=true` they end with an error, in all processes of all gateways that share DATABASE_URL; a gateway that is cut off from it ends them when it is back.',
    scope: 'team',
    query: z.strictObject({ cut: z.boolean().default(false).describe('End the requests in progress') }),
    answer: KEY,
    example: { params: { id: KEY_SHOWN.id }, answer: { ...KEY_SHOWN, status: 'revoked', rev: 2 } },
    async handle(deps, call) {
      const { id: revoked } = call.params
      const done = await runFor<z.input<typeof KEY>>(deps.control, call, {
        do: 'delete',
        kind: 'key',
        id: revoked,
        rev: call.revision,
      })
      if (done.ok && call.query.cut) await askProcesses(deps, { do: 'cut', key: revoked })
      return isLastKey(deps, call.request.settings) ? withWarning(done, LAST_KEY) : done
    },
  }),
  row({
    method: 'POST',
    path: '/keys/{id}/rotate',
    summary: 'Give a client key a new secret',
    about:
      'Older secrets stay valid for `overlap`; `0s` ends them at once, for a secret that leaked. The answer contains the new secret, which is shown once.',
    role: 'admin',
    scope: 'team',
    params: id,
    body: z.strictObject({
      overlap: z
        .string()
        .regex(/^[0-9]{1,6}[smhd]$/, 'Write 0s, 90m, 24h or 7d.')
        .default('24h'),
    }),
    answer: KEY,
    example: {
      params: { id: KEY_SHOWN.id },
      body: { overlap: '24h' },
      answer: { ...KEY_SHOWN, rev: 2, secret: SHOWN_ONCE },
    },
    handle: ({ control }, call) =>
      runFor(control, call, { do: 'rotate', id: call.params.id, overlap: call.body.overlap }),
  }),
  row({
    method: 'POST',
    path: '/keys/{id}/retire',
    summary: 'End the older secrets of a client key now',
    about: 'After a rotation, when the older secret is no longer used. The newest secret stays valid.',
    role: 'admin',
    scope: 'team',
    params: id,
    answer: KEY,
    example: { params: { id: KEY_SHOWN.id }, answer: { ...KEY_SHOWN, rev: 3 } },
    handle: ({ control }, call) => runFor(control, call, { do: 'retire', id: call.params.id }),
  }),
  ...block({ ...KEYS, kind: 'key' }),

  list(PRICES),
  create(PRICES),
  show(PRICES),
  change(PRICES),
  row({
    ...removal,
    path: '/prices/{id}',
    summary: 'Delete a price override',
    scope: 'all',
    answer: deletedAs('price'),
    example: { params: { id: PRICE_SHOWN.id }, answer: { id: PRICE_SHOWN.id, object: 'price', deleted: true } },
    handle: ({ control }, call) =>
      runFor(control, call, { do: 'delete', kind: 'price', id: call.params.id, rev: call.revision }),
  }),

  list(TOKENS),
  create(TOKENS),
  show(TOKENS),
  change(TOKENS),
  row({
    ...removal,
    path: '/tokens/{id}',
    summary: 'Revoke an admin token',
    scope: 'all',
    answer: TOKEN,
    example: { params: { id: TOKEN_SHOWN.id }, answer: { ...TOKEN_SHOWN, status: 'revoked', rev: 2 } },
    handle: ({ control }, call) =>
      runFor(control, call, { do: 'delete', kind: 'token', id: call.params.id, rev: call.revision }),
  }),
]
