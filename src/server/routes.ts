/** The routes of the gateway, and the access that each requires. */

import type { ClientProtocolName } from '../core/chat.ts'
import { type Failure, fail } from '../core/failure.ts'
import type { BodyKind, BodyOf, IncomingRequest, RequestBody, ResponseWriter } from '../core/http-exchange.ts'
import { nearest } from '../core/nearest.ts'
import { percentDecoded } from '../core/percent-decoded.ts'
import { RELAY_ROWS, type RELAYS, type RelayName } from '../core/relay.ts'

/** `rest`: the part of the path that matched `{id}`, decoded; empty without one. A thrown error becomes a 500 response. */
type Handler<Body extends RequestBody> = (
  received: IncomingRequest<Body>,
  reply: ResponseWriter,
  rest: string,
) => void | Promise<void>

export type RouteRow = {
  readonly path: string
  /** Further paths. */
  readonly also?: readonly string[]
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly body: BodyKind
  /** `client`: clients. `operator`: clients, the operator and local requests. `open`: everyone. */
  readonly access: 'client' | 'operator' | 'open'
  /** A model call: a WebSocket upgrade on its path gets status 426, and `limit.concurrent` counts it. */
  readonly model: boolean
  /** Not a model call, but as much work: `limit.concurrent` counts it. */
  readonly counted?: true
  /** Maximum bytes of its body; absent: `limit.body`. */
  readonly maxBody?: number
  /** The API style of the call, and of every error on its path. */
  readonly protocol?: ClientProtocolName
  /** Answers chat calls of its format, or relays: its handler and its description follow from the format or from the row of the relay. */
  readonly serves?: 'chat' | 'relay'
  /** The path also accepts WebSocket, or does only that: `turns` are answered here, a `relay` passes messages on. */
  readonly webSocket?: 'turns' | 'relay'
  /** A form that may be JSON too. */
  readonly isJsonToo?: true
  /** The body is passed on as it is, so it may be compressed. */
  readonly encoded?: true
}

/** A route for each relayed endpoint. */
type RelayRoutes = {
  readonly [name in RelayName]: Omit<RouteRow, 'serves' | 'protocol'> & {
    readonly body: (typeof RELAYS)[name]['body']
    readonly serves: 'relay'
    readonly protocol: ClientProtocolName
  }
}
const relayRoutes = Object.fromEntries(
  RELAY_ROWS.map(([name, { path, also, body, isJsonToo }]) => [
    name,
    {
      path: `/v1${path}`,
      ...(also && { also }),
      ...(isJsonToo && { isJsonToo }),
      method: 'POST',
      body,
      access: 'client',
      model: true,
      protocol: 'openai-chat',
      serves: 'relay',
    } satisfies RouteRow,
  ]),
  // Every relay has a route.
) as RelayRoutes

/** Google's clients have further paths for these (`google-path.ts`). */
const geminiCall = { method: 'POST', body: 'json', access: 'client', model: true, protocol: 'gemini' } as const
const geminiList = { method: 'GET', body: 'none', access: 'client', model: false, protocol: 'gemini' } as const

