/** `headgate connect`: writes the gateway's address and a client key into a client's configuration. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { Argument } from 'commander'
import { CLIENTS, type ClientFile, type ClientRow, type Connection } from '../../connect/clients.ts'
import { diffLines } from '../../connect/diff.ts'
import { ConfigTextError, editConfig, envLines } from '../../connect/edit.ts'
import { sharedProtocols } from '../../protocols/index.ts'
import { HEALTH } from '../../server/answers/health.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readConfigFile, restoreConfigFile, writeConfigFile } from '../connect/config-file.ts'
import { bodyOf, errorOf, type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { table } from '../table.ts'

type ConnectOptions = {
  readonly dryRun?: true
  readonly undo?: true
  readonly sso?: true
  readonly gateway?: true
  readonly force?: true
  readonly key?: string
  readonly model: string
  readonly file?: string
  /** False with `--no-request`. */
  readonly request: boolean
}

/** The value of a key where the gateway requires none. Clients refuse an empty one. */
const ANY_KEY = 'any'

const rowOf = (name: string): ClientRow => {
  const row = CLIENTS.find((client) => client.name === name)
  if (row) return row
  throw new CliError(EXIT.usage, `Unknown client ${name}.`)
}

/** The path of a client's file; null: it has none. */
const pathOf = (row: ClientRow, { env, folder }: Cli['host'], given: string | undefined): string | null => {
  if (given !== undefined) {
    if (row.file)
      throw new CliError(EXIT.usage, `--file is for clients without a file of their own; ${row.title} has one.`)
    return resolve(folder, given)
  }
  return row.file && placeOf(row.file, env)
}

const placeOf = ({ folder, variable, names }: ClientFile, env: Cli['host']['env']): string => {
  const other = variable && env[variable.name]
  const place = other ? join(other, variable.below) : join(env.HOME || homedir(), folder)
  const paths = names.map((name) => join(place, name))
  // A client has at least one name.
  return paths.find((path) => existsSync(path)) ?? paths.at(-1) ?? place
}

const needsKey = async (gateway: GatewayClient): Promise<boolean> =>
  (await gateway.read(HEALTH, '/health')).auth === 'keys'

const connectionTo = async (
  cli: Cli,
  options: ConnectOptions,
): Promise<{ readonly gateway: GatewayClient; readonly connection: Connection }> => {
  const gateway = await gatewayOf(cli)
  const key = options.key ?? gateway.key
  if (key === undefined && (await needsKey(gateway)))
    throw new CliError(EXIT.notPermitted, 'The gateway requires a client key: --key, or headgate keys create NAME.')
  return {
    gateway,
    connection: { url: gateway.url, key: key ?? ANY_KEY, model: options.model, now: new Date().toISOString() },
  }
}

const QUESTION = 'Reply with the word ok.'
const MAX_TOKENS = 16
const REQUESTS = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: QUESTION }], max_tokens: MAX_TOKENS },
  },
  responses: { path: '/v1/responses', body: { input: QUESTION, store: false, max_output_tokens: MAX_TOKENS } },
  messages: { path: '/v1/messages', body: { messages: [{ role: 'user', content: QUESTION }], max_tokens: MAX_TOKENS } },
  gemini: {
    path: '/v1beta/models/{model}:generateContent',
    body: {
      contents: [{ role: 'user', parts: [{ text: QUESTION }] }],
      generationConfig: { maxOutputTokens: MAX_TOKENS },
    },
  },
} as const

/** Time limit of the request, in ms. */
const TIMEOUT = 60_000

/** The result of the request: what answered, or why it failed. */
type RequestResult = { readonly by: string } | { readonly error: CliError }

/** Sends one request as the client would. */
const sendRequest = async (
  row: ClientRow,
  gateway: GatewayClient,
  { key, model }: Connection,
): Promise<RequestResult> => {
  const { path: named, body } = REQUESTS[row.style]
  const path = named.replace('{model}', () => encodeURIComponent(model))
  const headers = {
    authorization: `Bearer ${key}`,
    ...Object.values(sharedProtocols).find(({ style }) => style === row.style)?.headers,
  }
  try {
    const response = await gateway.send(path, { method: 'POST', body: { ...body, model }, headers, timeout: TIMEOUT })
    const answer = await bodyOf(response)
    if (!response.ok) return { error: errorOf(response, answer) }
    return { by: `${response.headers.get('x-headgate-provider')}/${response.headers.get('x-headgate-model')}` }
  } catch (error) {
    if (error instanceof CliError) return { error }
    throw error
  }
}

const edited = async (
  text: string,
  row: ClientRow,
  changes: ReturnType<ClientRow['changes']>,
  path: string,
): Promise<string> => {
  try {
    return await editConfig(text, row, changes)
  } catch (error) {
    if (!(error instanceof ConfigTextError)) throw error
    throw new CliError(
      EXIT.failed,
      `${path} cannot be changed: ${error.message}. Correct it, and run the command again.`,
    )
  }
}

const UNDONE = 'was changed since, so only the values of the connection were taken out'

const undo = async (cli: Cli, row: ClientRow, path: string | null, force: boolean): Promise<void> => {
  if (path === null) throw new CliError(EXIT.usage, `${row.title} has no file of its own: name the one with --file.`)
  const result = await restoreConfigFile(path, force)
  cli.answer({ client: row.name, file: path, result }, () => [`${path} ${result === 'undone' ? UNDONE : result}`])
}

