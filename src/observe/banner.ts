/** The start-up banner: version, address, providers and a curl command to try. Also the fields of the `ready` log line. */
import type { Config, FullConfig } from '../core/config.ts'
import { egressesOf } from '../core/egress.ts'
import type { Identity, Instance } from '../core/provider.ts'
import { identityOf } from '../gateway/upstream/outbound-request.ts'
import { noPaint, type Paint } from './colour.ts'
import { type Fields, plain } from './line.ts'

/** Where a gateway listens. */
export type ListenAddress = {
  readonly host: string
  readonly port: number
  /** The path below which it serves; absent or empty: the root. */
  readonly basePath?: string
  /** It takes TLS; absent: plain HTTP. */
  readonly secure?: boolean
}

export type Facts = {
  readonly version: string
  /** ms from the start of the process until it was listening. */
  readonly readyMs: number
  /** The address in use. */
  readonly address: ListenAddress
  readonly config: Pick<FullConfig, keyof Config | 'network'>
  readonly production: boolean
  /** Model calls need a client key. */
  readonly keyed: boolean
  /** The configuration file, if there is one. */
  readonly file: string | null
  readonly warnings: readonly string[]
  /** Number of worker processes; absent: one. */
  readonly workers?: number | undefined
}

const MAX_LINES = 20
const ANY = new Set(['0.0.0.0', '::', ''])
const LOOPBACK = /^(?:127\.|::1$|localhost$)/

/** The path of a socket to listen on. */
const SOCKET = /^unix:(\/.*)$/

/** A URL that works from this machine, also for wildcard addresses. Of a socket: as nginx writes it, `http://unix:/path:/`. */
export const urlOf = ({ host, port, basePath = '', secure = false }: ListenAddress): string => {
  if (SOCKET.test(host)) return `${secure ? 'https' : 'http'}://${host}:${basePath}`
  const name = ANY.has(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  return `${secure ? 'https' : 'http'}://${name}:${port}${basePath}`
}

const isDemo = ({ provider }: Instance): boolean => provider.builtin === true

const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? '' : 's'}`

const SIGNED_IN_BY: { readonly [cloud in Identity['cloud']]: string } = {
  aws: 'by AWS credentials',
  google: "by Google's default credentials",
  entra: 'by Microsoft Entra',
}

/** The cloud whose identity signs the calls, if the provider has no key. */
const cloudOf = (instance: Instance): Identity['cloud'] | undefined => {
  const [key] = instance.keys
  return key && identityOf(instance, key)?.cloud
}

const keysText = (instance: Instance): string => {
  const secret = instance.keys.filter((key) => key.secret !== null).length
  const cloud = cloudOf(instance)
  if (cloud) return SIGNED_IN_BY[cloud]
  return isDemo(instance) ? 'built in' : secret === 0 ? 'no key' : counted(secret, 'key')
}

const defaultModel = ({ models, provider }: Instance): string =>
  models[0] ?? provider.defaultModel ?? 'provider default'

const seconds = (ms: number): string => (ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`)

const breakerText = ({ settings: { circuit } }: Config): string => {
  const rules = [
    `opens at ${circuit.errorThreshold} % of ${circuit.minRequests} or more in ${seconds(circuit.window)}`,
    ...(circuit.consecutiveFailures > 0 ? [`or ${circuit.consecutiveFailures} failures in a row`] : []),
  ].join(' ')
  const timeout = circuit.timeout === 0 ? 'timeout off' : `timeout ${seconds(circuit.timeout)}`
  const { firstProbe, resetTimeout } = circuit
  const wait = firstProbe === 0 ? resetTimeout : Math.min(firstProbe, resetTimeout)
  return `${timeout}, ${rules}, probed after ${seconds(wait)}`
}

/** A warning if other machines can make model calls without a key; null if a key is required or only this machine can call. */
export const openWarning = (keyed: boolean, host: string): string | null =>
  keyed || LOOPBACK.test(host)
    ? null
    : `The gateway listens on ${ANY.has(host) ? 'all interfaces' : host} and requires no client key: any machine that reaches it can make model calls. Set AUTH_REQUIRED=true or AUTH_KEYS (auth.keys), or HOST=127.0.0.1. If client keys were created earlier, this is not the data folder that has them.`

/** The warning of a gateway that other machines reach and that would be open if its data folder were lost. */
export const FOLDER_CLOSES =
  'Client keys are required only because the data folder has or had some: without it, the gateway would serve without keys. Set AUTH_REQUIRED=true.'

export const isReachable = (host: string): boolean => !LOOPBACK.test(host)

const authText = ({ config, address, keyed }: Facts): string => {
  const { keys } = config.settings.auth
  if (keys.length > 0) return `${counted(keys.length, 'client key')} (AUTH_KEYS)`
  if (keyed) return 'on, every model call needs a client key'
  return LOOPBACK.test(address.host)
    ? 'off, only this machine can call'
    : 'OFF, and other machines can call: set AUTH_KEYS'
}

/** A command that works when pasted into any common shell. The header is needed: curl's default is a form. */
export const curlLine = (facts: Facts): string => {
  const { config, address, keyed } = facts
  const [first] = config.instances
  const model = first && isDemo(first) ? `${first.id}/${defaultModel(first)}` : 'auto'
  const body = `{"model":"${model}","messages":[{"role":"user","content":"hello"}]}`
  const key = keyed ? " -H 'authorization: Bearer YOUR_CLIENT_KEY'" : ''
  const [, socket] = SOCKET.exec(address.host) ?? []
  const url = socket
    ? `--unix-socket ${socket} ${address.secure ? 'https' : 'http'}://localhost${address.basePath ?? ''}`
    : urlOf(address)
  return `curl ${url}/v1/chat/completions -H 'content-type: application/json'${key} -d '${body}'`
}

