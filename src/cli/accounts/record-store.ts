/**
 * Teams, keys and budgets for the verbs: through the admin API of a running gateway, or on the database where none runs. Both
 * have the same operations and the same shapes.
 */
import { userInfo } from 'node:os'
import { z } from 'zod'
import { nearest } from '../../core/nearest.ts'
import { KEY } from '../../records/entities/key.ts'
import { PRICE } from '../../records/entities/price.ts'
import { ROUTE } from '../../records/entities/route.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { TEAM } from '../../records/entities/team.ts'
import { TOKEN } from '../../records/entities/token.ts'
import { ControlClient } from '../../records/store/control-client.ts'
import { controlSettings } from '../../records/store/control-settings.ts'
import { sharedControl } from '../../records/store/place.ts'
import type { ControlError, ControlOperation } from '../../records/store/record-operations.ts'
import { LISTED_BUDGET } from '../../server/answers/budgets.ts'
import { listOf } from '../../server/answers/fields.ts'
import { readAnswer } from '../answer.ts'
import { type Cli, CliError, EXIT } from '../cli.ts'
import { findGateway, type GatewayClient } from '../gateway-client.ts'
import { type Local, readLocal, validConfig } from '../local.ts'

export type RecordStore = {
  /** Whether the operations go to a running gateway. */
  readonly gateway: GatewayClient | null
  /** Runs an operation and reads its answer by the schema. */
  readonly run: <Schema extends z.ZodType>(schema: Schema, operation: RecordOperation) => Promise<Shown<Schema>>
  readonly close: () => Promise<void>
}

/** `cut`: the requests of the key that are in progress end; without a gateway there are none. */
type RecordOperation = ControlOperation & { readonly cut?: boolean }

const JSON_MEMBER = z.json()
const LISTED_TARGET = z
  .object({ provider: z.string(), model: z.string().optional(), when: JSON_MEMBER.optional() })
  .catchall(JSON_MEMBER)
/** Its contents stay as the gateway has them: one of another version may have members that are not known here. */
const LISTED_ROUTE = ROUTE.extend({
  spec: z.object({ targets: z.array(z.union([z.string(), LISTED_TARGET])) }).catchall(JSON_MEMBER),
})

/** The records that the command line manages. Only a running gateway knows the figures of a budget. */
export const RECORDS = {
  team: TEAM,
  key: KEY,
  budget: LISTED_BUDGET.partial({ now: true }),
  price: PRICE,
  token: TOKEN,
  route: LISTED_ROUTE,
}
export type RecordName = keyof typeof RECORDS
export type Stored<Name extends RecordName> = Shown<(typeof RECORDS)[Name]>

const API = '/admin/api/v1'

/** Runs an action with the records of a gateway, or of the files. Closes them afterwards. */
export const withRecords = async (cli: Cli, action: (store: RecordStore) => Promise<void>): Promise<void> => {
  const local = await readLocal(cli.host)
  const gateway = await findGateway(cli, local)
  const store = gateway ? throughGateway(gateway) : onFiles(cli, local)
  try {
    await action(store)
  } finally {
    await store.close()
  }
}

/** The same, but only with a running gateway. */
export const throughGateway = (gateway: GatewayClient): RecordStore => ({
  gateway,
  run: (schema, operation) => {
    const { path, ...line } = requestOf(operation)
    return gateway.read(schema, API + path, line)
  },
  close: async () => {},
})

type AdminRequestLine = {
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** ms. */
  readonly timeout?: number
}

/** Time limit of a verification of the audit log, in ms: it may have millions of rows. */
const VERIFICATION = 600_000

const placeOf = (kind: string, id: string, more = ''): string => `/${kind}s/${encodeURIComponent(id)}${more}`

/** The request that runs an operation. Without `rev` a record is changed whatever its revision: it was named, not edited. */
const requestOf = (operation: RecordOperation): AdminRequestLine => {
  switch (operation.do) {
    case 'list':
      return { method: 'GET', path: `/${operation.kind}s${queryOf(operation.query)}` }
    case 'get':
      return { method: 'GET', path: placeOf(operation.kind, operation.id) }
    case 'create':
      return { method: 'POST', path: `/${operation.kind}s`, body: operation.body }
    case 'patch': {
      const { kind, id, patch, rev } = operation
      const line = { method: 'PATCH', path: placeOf(kind, id, rev === null ? '?force=true' : ''), body: patch }
      return rev === null ? line : { ...line, headers: { 'if-match': `"${rev}"` } }
    }
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
    run: async (schema, { cut, ...operation }) => {
      const result = await client.run(operation, {
        actor: { kind: 'cli', id: 'cli', name: userInfo().username },
        from: null,
        requestId: null,
        teams: null,
        idempotencyKey: null,
      })
      if (!result.ok) throw errorOf(result.error)
      const answer = readAnswer(schema, result.value)
      if (answer.ok) return answer.value
      throw new CliError(EXIT.failed, `A record in ${local.dataDir} cannot be read: ${answer.problem}.`)
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

/** The records of a list that match. */
export const listAll = async <Name extends RecordName>(
  store: RecordStore,
  kind: Name,
  query: object = {},
): Promise<readonly Stored<Name>[]> => {
  const schema = listOf(RECORDS[kind])
  const found = await pagesOf((page) => store.run(schema, { do: 'list', kind, query: { ...query, ...page } }))
  // The schema is that of the kind.
  return found as readonly Stored<Name>[]
}

type RecordPage<Entry> = { readonly data: readonly Entry[]; readonly next: string | null }

/** The entries of all pages of a list, at most `most`. */
export const pagesOf = async <Entry>(
  read: (page: { readonly limit: number; readonly after?: string }) => Promise<RecordPage<Entry>>,
  most: number = MAX_PAGES * PAGE,
): Promise<readonly Entry[]> => {
  const found: Entry[] = []
  let after: string | null = null
  do {
    const limit = Math.min(PAGE, most - found.length)
    const page: RecordPage<Entry> = await read({ limit, ...(after !== null && { after }) })
    found.push(...page.data)
    after = page.next
  } while (after !== null && found.length < most)
  return found
}

const ID = /^(?:key|team|bud|prc|adm|rte)_[a-z]+$/

/** Whether a text has the form of an ID. */
export const isRecordId = (text: string): boolean => ID.test(text)

/** A revoked key cannot be used, so that it is no suggestion. */
const unknownRecord = async (store: RecordStore, kind: RecordName, name: string): Promise<CliError> => {
  const others = (await listAll(store, kind)).filter(({ status }) => status !== 'revoked')
  const [near] = nearest(
    name,
    others.map((other) => other.name),
  )
  const hint = near === undefined ? `List them: headgate ${kind}s list` : `Did you mean "${near}"?`
  return new CliError(EXIT.conflict, `There is no ${kind} "${name}". ${hint}`)
}

/** The record with this ID or name. Throws `CliError` if there is none, or several. */
export const findRecord = async <Name extends RecordName>(
  store: RecordStore,
  kind: Name,
  name: string,
): Promise<Stored<Name>> => {
  // The schema is that of the kind.
  if (isRecordId(name)) return (await store.run(RECORDS[kind], { do: 'get', kind, id: name })) as Stored<Name>
  const found = (await listAll(store, kind, { q: name })).filter(
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
export const idOf = async (store: RecordStore, kind: RecordName, name: string): Promise<string> =>
  (await findRecord(store, kind, name)).id

/** Names by ID, for tables. */
export const namesOf = async (store: RecordStore, kind: RecordName): Promise<ReadonlyMap<string, string>> =>
  new Map((await listAll(store, kind)).map(({ id, name }) => [id, name]))
