/** The paths the gateway answers, and who may ask each. */

import type { ClientProtocolName } from '../../../core/chat.ts'
import { type Failure, fail } from '../../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../../core/http-exchange.ts'
import { nearest } from '../../../core/nearest.ts'

/** `rest` is what the path's `{…}` stood for, decoded; empty where there is none. Errors are caught and told as ours. */
type Handler = (received: IncomingRequest, reply: ResponseWriter, rest: string) => void | Promise<void>

/**
 * `client`: whoever may call models. `operator`: those, the operator, and anybody on this machine. `open`: everybody.
 * `model`: one of the calls that are counted, and that clients may first try over a WebSocket. `protocol`: the format of
 * a call, and so of every error on its path, whoever writes it.
 */
type Row = {
  readonly path: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly access: 'client' | 'operator' | 'open'
  readonly model: boolean
  readonly protocol?: ClientProtocolName
  /** Turns may be taken over a WebSocket too. */
  readonly webSocket?: true
}

export const ROUTES = {
  chat: { path: '/v1/chat/completions', method: 'POST', access: 'client', model: true, protocol: 'openai-chat' },
  responses: {
    path: '/v1/responses',
    method: 'POST',
    access: 'client',
    model: true,
    protocol: 'openai-responses',
    webSocket: true,
  },
  compact: {
    path: '/v1/responses/compact',
    method: 'POST',
    access: 'client',
    model: true,
    protocol: 'openai-responses',
  },
  response: { path: '/v1/responses/{id}', method: 'GET', access: 'client', model: false, protocol: 'openai-responses' },
  deleteResponse: {
    path: '/v1/responses/{id}',
    method: 'DELETE',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  responseInput: {
    path: '/v1/responses/{id}/input_items',
    method: 'GET',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  cancelResponse: {
    path: '/v1/responses/{id}/cancel',
    method: 'POST',
    access: 'client',
    model: false,
    protocol: 'openai-responses',
  },
  messages: { path: '/v1/messages', method: 'POST', access: 'client', model: true, protocol: 'anthropic-messages' },
  countTokens: {
    path: '/v1/messages/count_tokens',
    method: 'POST',
    access: 'client',
    model: true,
    protocol: 'anthropic-messages',
  },
  completions: {
    path: '/v1/completions',
    method: 'POST',
    access: 'client',
    model: true,
    protocol: 'openai-completions',
  },
  embeddings: { path: '/v1/embeddings', method: 'POST', access: 'client', model: true, protocol: 'openai-chat' },
  models: { path: '/v1/models', method: 'GET', access: 'client', model: false },
  model: { path: '/v1/models/{id}', method: 'GET', access: 'client', model: false },
  explain: { path: '/v1/route', method: 'POST', access: 'client', model: false },
  health: { path: '/health', method: 'GET', access: 'open', model: false },
  live: { path: '/health/live', method: 'GET', access: 'open', model: false },
  ready: { path: '/health/ready', method: 'GET', access: 'open', model: false },
  providersStatus: { path: '/providers/status', method: 'GET', access: 'operator', model: false },
  metrics: { path: '/metrics', method: 'GET', access: 'operator', model: false },
  openapi: { path: '/openapi.json', method: 'GET', access: 'open', model: false },
} as const satisfies { readonly [name: string]: Row }

export type RouteName = keyof typeof ROUTES
export type Handlers = { readonly [name in RouteName]: Handler }
export type Route = Row & { readonly name: RouteName }
/** What answers at a path, one for each method. */
export type Found = { readonly routes: readonly Route[]; readonly rest: string }

/** Clients differ in what they call the base URL: every `/v1/x` also answers at `/x`. */
export const pathsOf = (path: string): readonly string[] => (path.startsWith('/v1/') ? [path, path.slice(3)] : [path])

const PARAMETER = '{id}'

const exact = new Map<string, Route[]>()
const patterns: { readonly prefix: string; readonly suffix: string; readonly routes: Route[] }[] = []
// The names of an object literal's own members, which the type of Object.entries does not keep.
for (const [name, row] of Object.entries(ROUTES) as [RouteName, Row][])
  for (const path of pathsOf(row.path)) {
    const route = { ...row, name }
    const [prefix = '', suffix] = path.split(PARAMETER)
    if (suffix === undefined) exact.set(path, [...(exact.get(path) ?? []), route])
    else {
      const same = patterns.find((one) => one.prefix === prefix && one.suffix === suffix)
      if (same) same.routes.push(route)
      else patterns.push({ prefix, suffix, routes: [route] })
    }
  }
// What says more of the path is looked at first.
patterns.sort((a, b) => b.suffix.length - a.suffix.length)

/**
 * Looked up by the path as it was sent, the same text every check before has seen. One slash at its end does not matter.
 * `shown` makes the form in which an error names an unknown path.
 */
export const findRoute = (path: string, shown: (path: string) => string = (as) => as): Found | Failure => {
  const plain = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
  const routes = exact.get(plain)
  if (routes) return { routes, rest: '' }
  for (const { prefix, suffix, routes } of patterns)
    if (plain.startsWith(prefix) && plain.endsWith(suffix) && plain.length > prefix.length + suffix.length) {
      const rest = decoded(plain.slice(prefix.length, plain.length - suffix.length))
      return rest === undefined
        ? fail('invalid_request', 'The path has a % that is not followed by two hexadecimal digits of UTF-8.')
        : { routes, rest }
    }
  return unknown(plain, shown(plain))
}

const spoken = [...exact].flatMap(([path, routes]) =>
  routes.flatMap(({ protocol }) => (protocol ? [{ path, below: `${path}/`, protocol }] : [])),
)

/**
 * The format of errors on this path, known before anything else about the request is: that of the call there, also below
 * it, where there is nothing (`/v1/messages/batches`). OpenAI's everywhere else.
 */
export const protocolAt = (path: string): ClientProtocolName =>
  spoken.find((one) => path === one.path || path.startsWith(one.below))?.protocol ?? 'openai-chat'

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    // Malformed escapes; the caller says so.
    return undefined
  }
}

export const isModelPath = (path: string): boolean => exact.get(path)?.some(({ model }) => model) === true

/** Longest piece of a path that is repeated in an error. */
const LONGEST_SHOWN = 200

const unknown = (path: string, masked: string): Failure => {
  const shown = masked.length > LONGEST_SHOWN ? `${masked.slice(0, LONGEST_SHOWN)}…` : masked
  const [near] = nearest(path, exact.keys())
  const [route] = near === undefined ? [] : (exact.get(near) ?? [])
  return fail(
    'unknown_url',
    route
      ? `${shown} does not exist. Did you mean ${route.method} ${near}?`
      : `${shown} does not exist. What does is listed at /openapi.json; clients want a base URL that ends in /v1.`,
  )
}

/** The `Allow` of a path. */
export const allowed = (routes: readonly Route[]): string =>
  [...routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')

/** HEAD works where GET does. */
export const takes = (route: Route, method: string): boolean =>
  method === route.method || (method === 'HEAD' && route.method === 'GET')