const block = (title: string, lines: readonly string[], paint: Paint): readonly string[] =>
  lines.map((line, index) => `  ${paint.dim((index === 0 ? title : '').padEnd(10))} ${line}`)

/** A line for each proxy: its variable, and the providers that it leads to. */
const proxyLines = ({ config }: Facts): readonly string[] => {
  const all = egressesOf(config).flatMap(({ proxies }) => proxies)
  return [...new Set(all.map(({ name }) => name))].map((name) => {
    const variables = new Set(all.filter((proxy) => proxy.name === name).map(({ variable }) => variable))
    const users = config.instances.filter(({ proxy }) => proxy === name).map(({ id }) => id)
    return `${name} (${[...variables].join(', ')}), for ${users.join(', ') || 'no provider'}`
  })
}

const providerLines = (config: Config, room: number, paint: Paint): readonly string[] => {
  if (config.instances.length === 0)
    return [
      paint.bad('none configured: set OPENAI_API_KEY, ANTHROPIC_API_KEY or another'),
      'model calls return 503 until then',
    ]
  const [first] = config.instances
  if (first && isDemo(first))
    return [
      `${first.id}  built in; answers without calling a model`,
      paint.warn('no provider is configured: set OPENAI_API_KEY, ANTHROPIC_API_KEY or another'),
    ]
  const wide = Math.max(...config.instances.map(({ id }) => id.length))
  const keys = Math.max(7, ...config.instances.map((instance) => keysText(instance).length))
  const all = config.instances.map(
    (instance) => `${instance.id.padEnd(wide)}  ${keysText(instance).padEnd(keys)}  ${plain(defaultModel(instance))}`,
  )
  return all.length <= room ? all : [...all.slice(0, room - 1), `and ${all.length - room + 1} more`]
}

/** The banner for a terminal, at most 20 lines. */
export const banner = (facts: Facts, paint: Paint = noPaint): string => {
  const { version, readyMs, address, config, production, file, workers = 1 } = facts
  const url = urlOf(address)
  const { dashboard } = config.settings
  const fixed = [
    ...block('Address', [`${url}/v1${paint.dim('   for OPENAI_BASE_URL')}`], paint),
    ...(dashboard.enabled ? block('Dashboard', [`${url}/dashboard/`], paint) : []),
  ]
  const routes = [...config.routes.keys()]
  const after = [
    ...block('Circuits', [breakerText(config)], paint),
    ...block(
      'Clients',
      [
        `auth ${config.settings.auth.keys.length === 0 && !LOOPBACK.test(address.host) ? paint.bad(authText(facts)) : authText(facts)}`,
      ],
      paint,
    ),
    ...block(
      'Config',
      [
        `${file ?? 'environment only'}${production ? ', production' : ''}${routes.length > 0 ? `, ${counted(routes.length, 'route')}` : ''}`,
      ],
      paint,
    ),
    ...block('Proxy', proxyLines(facts).map(plain), paint),
    ...block('Data', [plain(config.settings.data.dir)], paint),
  ]
  const warnings = facts.warnings.slice(0, 3).map((warning) => `  ${paint.warn('!')} ${plain(warning)}`)
  if (facts.warnings.length > 3) warnings.push(`  ${paint.warn('!')} and ${facts.warnings.length - 3} more, in the log`)
  // The title, the curl line and the empty lines around them.
  const others = 6 + fixed.length + after.length + warnings.length
  const providers = block('Providers', providerLines(config, MAX_LINES - others, paint), paint)
  return [
    '',
    `  ${paint.bold(`headgate ${version}`)}   ${paint.dim(`ready in ${Math.round(readyMs)} ms${workers > 1 ? `, ${workers} workers` : ''}`)}`,
    '',
    ...fixed,
    ...providers,
    ...after,
    ...warnings,
    '',
    `  ${curlLine(facts)}`,
    '',
  ].join('\n')
}

/** The banner's facts as fields of the log line `{"event":"ready"}`. */
export const readyFields = (facts: Facts): Fields => {
  const { version, readyMs, address, config, production, keyed, file, workers = 1 } = facts
  const { circuit, auth, dashboard, data } = config.settings
  return {
    version,
    ready_ms: Math.round(readyMs),
    url: urlOf(address),
    dashboard: dashboard.enabled ? `${urlOf(address)}/dashboard/` : null,
    host: address.host,
    port: address.port,
    ...(workers > 1 && { workers }),
    production,
    providers: config.instances.map(({ id }) => id),
    keys: config.instances.map(({ keys }) => keys.filter(({ secret }) => secret !== null).length),
    ...(config.instances.some(cloudOf) && {
      signed_in_by: config.instances.map((instance) => cloudOf(instance) ?? ''),
    }),
    models: config.instances.map(defaultModel),
    routes: [...config.routes.keys()],
    circuit_timeout: circuit.timeout,
    circuit_error_threshold: circuit.errorThreshold,
    circuit_reset_timeout: circuit.resetTimeout,
    auth: keyed ? 'keys' : 'open',
    admin: auth.admin !== undefined,
    data_dir: data.dir,
    config: file,
    ...(proxyLines(facts).length > 0 && { proxies: [...proxyLines(facts)] }),
    ...(config.instances.length === 0 && {
      message: 'No provider is configured: model calls return 503. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another.',
    }),
  }
}
