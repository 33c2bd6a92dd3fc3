/** Finds the gateway of a command, sends requests to it and reads the answers. */
import type { z } from 'zod'
import type { Env } from '../config/env.ts'
import { parseJson } from '../core/json.ts'
import { urlOf } from '../observe/banner.ts'
import type { Shown } from '../records/entities/shown.ts'
import { readRunFile } from '../runtime/run-file.ts'
import { ERROR } from '../server/answers/fields.ts'
import { HEALTH } from '../server/answers/health.ts'
import { isAlive } from '../storage/files/process-alive.ts'
import { readAnswer } from './answer.ts'
import { type Cli, CliError, EXIT } from './cli.ts'
import { readCredentials } from './credentials.ts'
import { gatewayFetch } from './gateway-fetch.ts'
import { type Local, readLocal } from './local.ts'
import { accessToken } from './signed-in.ts'

/** Time limit of a request, in ms. */
const TIMEOUT = 30_000

export type Call = {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** ms. */
  readonly timeout?: number
  readonly signal?: AbortSignal
}

/** The gateway that a command uses. */
export type GatewayClient = {
  /** Without a slash at the end. */
  readonly url: string
  /** The admin token; undefined: none is known. */
  readonly token: string | undefined
  /** A client key; undefined: none is known. */
  readonly key: string | undefined
  /** Sends a request and returns the response, whatever its status. Throws `CliError` (cannot reach). */
  readonly send: (path: string, call?: Call) => Promise<Response>
  /** Sends a request with the admin token and returns the body, unread. Throws `CliError` for any status from 400. */
  readonly call: (path: string, call?: Call) => Promise<unknown>
  /** The same, with the body read by its schema. Throws `CliError` for an answer that lacks a member. */
  readonly read: <Schema extends z.ZodType>(schema: Schema, path: string, call?: Call) => Promise<Shown<Schema>>
}

type Address = {
  readonly url: string
  readonly isLocal: boolean
  /** Serves the probes over plain HTTP; absent: none. */
  readonly probes?: string
}

const TRIMMED = /(?<!\/)\/+$/

/** The address given by an option or a variable; null: none. Throws `CliError` if it is no HTTP address. */
const givenUrl = ({ options, host: { env } }: Cli): string | null => {
  const given = options.url ?? env.HEADGATE_URL
  if (given === undefined || given === '') return null
  // As in HOST.
  const url = given.startsWith('unix:/') ? `http://${given}` : given
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new CliError(
      EXIT.usage,
      'The address of the gateway must begin with http:// or https://, or with unix:/ and the path of its socket: --url http://127.0.0.1:3000',
    )
  // Users paste the base URL of an SDK.
  return url.replace(TRIMMED, '').replace(/\/v1$/, '')
}

/** The running gateway of this folder; null: none, or only a file of one that has ended. */
export const runningHere = ({ dataDir }: Pick<Local, 'dataDir'>): Address | null => {
  const run = readRunFile(dataDir)
  if (!run || !isAlive(run.pid)) return null
  const { host, healthPort } = run
  return { url: urlOf(run), isLocal: true, ...(healthPort > 0 && { probes: urlOf({ host, port: healthPort }) }) }
}

const unreachable = (local: Local): CliError => {
  const stale = readRunFile(local.dataDir)
  const found = stale ? ` (run.json is left over from process ${stale.pid}, which has ended)` : ''
  return new CliError(
    EXIT.unreachable,
    `No gateway is running with the data folder ${local.dataDir}${found}. Start one with headgate, or pass --url.`,
  )
}

/**
 * Without `run.json` (a folder that cannot be written) the configured port is used if a gateway responds there. Another
 * program must not receive a token.
 */
const atConfiguredPort = async (env: Env, { loaded }: Local): Promise<Address | null> => {
  const { port = 0, host } = loaded.launch ?? {}
  // A socket has port 0.
  if (port === 0) return null
  const { basePath, tls } = loaded.ok ? loaded.config.settings : { basePath: '', tls: { cert: [] } }
  const url = urlOf({ host: host ?? '', port, basePath, secure: tls.cert.length > 0 })
  try {
    const response = await gatewayFetch(env, `${url}/health`, { signal: AbortSignal.timeout(2_000), redirect: 'error' })
    return readAnswer(HEALTH, parseJson(await response.text())).ok ? { url, isLocal: true } : null
  } catch {
    return null
  }
}