/** A signed token begins with this, and no key of the gateway does. */
const SIGNED = 'eyJ'

/** The values for a person: without the token, which the client asks `headgate token` for. */
const signedInChanges = (row: ClientRow, connection: Connection): ReturnType<ClientRow['changes']> => {
  if (!row.signedIn)
    throw new CliError(EXIT.usage, `${row.title} asks no command for its key: connect it without --sso.`)
  if (!connection.key.startsWith(SIGNED))
    throw new CliError(
      EXIT.notPermitted,
      `You are not signed in to ${connection.url}. Run headgate login --url ${connection.url}.`,
    )
  return row.signedIn(connection)
}

/** Prints the file of the system with which a client signs in at the gateway. It needs rights that this program should not have. */
const printManaged = async (cli: Cli, row: ClientRow): Promise<void> => {
  if (!row.managed)
    throw new CliError(EXIT.usage, `${row.title} cannot sign in at a gateway itself: connect it without --gateway.`)
  const { url } = await gatewayOf(cli)
  const { paths, content } = row.managed(url)
  const file = paths[process.platform] ?? paths.linux ?? ''
  cli.answer({ client: row.name, file, content }, () => [
    `Write this to ${file} on each machine:`,
    JSON.stringify(content, null, 2),
  ])
}

const connect = async (cli: Cli, row: ClientRow, path: string | null, options: ConnectOptions): Promise<void> => {
  const { gateway, connection } = await connectionTo(cli, options)
  const changes = options.sso ? signedInChanges(row, connection) : row.changes(connection)
  const secrets = connection.key === ANY_KEY ? [] : [connection.key]
  const before = path === null ? null : readConfigFile(path)
  const text = path === null ? null : await edited(before ?? row.file?.initial ?? '', row, changes, path)
  const diff = text === null ? [] : diffLines(before ?? '', text, secrets)
  const isWritten = path !== null && text !== null && text !== before && options.dryRun !== true
  if (isWritten) await writeConfigFile(path, text, { format: row.format, changes })
  const sent = options.dryRun || !options.request ? null : await sendRequest(row, gateway, connection)
  const answered = sent && 'by' in sent ? sent.by : null
  // To be copied, so with the key. The difference of a file is only to be read.
  const variables = path === null ? envLines(changes) : []
  cli.answer(
    {
      client: row.name,
      file: path,
      written: isWritten,
      diff,
      variables,
      answered_by: answered,
      note: row.note ?? null,
    },
    () => [
      ...(path === null
        ? [`Set these variables where ${row.title} is started, or write them to a file with --file:`]
        : [path]),
      ...(path === null ? variables : diff.length === 0 ? ['no change'] : diff.map((line) => painted(line, cli))),
      ...(options.dryRun ? ['not written (--dry-run)'] : []),
      ...(isWritten ? [`written; headgate connect ${row.name} --undo restores it`] : []),
      ...(answered === null ? [] : [`one request was answered by ${answered}`]),
      ...(row.note ? [row.note] : []),
    ],
  )
  if (sent && 'error' in sent) {
    const place = isWritten ? 'The file is written, but the request failed' : 'The request failed'
    throw new CliError(sent.error.code, `${place}: ${sent.error.message}`)
  }
}

const painted = (line: string, { paint }: Cli): string =>
  line.startsWith('+') ? paint.good(line) : line.startsWith('-') ? paint.bad(line) : line

const listClients = (cli: Cli): void => {
  const data = CLIENTS.map(({ name, title, file }) => ({ name, title, file: file && placeOf(file, cli.host.env) }))
  cli.answer({ object: 'list', data }, () =>
    table(
      ['CLIENT', 'NAME', 'FILE'],
      data.map(({ name, title, file }) => [name, title, file ?? 'variables']),
      cli,
    ),
  )
}

export const define: DefineVerb = (command, cli) => {
  command
    .addArgument(
      new Argument('[client]', 'client to configure; without it they are listed').choices(
        CLIENTS.map(({ name }) => name),
      ),
    )
    .option('-m, --model <name>', 'model or route that the client requests', 'auto')
    .option('--key <key>', 'client key (HEADGATE_API_KEY)')
    .option('--sso', 'without a key: the client asks `headgate token`, after `headgate login` (claude)')
    .option('--gateway', 'print the managed settings with which the client signs in itself; writes nothing (claude)')
    .option('--dry-run', 'print the difference and write nothing')
    .option('--undo', 'restore the file as it was, byte for byte; take the values out of a file that was changed since')
    .option(
      '--force',
      'for --undo: restore the original of a file that was changed since, and keep the changed one beside it',
    )
    .option('--file <path>', 'file of variables, for clients without a file of their own')
    .option('--no-request', 'send no request at the end')
    .addHelpText(
      'after',
      "\nChanges only the client's own configuration file and keeps the original beside it. The request at the end costs a\nfew tokens.\n\nExample: headgate connect claude --dry-run",
    )
    .action(async (name: string | undefined, options: ConnectOptions) => {
      if (name === undefined) return listClients(cli())
      const row = rowOf(name)
      const path = pathOf(row, cli().host, options.file)
      if (options.gateway) await printManaged(cli(), row)
      else if (options.undo) await undo(cli(), row, path, options.force === true)
      else await connect(cli(), row, path, options)
    })
}
