/** Upgrades of HTTP connections to WebSocket. */
import type { Socket } from 'node:net'
import type { Client } from '../core/accounts.ts'
import { bad, type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import { corsHeaders } from '../policy/access.ts'
import { type ShedReason, shedFailure } from '../policy/health/shed.ts'
import { statusOf } from '../policy/reply/final-error.ts'
import { errorText } from '../transport/server/error-text.ts'
import { type IncomingHead, type ResponseHeaders, sendAndClose } from '../transport/server/http-server.ts'
import { challengeFor, NOT_LOOKED_UP } from './access-rules.ts'
import { belowBase } from './base-path.ts'
import { canonicalPath } from './deployment-path.ts'
import { errorResponse, idHeaders } from './error-response.ts'
import type { RelayedSockets, RelaySocket } from './relayed-sockets.ts'
import { type ConnectionContext, headProblem, memoryOwnerOf, pathOf, queryOf } from './request-admission.ts'
import { SHUTTING_DOWN } from './request-handler.ts'
import { newRequestId, requestIds } from './request-id.ts'
import { type ApiRoute, findRoute } from './routes.ts'
import type { ServerContext } from './server-context.ts'
import { SocketMemory } from './socket-memory.ts'
import { type WebSockets, webSockets } from './web-socket.ts'
import type { AnswerTurn, SocketTiming, WebSocketOptions } from './web-socket-connection.ts'

/** What serves WebSocket connections: turns, which the gateway answers, and sessions, which are relayed. Absent: no path accepts them. */
export type SocketHandlers = { readonly answerTurn?: AnswerTurn | undefined; readonly relay?: RelaySocket | undefined }

/** `first`: bytes received after the request. `relayed`: where the path is relayed. */
type ReceivedUpgrade = {
  readonly connection: ConnectionContext
  readonly head: IncomingHead
  readonly socket: Socket
  readonly first: Buffer
  readonly relayed?: { readonly relayed: RelayedSockets; readonly accepting: Outcome<ResponseHeaders> }
}

/** Admits WebSocket connections, and keeps the open ones. */
export class Upgrade {
  readonly #server: ServerContext
  readonly #sockets: WebSockets | null
  readonly #relay: RelaySocket | undefined
  /** Null until the first connection that is relayed, which loads the code. */
  #relayed: RelayedSockets | null = null

  /** Without the functions no path accepts WebSocket. */
  constructor(server: ServerContext, { answerTurn, relay }: SocketHandlers, timing: SocketTiming) {
    this.#server = server
    this.#sockets = answerTurn ? webSockets(socketOptions(server, answerTurn, timing)) : null
    this.#relay = relay
  }

  /** Whether a request may change to this protocol; any other offer, such as h2c, is served as plain HTTP. */
  grants({ method, target }: IncomingHead, protocol: string): boolean {
    if (method !== 'GET' || protocol.trim().toLowerCase() !== 'websocket') return false
    const below = belowBase(target, this.#server.basePath)
    if (below === null) return false
    const found = findRoute(canonicalPath(pathOf(below)))
    return 'routes' in found && found.routes.some(({ webSocket }) => webSocket && this.#serves(webSocket))
  }

  #serves(kind: 'turns' | 'relay'): boolean {
    return kind === 'turns' ? this.#sockets !== null : this.#relay !== undefined
  }

  /** Takes over the socket of a granted upgrade. `first`: bytes received after the request. */
  accept(connection: ConnectionContext, head: IncomingHead, socket: Socket, first: Buffer): void {
    const { target } = head
    const route = routeAt(canonicalPath(pathOf(belowBase(target, this.#server.basePath) ?? target)))
    const relay = route?.webSocket === 'relay' ? this.#relay : undefined
    if (!relay) return this.#accept({ connection, head, socket, first })
    // What the client sends meanwhile is read later.
    socket.pause()
    const { onError } = this.#server
    import('./relayed-sockets.ts').then(
      ({ RelayedSockets: Relayed, acceptHandshake, withOffered }) => {
        if (socket.destroyed) return
        const relayed = this.#relayed ?? new Relayed(relay, onError)
        this.#relayed = relayed
        const accepting = acceptHandshake(head.headers)
        const headers = withOffered(head.headers)
        this.#accept({ connection, head: { ...head, headers }, socket, first, relayed: { relayed, accepting } })
        socket.resume()
      },
      (error) => {
        onError(error, '')
        socket.destroy()
      },
    )
  }

  #accept({ connection, head, socket, first, relayed }: ReceivedUpgrade): void {
    const server = this.#server
    const { admission } = server
    const { target, headers } = head
    const settings = server.settings()
    const ids = requestIds(headers('x-request-id'))
    const { id } = ids
    const path = canonicalPath(pathOf(belowBase(target, server.basePath) ?? target))
    const policy = admission.accessPolicyFor(settings)
    const common = { ...idHeaders(path, id), ...corsHeaders(headers('origin'), policy) }
    const refuse = (failure: Failure, why?: ShedReason) => {
      const response = errorResponse(failure, id, path)
      server.onRefused({
        ...ids,
        source: connection.network,
        method: 'WEBSOCKET',
        path,
        status: response.status,
        failure,
        headers,
        ...(why && { why }),
      })
      const all = { ...common, 'x-headgate-attempts': '0', ...response.headers, ...challengeFor(failure) }
      sendAndClose(socket, errorText({ ...response, headers: all }), server.linger)
    }
    // While an earlier request has no response, the client would take these bytes for a part of that response.
    if (connection.active.length > 0) return void socket.destroy()
    const problem = headProblem(head, policy, head.headers('sec-fetch-site'))
    if (problem) return refuse(problem)
    const route = routeAt(path)
    if (!route) return void socket.destroy()
    if (relayed && !relayed.accepting.ok) return refuse(relayed.accepting.failure)
    if (admission.phase !== 'serving') return refuse(SHUTTING_DOWN)
    const { address } = connection.connection
    const sockets = this.#sockets
    const accept = (admitted: Outcome<Client>) => {
      if (!admitted.ok) return refuse(admitted.failure)
      const shed = admission.shed(connection, settings.limit)
      if (shed) return refuse(shedFailure(shed), shed)
      const client = admitted.value
      const visitor = { ...ids, method: 'GET', path, query: queryOf(target), headers, body: { text: '' }, client }
      if (relayed?.accepting.ok) {
        const memoryOwner = admission.memoryOwner(client.id, address, headers)
        server.onCall(visitor)
        admission.calls++
        relayed.relayed.accept({
          socket,
          first,
          visitor: { ...visitor, memoryOwner },
          common,
          accepting: relayed.accepting.value,
          linger: server.linger,
          onClosed: () => {
            admission.calls--
          },
        })
      } else if (sockets) sockets.accept({ head, socket, address, first, visitor, refuse, headers: common })
      else socket.destroy()
    }
    const request = { route, version: head.version, address, hosts: head.hosts, headers }
    const admitted = admission.access.check(settings, request)
    if (admitted.ok || admitted.failure !== NOT_LOOKED_UP) return accept(admitted)
    // What the client sends meanwhile is read later.
    socket.pause()
    admission.access.lookUp(settings, request).then(
      (found) => {
        if (socket.destroyed) return
        accept(found)
        socket.resume()
      },
      (error) => {
        server.onError(error, id)
        socket.destroy()
      },
    )
  }

  /** Open connections; while draining, those with a turn in progress. */
  open(): number {
    return (this.#sockets?.open() ?? 0) + (this.#relayed?.size ?? 0)
  }

  /** Connections with a turn in progress, or that are relayed. */
  busy(): number {
    return (this.#sockets?.busy() ?? 0) + (this.#relayed?.size ?? 0)
  }

  /** Closes each connection once its turn is complete. */
  drain(): void {
    this.#sockets?.drain()
    this.#relayed?.drain()
  }
}

const routeAt = (path: string): ApiRoute | undefined => {
  const found = findRoute(path)
  return 'kind' in found ? undefined : found.routes[0]
}

const socketOptions = (server: ServerContext, answer: AnswerTurn, timing: SocketTiming): WebSocketOptions => {
  const { admission, settings } = server
  const { unread } = admission
  const ownerOf = ({ client, headers }: IncomingRequest, address: string) =>
    admission.memoryOwner(client.id, address, headers)
  return {
    settings,
    answer,
    seat() {
      unread.makeRoom(0)
      const why = admission.shed({ overLimit: null }, settings().limit)
      if (why) return bad(shedFailure(why))
      admission.calls++
      return good(() => {
        admission.calls--
      })
    },
    admits({ path, headers }, address) {
      const route = routeAt(path)
      if (!route) throw new Error('a WebSocket was accepted on a path without a route')
      const request = { route, version: '1.1', address, hosts: [], headers } as const
      const admitted = admission.access.check(settings(), request)
      const isKnown = admitted.ok || admitted.failure !== NOT_LOOKED_UP
      if (isKnown) return admitted
      return admission.access.lookUp(settings(), request).catch((error) => {
        server.onError(error, '')
        return bad(fail('internal', 'Internal gateway error. See the gateway log.'))
      })
    },
    unread: {
      set: (visitor, address, answer, bytes) => unread.set(ownerOf(visitor, address), answer, bytes),
      ended: ({ id, path, client }, bytes) => server.onUnread({ id, path, client: client.id, bytes }),
    },
    memoryFor: (visitor, address) => new SocketMemory(admission.bodies, ownerOf(visitor, address)),
    onError: server.onError,
    onRefused: ({ id, visitor: { path, headers, client }, failure }) =>
      server.onRefused({
        id,
        ownId: newRequestId(),
        method: 'WEBSOCKET',
        path,
        status: statusOf(failure),
        failure,
        headers,
        client: client.id,
        source: client.id === '' ? 'websocket' : memoryOwnerOf(client.id),
      }),
    timing,
  }
}