/** The table of routes. */
export const ROUTES = {
  chat: {
    path: '/v1/chat/completions',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-chat',
    serves: 'chat',
  },
  responses: {
    path: '/v1/responses',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-responses',
    webSocket: 'turns',
  },
  compact: {
    path: '/v1/responses/compact',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-responses',
  },
  inputTokens: {
    path: '/v1/responses/input_tokens',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-responses',
  },
  response: {
    path: '/v1/responses/{id}',
    method: 'GET',
    body: 'none',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  deleteResponse: {
    path: '/v1/responses/{id}',
    method: 'DELETE',
    body: 'none',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  responseInput: {
    path: '/v1/responses/{id}/input_items',
    method: 'GET',
    body: 'none',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  cancelResponse: {
    path: '/v1/responses/{id}/cancel',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: false,
    // A cancellation needs no body, and has no other limit: it must be possible when a limit is reached.
    maxBody: 4_096,
    protocol: 'openai-responses',
  },
  messages: {
    path: '/v1/messages',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'anthropic-messages',
    serves: 'chat',
  },
  countTokens: {
    path: '/v1/messages/count_tokens',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'anthropic-messages',
  },
  completions: {
    path: '/v1/completions',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-completions',
    serves: 'chat',
  },
  generateContent: { ...geminiCall, path: '/v1beta/models/{id}:generateContent', serves: 'chat' },
  streamGenerateContent: { ...geminiCall, path: '/v1beta/models/{id}:streamGenerateContent', serves: 'chat' },
  countContents: { ...geminiCall, path: '/v1beta/models/{id}:countTokens' },
  embedContent: { ...geminiCall, path: '/v1beta/models/{id}:embedContent' },
  batchEmbedContents: { ...geminiCall, path: '/v1beta/models/{id}:batchEmbedContents' },
  predict: { ...geminiCall, path: '/v1beta/models/{id}:predict' },
  embeddings: {
    path: '/v1/embeddings',
    method: 'POST',
    body: 'json',
    access: 'client',
    model: true,
    protocol: 'openai-chat',
  },
  ...relayRoutes,
  realtime: {
    path: '/v1/realtime',
    method: 'GET',
    body: 'none',
    access: 'client',
    // Without an upgrade it calls no model.
    model: false,
    protocol: 'openai-chat',
    webSocket: 'relay',
  },
  models: { path: '/v1/models', method: 'GET', body: 'none', access: 'client', model: false },
  model: { path: '/v1/models/{id}', method: 'GET', body: 'none', access: 'client', model: false },
  geminiModels: { ...geminiList, path: '/v1beta/models' },
  geminiModel: { ...geminiList, path: '/v1beta/models/{id}' },
  explain: { path: '/v1/route', method: 'POST', body: 'json', access: 'client', model: false, counted: true },
  usage: { path: '/v1/usage', method: 'GET', body: 'none', access: 'client', model: false },
  request: { path: '/v1/requests/{id}', method: 'GET', body: 'none', access: 'client', model: false },
  health: { path: '/health', method: 'GET', body: 'none', access: 'open', model: false },
  live: { path: '/health/live', method: 'GET', body: 'none', access: 'open', model: false },
  ready: { path: '/health/ready', method: 'GET', body: 'none', access: 'open', model: false },
  providersStatus: { path: '/providers/status', method: 'GET', body: 'none', access: 'operator', model: false },
  metrics: { path: '/metrics', method: 'GET', body: 'none', access: 'operator', model: false },
  openapi: { path: '/openapi.json', method: 'GET', body: 'none', access: 'open', model: false },
} as const satisfies { readonly [name: string]: RouteRow }

/** Bytes of the telemetry that a client sends at once. */
const MAX_TELEMETRY = 4_194_304
const claudePage = { body: 'none', model: false, protocol: 'anthropic-messages' } as const
const telemetry = {
  method: 'POST',
  body: 'bytes',
  access: 'client',
  model: false,
  protocol: 'anthropic-messages',
  maxBody: MAX_TELEMETRY,
  encoded: true,
} as const

/** The routes of the Claude Code gateway protocol, which exist only where `claude` is enabled, at these paths alone. */
export const CLAUDE_ROUTES = {
  managedSettings: { ...claudePage, path: '/managed/settings', method: 'GET', access: 'client' },
  claudeProtocol: { ...claudePage, path: '/protocol', method: 'GET', access: 'open' },
  claudeUsage: { ...claudePage, path: '/api/oauth/usage', method: 'GET', access: 'client' },
  claudeMetrics: { ...telemetry, path: '/v1/metrics' },
  claudeLogs: { ...telemetry, path: '/v1/logs' },
  claudeTraces: { ...telemetry, path: '/v1/traces' },
} as const satisfies { readonly [name: string]: RouteRow }

type ClaudeRouteName = keyof typeof CLAUDE_ROUTES
export type ClaudeHandlers = {
  readonly [name in ClaudeRouteName]: Handler<BodyOf<(typeof CLAUDE_ROUTES)[name]['body']>>
}

const passed = { path: '/{instance}/…', method: 'POST', access: 'client', model: true } as const

/**
 * Calls of a provider's own API, which exist only where an instance has `passThrough`. JSON is read, everything else is passed on as it
 * arrives. Which methods exist is a setting of the instance.
 */
export const PASS_ROUTES = {
  json: { ...passed, name: 'pass', body: 'bytes' },
  stream: { ...passed, name: 'pass', body: 'stream' },
} as const satisfies { readonly [name: string]: ApiRoute }

/** The name of a route. */
export type RouteName = keyof typeof ROUTES
/** The routes that answer chat calls of their format. */
export type ChatRouteName = {
  [name in RouteName]: (typeof ROUTES)[name] extends { readonly serves: 'chat' } ? name : never
}[RouteName]

/** The same with their formats. */
export const CHAT_ROUTES: readonly (readonly [name: ChatRouteName, protocol: ClientProtocolName])[] =
  Object.entries<RouteRow>(ROUTES).flatMap(([name, { serves, protocol }]) =>
    // `Object.entries` types the names as strings.
    serves === 'chat' && protocol ? [[name as ChatRouteName, protocol]] : [],
  )

/** A handler for each route. */
export type Handlers = ClaudeHandlers & {
  readonly pass: Handler<RequestBody>
} & {
  readonly [name in RouteName]: Handler<BodyOf<(typeof ROUTES)[name]['body']>>
}

/** The handler of a route, for its body. */
export const handlerOf = (handlers: Handlers, name: keyof Handlers): Handler<RequestBody> =>
  // The body is read as the kind that the route has.
  handlers[name] as Handler<RequestBody>

/** A route with its name. */
export type ApiRoute = RouteRow & { readonly name: keyof Handlers }
/** The routes of a path, one for each method. */
export type RouteMatch = { readonly routes: readonly ApiRoute[]; readonly rest: string }

/** The paths of a route. Clients use base URLs with and without `/v1`: every `/v1/x` is also served at `/x`. */
export const pathsOf = (path: string): readonly string[] => (path.startsWith('/v1/') ? [path, path.slice(3)] : [path])

const PARAMETER = '{id}'

const exact = new Map<string, ApiRoute[]>()
const patterns: { readonly prefix: string; readonly suffix: string; readonly routes: ApiRoute[] }[] = []
// `Object.entries` types the names as strings.
for (const [name, row] of Object.entries(ROUTES) as [RouteName, RouteRow][])
  for (const path of [...pathsOf(row.path), ...(row.also ?? [])]) {
    const route = { ...row, name }
    const [prefix = '', suffix] = path.split(PARAMETER)
    if (suffix === undefined) exact.set(path, [...(exact.get(path) ?? []), route])
    else {
      const same = patterns.find((pattern) => pattern.prefix === prefix && pattern.suffix === suffix)
      if (same) same.routes.push(route)
      else patterns.push({ prefix, suffix, routes: [route] })
    }
  }
// The longest suffix is the most specific.
patterns.sort((a, b) => b.suffix.length - a.suffix.length)

/**
 * Finds the routes of a path as it was sent, the same text that earlier checks have read. One slash at the end is
 * ignored. `shown` returns the path as an error may name it.
 */
export const findRoute = (path: string, shown: (path: string) => string = (plain) => plain): RouteMatch | Failure => {
  const plain = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
  const routes = exact.get(plain)
  if (routes) return { routes, rest: '' }
  for (const { prefix, suffix, routes } of patterns)
    if (isBetween(plain, prefix, suffix)) {
      const rest = percentDecoded(plain.slice(prefix.length, plain.length - suffix.length))
      return rest === undefined
        ? fail('invalid_request', 'The path has a % that is not followed by two hexadecimal digits of UTF-8.')
        : { routes, rest }
    }
  return unknown(plain, shown(plain))
}

const claudeRoutes = new Map<string, readonly ApiRoute[]>(
  // `Object.entries` types the names as strings.
  (Object.entries(CLAUDE_ROUTES) as [ClaudeRouteName, RouteRow][]).map(([name, row]) => [row.path, [{ ...row, name }]]),
)

/** The same for the routes of the Claude Code gateway protocol; null: it has no such path. */
export const findClaudeRoute = (path: string): RouteMatch | null => {
  const routes = claudeRoutes.get(path)
  return routes ? { routes, rest: '' } : null
}

const protocolPaths = [...exact, ...claudeRoutes].flatMap(([path, routes]) =>
  routes.flatMap(({ protocol }) => (protocol ? [{ path, below: `${path}/`, protocol }] : [])),
)

/**
 * The API style of errors on this path, known before the request is parsed. Unknown paths below a call's path
 * (`/v1/messages/batches`) use its style, all others OpenAI's.
 */
export const protocolAt = (path: string): ClientProtocolName =>
  (
    protocolPaths.find((row) => path === row.path || path.startsWith(row.below)) ??
    routesMatching(path)?.find(({ protocol }) => protocol !== undefined) ??
    insteadAt(path)
  )?.protocol ?? 'openai-chat'

const routesMatching = (path: string): readonly ApiRoute[] | undefined =>
  patterns.find(({ prefix, suffix }) => isBetween(path, prefix, suffix))?.routes

const isBetween = (path: string, prefix: string, suffix: string): boolean =>
  path.startsWith(prefix) && path.endsWith(suffix) && path.length > prefix.length + suffix.length

/** Whether a model call is served at this path. */
export const isModelPath = (path: string): boolean =>
  (exact.get(path) ?? routesMatching(path))?.some(({ model }) => model) === true

/** A path of the clients' APIs that is not served although a client style is, with all below it. */
type NotServed = { readonly path: string; readonly remedy: string; readonly protocol: ClientProtocolName }

const GEMINI_REMEDY =
  'generateContent, streamGenerateContent, countTokens, embedContent, batchEmbedContents, predict for texts, and models are. Interactions, files, caches, batches and operations pass at /gemini/v1beta/… where the operator allows it (passThrough).'

const INSTEAD: readonly NotServed[] = [
  {
    path: '/v1/realtime',
    remedy:
      'Sessions over WebRTC and SIP, and the secrets of clients for them, pass by the gateway, which could count nothing of them. Connect by WebSocket to /v1/realtime?model=NAME with a key of the gateway.',
    protocol: 'openai-chat',
  },
  {
    path: '/v1/conversations',
    remedy: 'Continue a conversation with `previous_response_id` at POST /v1/responses, or send its messages again.',
    protocol: 'openai-responses',
  },
  {
    path: '/model',
    remedy:
      'Of Bedrock, Claude is served at /model/NAME/invoke, /model/NAME/invoke-with-response-stream and /model/NAME/count-tokens.',
    protocol: 'openai-chat',
  },
  ...['/v1beta', '/v1alpha', '/v1beta1', '/upload'].map(
    (path): NotServed => ({ path, remedy: GEMINI_REMEDY, protocol: 'gemini' }),
  ),
]

const insteadAt = (path: string): NotServed | undefined =>
  INSTEAD.find(({ path: served }) => path === served || path.startsWith(`${served}/`))

/** Characters of an unknown path in an error. */
const MAX_SHOWN = 200

const unknown = (path: string, masked: string): Failure => {
  const shown = masked.length > MAX_SHOWN ? `${masked.slice(0, MAX_SHOWN)}…` : masked
  const remedy = insteadAt(path)?.remedy
  if (remedy !== undefined) return fail('unknown_url', `${shown} is not served here. ${remedy}`)
  const [near] = nearest(path, exact.keys())
  const [route] = near === undefined ? [] : (exact.get(near) ?? [])
  return fail(
    'unknown_url',
    route
      ? `${shown} does not exist. Did you mean ${route.method} ${near}?`
      : `${shown} does not exist. /openapi.json lists the paths; clients need a base URL that ends in /v1.`,
  )
}

/** Whether `limit.concurrent` and load shedding apply to calls of a route. */
export const isCounted = ({ model, counted }: RouteRow): boolean => model || counted === true

/** The `Allow` header of a path. */
export const allowed = (routes: readonly ApiRoute[]): string =>
  [...routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')

/** Whether a route serves this method; GET routes serve HEAD. */
export const takes = (route: ApiRoute, method: string): boolean =>
  method === route.method || (method === 'HEAD' && route.method === 'GET')
