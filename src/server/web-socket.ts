/**
 * The WebSocket mode of the Responses API, as OpenAI and Open Responses (2026-04-24, "WebSocket Transport") define it.
 * A text message `response.create` starts a turn; each event of its stream is one text message. Turns of a connection
 * run one after the other. Responses that are not stored are kept in memory while their connection is open.
 *
 * A turn reaches the gateway as an `IncomingRequest` and a `ResponseWriter`, like an HTTP request. Errors carry the
 * response headers (`x-headgate-…`) in their member `headers`, as OpenAI's do; for other turns see the log, under an ID
 * that begins with the `x-request-id` of the upgrade.
 */
import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { WebSocketServer } from 'ws'
import { type Failure, fail } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import type { MemoryStore, StoredResponse } from '../core/stored-response.ts'
import { memoryResponseStore } from '../gateway/responses/memory-response-store.ts'
import type { IncomingHead } from '../transport/server/http-server.ts'
import { WebSocketConnection, type WebSocketOptions } from './web-socket-connection.ts'

/** Loaded with the first connection: most gateways have none. `require` returns an untyped value, hence the cast. */
const loadLibrary = (): typeof import('ws') => createRequire(import.meta.url)('ws') as typeof import('ws')

/** Characters that all connections together keep; beyond, the least recently used responses are evicted. */
const MAX_MEMORY = 128 * 1024 * 1024

/** An admitted upgrade. */
export type AdmittedUpgrade = {
  readonly head: IncomingHead
  readonly socket: Socket
  /** Bytes received after the request. */
  readonly first: Buffer
  /** Of the client. */
  readonly address: string
  /** What all turns of the connection have in common. */
  readonly visitor: IncomingRequest
  /** Rejects a handshake that is not valid. */
  readonly refuse: (failure: Failure) => void
  /** Headers of the 101 response. */
  readonly headers: Readonly<Record<string, string>>
}

/** The WebSocket connections of a server. */
export type WebSockets = {
  accept(upgrade: AdmittedUpgrade): void
  /** Open connections; while draining, those with a turn in progress. */
  open(): number
  /** Connections with a turn in progress. */
  busy(): number
  /** Closes idle connections at once and the others after their turn. */
  drain(): void
}

/** Creates the WebSocket side of a server, without connections. */
export const webSockets = (options: WebSocketOptions): WebSockets => {
  const memory = memoryResponseStore(MAX_MEMORY)
  const connections = new Set<WebSocketConnection>()
  const upgrades = new WeakMap<IncomingMessage, AdmittedUpgrade>()
  let opened = 0
  let draining = false
  let current: { readonly maxPayload: number; readonly server: WebSocketServer } | null = null

  /** A new one when the setting changes: a server's `maxPayload` is fixed. */
  const serverFor = (maxPayload: number): WebSocketServer => {
    if (current?.maxPayload === maxPayload) return current.server
    // A variable: the types of `ws` do not have `closeTimeout`, and a literal is checked for unknown members.
    const limits = {
      noServer: true,
      clientTracking: false,
      // A few hundred bytes can inflate to a hundred million.
      perMessageDeflate: false,
      maxPayload,
      closeTimeout: options.timing.close,
    }
    const server = new (loadLibrary().WebSocketServer)(limits)
    server.on('headers', (lines, req) => {
      for (const [name, value] of Object.entries(upgrades.get(req)?.headers ?? {})) lines.push(`${name}: ${value}`)
    })
    server.on('wsClientError', (error, _socket, req) => {
      upgrades.get(req)?.refuse(fail('invalid_request', `The WebSocket handshake is not valid: ${error.message}.`))
    })
    current = { maxPayload, server }
    return server
  }

  return {
    accept(upgrade) {
      const { head, socket, address, first, visitor } = upgrade
      const req = handshake(head)
      upgrades.set(req, upgrade)
      serverFor(options.settings().limit.body).handleUpgrade(req, socket, first, (peer) => {
        const responses = connectionMemory(memory, String(opened++))
        const onClosed = () => {
          connections.delete(connection)
          responses.clear()
        }
        const connection = new WebSocketConnection({ options, peer, socket, address, visitor, responses, onClosed })
        connections.add(connection)
        if (draining) connection.drain()
      })
    },
    open: () => connections.size,
    busy: () => [...connections].filter(({ busy }) => busy).length,
    drain() {
      draining = true
      for (const connection of connections) connection.drain()
    },
  }
}

/** `ws` expects Node's request; it reads no other members of it. */
const handshake = ({ method, target, headers }: IncomingHead): IncomingMessage => {
  const names = ['upgrade', 'sec-websocket-key', 'sec-websocket-version', 'sec-websocket-protocol', 'origin']
  const found = Object.fromEntries(names.map((name) => [name, headers(name)]))
  return { method, url: target, headers: found } as unknown as IncomingMessage
}

/** A view of the shared store that contains one connection's responses. */
const connectionMemory = (shared: MemoryStore, connection: string): MemoryStore & { clear(): void } => {
  const stored = new Set<string>()
  const scoped = (owner: string): string => `${connection} ${owner}`
  const unscoped = (owner: string, found: StoredResponse | undefined) => found && { ...found, owner }
  return {
    put(response) {
      stored.add(`${response.id} ${response.owner}`)
      shared.put({ ...response, owner: scoped(response.owner) })
    },
    get: (id, owner) => unscoped(owner, shared.get(id, scoped(owner))),
    findByItem: (item, owner) => unscoped(owner, shared.findByItem(item, scoped(owner))),
    delete: (id, owner) => shared.delete(id, scoped(owner)),
    clear() {
      for (const name of stored) {
        const [id = '', owner = ''] = name.split(' ')
        shared.delete(id, scoped(owner))
      }
    },
  }
}
