/** WebSockets that are relayed to a provider: their handshake, and those that are open. */
import type { Socket } from 'node:net'
import { bad, fail, good, type Outcome } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { IncomingRequest, SocketWriter } from '../core/http-exchange.ts'
import { acceptOf, isKey } from '../transport/net/web-socket-key.ts'
import type { ResponseHeaders } from '../transport/server/http-server.ts'
import { SocketReply } from './socket-reply.ts'

/** Serves one connection; resolves when it is over. */
export type RelaySocket = (received: IncomingRequest, socket: SocketWriter) => Promise<void>

/** An admitted upgrade. */
export type RelayedUpgrade = {
  readonly socket: Socket
  /** Bytes received after the request. */
  readonly first: Buffer
  readonly visitor: IncomingRequest
  /** Headers of any response. */
  readonly common: ResponseHeaders
  /** Headers of 101. */
  readonly accepting: ResponseHeaders
  readonly linger: number
  readonly onClosed: () => void
}

/** The subprotocol of OpenAI's Realtime API; the others that its clients offer are a key, and names of who pays. */
const SUBPROTOCOL = 'realtime'
const KEY_PROTOCOL = 'openai-insecure-api-key.'
const BETA_PROTOCOL = 'openai-beta.realtime-v1'

const offered = (headers: HeaderLookup): readonly string[] =>
  headers('sec-websocket-protocol')
    ?.split(',')
    .map((name) => name.trim()) ?? []

/** With the headers that web pages cannot set, and offer as subprotocols instead (openai-node 7.55.0, `realtime/websocket.ts`). */
export const withOffered = (headers: HeaderLookup): HeaderLookup => {
  const names = offered(headers)
  const key = names.find((name) => name.startsWith(KEY_PROTOCOL))?.slice(KEY_PROTOCOL.length)
  const beta = names.includes(BETA_PROTOCOL) ? 'realtime=v1' : undefined
  return (name) => {
    if (name === 'authorization') return headers(name) ?? (key && `Bearer ${key}`)
    if (name === 'openai-beta') return headers(name) ?? beta
    // It contains the key.
    return name === 'sec-websocket-protocol' ? undefined : headers(name)
  }
}

/** The headers that accept a handshake (RFC 6455, section 4.2.2). */
export const acceptHandshake = (headers: HeaderLookup): Outcome<ResponseHeaders> => {
  const key = headers('sec-websocket-key')
  if (headers('sec-websocket-version') !== '13' || !isKey(key)) return bad(INVALID)
  const subprotocol = offered(headers).includes(SUBPROTOCOL) && { 'sec-websocket-protocol': SUBPROTOCOL }
  return good({ upgrade: 'websocket', connection: 'Upgrade', 'sec-websocket-accept': acceptOf(key), ...subprotocol })
}

const INVALID = fail(
  'invalid_request',
  'The WebSocket handshake is not valid: sec-websocket-version must be 13, and sec-websocket-key 16 bytes in base64.',
)

/** The open connections of a server. */
export class RelayedSockets {
  readonly #relay: RelaySocket
  readonly #onError: (error: unknown, requestId: string) => void
  readonly #open = new Set<SocketReply>()
  #isDraining = false

  constructor(relay: RelaySocket, onError: (error: unknown, requestId: string) => void) {
    this.#relay = relay
    this.#onError = onError
  }

  get size(): number {
    return this.#open.size
  }

  accept({ visitor, onClosed, ...upgraded }: RelayedUpgrade): void {
    const closed = () => {
      this.#open.delete(reply)
      onClosed()
    }
    const reply = new SocketReply({ ...upgraded, onClosed: closed })
    this.#open.add(reply)
    if (this.#isDraining) reply.drain()
    this.#relay(visitor, reply).catch((error) => {
      this.#onError(error, visitor.id)
      reply.abort()
    })
  }

  /** Ends each connection, after the response in progress. */
  drain(): void {
    this.#isDraining = true
    for (const reply of [...this.#open]) reply.drain()
  }
}
