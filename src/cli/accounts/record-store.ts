/**
 * Teams, keys and budgets for the verbs: through the admin API of a running gateway, or on the database where none runs. Both
 * have the same operations and the same shapes.
 */
import { userInfo } from 'node:os'
import { isObject, type JsonObject, list, text } from '../../core/json.ts'
import { nearest } from '../../core/nearest.ts'
import { ControlClient } from '../../records/store/control-client.ts'
import { controlSettings } from '../../records/store/control-settings.ts'
import { sharedControl } from '../../records/store/place.ts'
import type { ControlError, ControlOperation } from '../../records/store/record-operations.ts'
import { type Cli, CliError, EXIT } from '../cli.ts'
import { findGateway, type GatewayClient } from '../gateway-client.ts'
import { type Local, readLocal, validConfig } from '../local.ts'

export type RecordStore = {
  /** Whether the operations go to a running gateway. */
  readonly gateway: GatewayClient | null
  readonly run: (operation: RecordOperation) => Promise<JsonObject>
  readonly close: () => Promise<void>
}

/** `cut`: the requests of the key that are in progress end; without a gateway there are none. */
type RecordOperation = ControlOperation & { readonly cut?: boolean }

/** The records that the command line manages. */
export type RecordName = 'team' | 'key' | 'budget' | 'price' | 'token'

const API = '/admin/api/v1'

/** Runs an action with the records of a gateway, or of the files. Closes them afterwards. */
export const withRecords = async (cli: Cli, action: (store: RecordStore) => Promise<void>): Promise<void> => {
  const local = await readLocal(cli.host)
  const gateway = await findGateway(cli, local)
  const store = gateway ? throughGateway(gateway, cli.note) : onFiles(cli, local)
  try {
    await action(store)
  } finally {
    await store.close()
  }
}

/** The same, but only with a running gateway. `warn` receives its warnings. */
export const throughGateway = (gateway: GatewayClient, warn: (line: string) => void = () => {}): RecordStore => ({
  gateway,
  run: async (operation) => {
    const { path, ...line } = requestOf(operation)
    const answer = await gateway.call(API + path, line)
    const warning = answer.headers.get('x-headgate-warning')
    if (warning !== null) warn(`warning: ${warning}`)
    return isObject(answer.body) ? answer.body : {}
  },
  close: async () => {},
})

type AdminRequestLine = {
  readonly method: string
  readonly path: string
  readonly body?: unknown
  /** ms. */
  readonly timeout?: number
}

/** Time limit of a verification of the audit log, in ms: it may have millions of rows. */
const VERIFICATION = 600_000

const placeOf = (kind: string, id: string, more = ''): string => `/${kind}s/${encodeURIComponent(id)}${more}`

/** The request that runs an operation. A command changes a record whatever its revision: it was named, not edited. */
const requestOf = (operation: RecordOperation): AdminRequestLine => {
  switch (operation.do) {
    case 'list':
      return { method: 'GET', path: `/${operation.kind}s${queryOf(operation.query)}` }
    case 'get':
      return { method: 'GET', path: placeOf(operation.kind, operation.id) }
    case 'create':
      return { method: 'POST', path: `/${operation.kind}s`, body: operation.body }
    case 'patch':
      return { method: 'PATCH', path: placeOf(operation.kind, operation.id, '?force=true'), body: operation.patch }
    case 'delete': {
      const keys = operation.keys === undefined ? '' : `&keys=${operation.keys}`
      const cut = operation.cut ? '&cut=true' : ''
      return { method: 'DELETE', path: placeOf(operation.kind, operation.id, `?force=true${keys}${cut}`) }
    }
    case 'rotate':
      return { method: 'POST', path: placeOf('key', operation.id, '/rotate'), body: { overlap: operation.overlap } }
    case 'retire':
      return { method: 'POST', path: placeOf('key', operation.id, '/retire') }
    case 'block':
    case 'unblock':
      return { method: 'POST', path: placeOf(operation.kind, operation.id, `/${operation.do}`) }
    case 'audit':
      return { method: 'GET', path: `/audit${queryOf(operation.query)}` }
    case 'verify':
      return { method: 'GET', path: '/audit/verify', timeout: VERIFICATION }
    default:
      throw new Error(`no request for ${operation.do}`)
  }
}

/** Query parameters; lists are repeated. Empty without any. */
export const queryOf = (query: object): string => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat()) if (one !== undefined) parameters.append(name, String(one))
  return parameters.size === 0 ? '' : `?${parameters}`
}

