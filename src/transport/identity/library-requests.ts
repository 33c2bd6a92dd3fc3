/**
 * The HTTP requests of the clouds' libraries over the gateway's own client: they use its proxies by the same rules, while
 * AWS's library knows no proxy, and Google's would reach metadata servers through one.
 */
import { Readable } from 'node:stream'
import { type Failure, fail } from '../../core/failure.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { type ShortResponse, shortRequest } from '../net/short-request.ts'
import { connectTimeoutFor } from './token-request.ts'

type LibraryCall = Omit<UpstreamCall, 'method' | 'connectTimeout'> & { readonly method: string }

/** Sends a request. Rejects like the libraries' own clients: with a code if there is no response, and after an abort. */
const send = async (dial: Dial, call: LibraryCall, signal: AbortSignal): Promise<ShortResponse> => {
  const { method, url } = call
  if (method !== 'GET' && method !== 'POST') throw unreachable(fail('internal', `${method} is not possible.`))
  const headers = Object.fromEntries(Object.entries(call.headers).filter(([name]) => !OWN_HEADERS.has(name)))
  const request = { ...call, method, headers, connectTimeout: connectTimeoutFor(url) } as const
  const response = await shortRequest(dial, request, signal)
  if (!response.ok) throw response.failure.kind === 'timeout' ? signal.reason : unreachable(response.failure)
  return response.value
}

/** Headers that the client writes itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set(['host', 'content-length', 'connection', 'expect', 'accept-encoding'])

/** The libraries and `codeOf` recognise network errors by their code. */
const unreachable = ({ kind, message }: Failure): Error =>
  Object.assign(new Error(message), { code: `E${kind.toUpperCase()}` })

/** The headers that the libraries read. */
const headersOf = ({ headers }: ShortResponse): Readonly<Record<string, string>> =>
  Object.fromEntries(
    READ_HEADERS.flatMap((name) => {
      const value = headers(name)
      return value === undefined ? [] : [[name, value]]
    }),
  )
const READ_HEADERS = [
  ...['content-type', 'date', 'retry-after', 'metadata-flavor'],
  ...['x-amzn-requestid', 'x-amzn-errortype', 'x-amz-request-id'],
]

/** `fetch` for Google's library. */
export const fetchOver =
  (dial: Dial): typeof fetch =>
  async (input, init = {}) => {
    const { method = 'GET', body } = init
    const headers = new Headers(init.headers)
    if (body instanceof URLSearchParams && !headers.has('content-type'))
      headers.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8')
    const text = body == null ? undefined : await new Response(body).text()
    const call = {
      method,
      url: input instanceof Request ? input.url : String(input),
      headers: Object.fromEntries(headers),
      ...(text !== undefined && { body: text }),
    }
    const answer = await send(dial, call, init.signal ?? new AbortController().signal)
    const { status } = answer
    return new Response(status === 204 || status === 304 ? null : (answer.body ?? Buffer.alloc(0)), {
      status,
      headers: headersOf(answer),
    })
  }

/** A request of AWS's library (`HttpRequest` of its `@smithy/types`). */
type AwsRequest = {
  readonly method: string
  readonly protocol: string
  readonly hostname: string
  readonly port?: number
  readonly path: string
  readonly query?: { readonly [name: string]: string | readonly string[] | null }
  readonly headers: { readonly [name: string]: string }
  readonly body?: unknown
}

type AwsResponse = {
  readonly statusCode: number
  readonly headers: { readonly [name: string]: string }
  readonly body: Readable
}

/** A request handler for the clients of AWS's library. */
export const awsHandlerOver = (dial: Dial) => ({
  metadata: { handlerProtocol: 'http/1.1' },
  async handle(
    request: AwsRequest,
    { abortSignal }: { abortSignal?: unknown } = {},
  ): Promise<{ response: AwsResponse }> {
    const { method, protocol, hostname, port, path, query = {}, headers, body } = request
    const parameters = Object.entries(query).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map(
        (one: string | null) => `${escaped(name)}${one === null ? '' : `=${escaped(one)}`}`,
      ),
    )
    const url = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`
    const call = {
      method,
      url: parameters.length === 0 ? url : `${url}?${parameters.join('&')}`,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
      ...(typeof body === 'string' || body instanceof Uint8Array ? { body: Buffer.from(body) } : {}),
    }
    const signal = abortSignal instanceof AbortSignal ? abortSignal : new AbortController().signal
    const answer = await send(dial, call, signal)
    return {
      response: {
        statusCode: answer.status,
        headers: headersOf(answer),
        body: Readable.from([answer.body ?? Buffer.alloc(0)]),
      },
    }
  },
  destroy() {},
  updateHttpClientConfig() {},
  httpHandlerConfigs: () => ({}),
})

const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