/** The gateway at `--url`, or the one of this folder; null: there is none. */
export const findGateway = async (cli: Cli, local?: Local): Promise<GatewayClient | null> => {
  const given = givenUrl(cli)
  const here = local ?? (await readLocal(cli.host))
  const found =
    given === null
      ? (runningHere(here) ?? (await atConfiguredPort(cli.host.env, here)))
      : { url: given, isLocal: false }
  const last = found ? null : (await readCredentials(cli.host.env)).last
  const target = found ?? (last === null ? null : { url: last, isLocal: false })
  return target && openClient(cli, target, here)
}

/** The address at which this user signs in or is signed in. Throws `CliError` if it is not known. */
export const signInUrl = async (cli: Cli): Promise<string> => {
  const known = givenUrl(cli) ?? (await readCredentials(cli.host.env)).last
  if (known !== null) return known
  const found = await findGateway(cli)
  if (found) return found.url
  throw new CliError(EXIT.usage, 'Name the gateway: --url https://ai.corp.example')
}

/** The same, and an error if there is none. */
export const gatewayOf = async (cli: Cli, local?: Local): Promise<GatewayClient> => {
  const here = local ?? (await readLocal(cli.host))
  const gateway = await findGateway(cli, here)
  if (gateway) return gateway
  throw unreachable(here)
}

/** A sign-in that has ended is a note: the command may need none. */
const signedInToken = async ({ host, note }: Cli, url: string): Promise<string | null> => {
  try {
    return await accessToken(host.env, url)
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    note(error.message)
    return null
  }
}