const onFiles = (cli: Cli, local: Local): RecordStore => {
  const { config } = validConfig(local)
  const { auth, audit } = config.settings
  const shared = sharedControl(config.settings)
  cli.note(`No gateway is running: ${shared ? 'the database is used directly' : 'the files are used'}.`)
  const client = new ControlClient(
    {
      folder: local.dataDir,
      database: shared && { ...shared, snapshot: false },
      settings: () => controlSettings({ accounts: config.accounts, auth, auditDays: audit.keepDays }),
      onChange: () => {},
      onComplete: () => {},
      // Operations fail with the problem.
      onState: () => {},
    },
    null,
  )
  return {
    gateway: null,
    run: async ({ cut, ...operation }) => {
      const result = await client.run(operation, {
        actor: { kind: 'cli', id: 'cli', name: userInfo().username },
        from: null,
        requestId: null,
        teams: null,
        idempotencyKey: null,
      })
      if (result.ok) return result.value
      throw errorOf(result.error)
    },
    close: () => client.close(),
  }
}

const errorOf = ({ status, message, errors = [] }: ControlError): CliError => {
  const conflict = status === 404 || status === 409 || status === 412
  const code = conflict ? EXIT.conflict : status === 400 || status === 422 ? EXIT.usage : EXIT.failed
  const details = errors.length > 1 ? errors.map(({ path, message: one }) => `\n  ${path}: ${one}`).join('') : ''
  return new CliError(code, message + details)
}

/** Pages of a list that are read, and their entries. */
const MAX_PAGES = 500
const PAGE = 200

/** All records that match. */
export const listAll = async (
  store: RecordStore,
  kind: RecordName,
  query: object = {},
): Promise<readonly JsonObject[]> => {
  return await pagesOf((page) => store.run({ do: 'list', kind, query: { ...query, ...page } }))
}

/** The entries of all pages of a list, at most `most`. */
export const pagesOf = async (
  read: (page: { readonly limit: number; readonly after?: string }) => Promise<JsonObject>,
  most: number = MAX_PAGES * PAGE,
): Promise<readonly JsonObject[]> => {
  const found: JsonObject[] = []
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, most - found.length)
    const answer = await read({ limit, ...(after !== undefined && { after }) })
    found.push(...list(answer.data).filter(isObject))
    after = text(answer.next)
  } while (after !== undefined && found.length < most)
  return found
}

const ID = /^(?:key|team|bud|prc|adm)_[a-z]+$/

/** Whether a text has the form of an ID. */
export const isRecordId = (text: string): boolean => ID.test(text)

/** A revoked key cannot be used, so that it is no suggestion. */
const unknownRecord = async (store: RecordStore, kind: RecordName, name: string): Promise<CliError> => {
  const others = (await listAll(store, kind)).filter(({ status }) => status !== 'revoked')
  const [near] = nearest(
    name,
    others.map((other) => text(other.name) ?? ''),
  )
  const hint = near === undefined ? `List them: headgate ${kind}s list` : `Did you mean "${near}"?`
  return new CliError(EXIT.conflict, `There is no ${kind} "${name}". ${hint}`)
}

/** The record with this ID or name. Throws `CliError` if there is none, or several. */
export const findRecord = async (
  store: RecordStore,
  kind: RecordName,
  name: string,
  query: object = {},
): Promise<JsonObject> => {
  if (isRecordId(name)) return await store.run({ do: 'get', kind, id: name })
  const found = (await listAll(store, kind, { ...query, q: name })).filter(
    (record) => record.name === name && record.status !== 'revoked',
  )
  const [first, second] = found
  if (!first) throw await unknownRecord(store, kind, name)
  if (second)
    throw new CliError(
      EXIT.conflict,
      `Several ${kind}s are called "${name}"; use the ID: ${found.map(({ id }) => id).join(', ')}.`,
    )
  return first
}

/** The ID of a record that is named in an argument. */
export const idOf = async (store: RecordStore, kind: RecordName, name: string, query: object = {}): Promise<string> =>
  text((await findRecord(store, kind, name, query)).id) ?? ''

/** Names by ID, for tables. */
export const namesOf = async (store: RecordStore, kind: RecordName): Promise<ReadonlyMap<string, string>> =>
  new Map((await listAll(store, kind)).map(({ id, name }) => [text(id) ?? '', text(name) ?? '']))