const openClient = async (
  cli: Cli,
  { url, isLocal, probes = url }: Address,
  { loaded }: Local,
): Promise<GatewayClient> => {
  const { options, host } = cli
  const { env } = host
  // Secrets of the folder's files are sent to the folder's own gateway only.
  const auth = isLocal && loaded.ok ? loaded.config.settings.auth : undefined
  const givenToken = [options.token, env.HEADGATE_ADMIN_TOKEN, env.AUTH_ADMIN, auth?.admin].find(Boolean)
  const givenKey = [env.HEADGATE_API_KEY, auth?.keys[0]].find(Boolean)
  // What is given comes first, and needs no request.
  const signedIn = givenToken && givenKey ? null : await signedInToken(cli, url)
  const token = givenToken ?? signedIn ?? undefined
  const key = givenKey ?? signedIn ?? undefined
  const send = async (path: string, { method = 'GET', body, headers, timeout = TIMEOUT, signal }: Call = {}) => {
    const limit = AbortSignal.timeout(timeout)
    try {
      return await gatewayFetch(env, (path.startsWith('/health') ? probes : url) + path, {
        method,
        headers: {
          accept: 'application/json',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: signal ? AbortSignal.any([limit, signal]) : limit,
        redirect: 'error',
      })
    } catch (error) {
      if (signal?.aborted || error instanceof CliError) throw error
      throw new CliError(EXIT.unreachable, `The gateway at ${url} cannot be reached: ${causeOf(error, timeout)}.`)
    }
  }
  const call = async (path: string, given: Call = {}): Promise<unknown> => {
    const bearer = token && { authorization: `Bearer ${token}` }
    const response = await send(path, { ...given, headers: { ...bearer, ...given.headers } })
    const body = await bodyOf(response)
    if (response.status >= 400) throw await refusalOf(errorOf(response, body), send, host.version)
    const warning = response.headers.get('x-headgate-warning')
    if (warning !== null) cli.note(`warning: ${warning}`)
    return body
  }
  const read = async <Schema extends z.ZodType>(schema: Schema, path: string, given: Call = {}) => {
    const answer = readAnswer(schema, await call(path, given))
    if (answer.ok) return answer.value
    const { method = 'GET' } = given
    const carriedOut = method === 'GET' ? '' : ' The request was carried out.'
    const version = await versionOf(send)
    const hint =
      version === null
        ? 'Is this the address of a Headgate?'
        : (otherVersion(version, host.version) ?? `Both have version ${version}: please report this.`)
    throw new CliError(
      EXIT.failed,
      `The answer of the gateway at ${url} cannot be read (${method} ${path.replace(/\?.*$/, '')}: ${answer.problem}).${carriedOut} ${hint}`,
    )
  }
  return { url, token, key, send, call, read }
}

/** The version of the gateway; null: it states none. */
const versionOf = async (send: GatewayClient['send']): Promise<string | null> => {
  const health = readAnswer(HEALTH, await bodyOf(await send('/health')))
  return health.ok ? health.value.version : null
}

/** A hint about two versions; null: they are the same. */
const otherVersion = (version: string | null, own: string): string | null =>
  version === null || version === own ? null : `The gateway has version ${version}, this command ${own}: use the same.`

/** Adds both versions to the refusal of what a gateway of another version may not know: a path, a parameter, a member. */
const refusalOf = async (error: RefusedError, send: GatewayClient['send'], own: string): Promise<RefusedError> => {
  const { status, code, message, isUnknownPath } = error
  if (!isUnknownPath && status !== 400 && status !== 422) return error
  const hint = otherVersion(await versionOf(send).catch(() => null), own)
  return hint === null ? error : new RefusedError({ status, code, message: `${message} ${hint}`, isUnknownPath })
}

const causeOf = (error: unknown, timeout: number): string => {
  if (!(error instanceof Error)) return 'unknown error'
  if (error.name === 'TimeoutError') return `no answer within ${timeout / 1_000} s`
  const { cause } = error
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code
  return cause instanceof Error ? cause.message : error.message
}

/** Parses a JSON body; a text if it is not JSON. */
export const bodyOf = async (response: Response): Promise<unknown> => {
  const text = await response.text()
  try {
    return parseJson(text)
  } catch {
    return text.slice(0, 2_000)
  }
}

const PASS_KEY = 'Pass --key, or set HEADGATE_API_KEY.'
const PASS_TOKEN = 'Pass --token, set HEADGATE_ADMIN_TOKEN, or run headgate login.'
/** The gateway may serve below a path; the admin API is at `/admin/api/v1/`. */
const isModelApi = (url: string): boolean => /(?<!\/admin\/api)\/v1\//.test(url)

type Refusal = Pick<CliError, 'code' | 'message'> & {
  readonly status: number
  /** The gateway does not have the path. */
  readonly isUnknownPath: boolean
}

/** A request that the gateway refused. */
export class RefusedError extends CliError {
  readonly status: number
  readonly isUnknownPath: boolean
  constructor({ code, message, status, isUnknownPath }: Refusal) {
    super(code, message)
    this.status = status
    this.isUnknownPath = isUnknownPath
  }
}

/** A value that the admin API refuses was an argument. A refused model call was not, or not necessarily. */
const exitOf = (status: number, url: string): ConstructorParameters<typeof CliError>[0] =>
  (status === 400 || status === 422) && !isModelApi(url) ? EXIT.usage : (EXITS[status] ?? EXIT.failed)

const EXITS: { readonly [status: number]: ConstructorParameters<typeof CliError>[0] } = {
  401: EXIT.notPermitted,
  403: EXIT.notPermitted,
  404: EXIT.conflict,
  409: EXIT.conflict,
  412: EXIT.conflict,
}

/** The error for a refused request, with the gateway's message. */
export const errorOf = ({ status, url }: Pick<Response, 'status' | 'url'>, body: unknown): RefusedError => {
  const answer = readAnswer(ERROR, body)
  const {
    message,
    code,
    errors = [],
  } = answer.ok ? answer.value.error : { message: `The gateway answered with status ${status}.` }
  // The message contains the only one.
  const details = errors.length > 1 ? errors.map(({ path, message: text }) => `\n  ${path}: ${text}`) : []
  const hint = status === 401 ? ` ${isModelApi(url) ? PASS_KEY : PASS_TOKEN}` : ''
  return new RefusedError({
    status,
    code: exitOf(status, url),
    message: message + details.join('') + hint,
    isUnknownPath: code === 'unknown_url' || status === 405,
  })
}
