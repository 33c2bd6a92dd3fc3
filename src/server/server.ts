/** The HTTP server of the gateway: wires admission, routing, WebSocket upgrades and shutdown. */
import type { FormStore } from '../core/form.ts'
import type { IncomingRequest, RequestBody } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import { type LoadMeter, measureLoad } from '../runtime/load.ts'
import type { OpenHttpServer, OpenListener, ServerHandler, ServerTiming } from '../transport/server/http-server.ts'
import { http1Server } from '../transport/server/http1-server.ts'
import type { SocketFile } from '../transport/server/unix-socket.ts'
import type { KeySource } from './access-rules.ts'
import type { AdminApi } from './admin-request.ts'
import { isProbe } from './base-path.ts'
import type { PageParts } from './page-request.ts'
import type { RelaySocket } from './relayed-sockets.ts'
import { Admission, type ConnectionContext, REQUEST_LIMITS } from './request-admission.ts'
import { RequestHandler, refuseMalformed } from './request-handler.ts'
import { findRoute, type Handlers } from './routes.ts'
import type { GatewayRefusal, ServerContext, UnreadEnded } from './server-context.ts'
import { type Drain, Shutdown } from './shutdown.ts'
import { Upgrade } from './upgrade.ts'
import { type AnswerTurn, SOCKET_TIMING, type SocketTiming } from './web-socket-connection.ts'

/** The dependencies of a server. */
export type ServerOptions = {
  readonly port: number
  /** Absent: every interface. */
  readonly host: string | undefined
  /** A Unix socket to listen on, instead of the port. */
  readonly socket?: SocketFile | undefined
  /** Several processes listen on the port; the system gives each connection to one. Rejects with `ENOTSUP` where unsupported. */
  readonly reusePort?: boolean
  /** Accepts connections otherwise than over plain TCP. */
  readonly listener?: OpenListener | undefined
  /** Clients use TLS. */
  readonly secure?: boolean
  /** Another port, which serves the probes over plain HTTP; absent: none. */
  readonly healthPort?: number | undefined
  /** The path below which everything is served; absent: the root. */
  readonly basePath?: string
  /** The HTTP implementation; `own` by default. */
  readonly httpServer?: keyof typeof HTTP_SERVERS
  /** The current settings; they may change while the server runs. */
  readonly settings: () => Settings
  /** Requests of this machine need credentials as all others do. False by default. */
  readonly production?: boolean
  readonly handlers: Handlers
  /** The keys of headgate.yaml and of the database. Absent: only those of the settings. */
  readonly keys?: KeySource
  /** Serves the paths of the admin API. Absent: they do not exist. */
  readonly admin?: AdminApi
  /** Whether single sign-on is configured; absent: it is not. */
  readonly signsIn?: () => boolean
  /** Whether the Claude Code gateway protocol is enabled; absent: it is not. */
  readonly hasClaude?: () => boolean
  readonly servesClouds?: () => boolean
  /** Whether a path begins with the name of an instance that has a pass-through; absent: none has. */
  readonly passes?: (path: string) => boolean
  readonly knownModel?: (names: readonly string[]) => string
  /** Serves the dashboard and the documentation, if they are enabled. Absent: their paths do not exist. */
  readonly pages?: PageParts
  /** Where long forms are kept; absent: in memory. */
  readonly forms?: FormStore
  /** Answers a turn received over a WebSocket. Absent: no path accepts WebSocket, and clients get 426. */
  readonly answerTurn?: AnswerTurn
  /** Relays a WebSocket. Absent: no path is relayed. */
  readonly relay?: RelaySocket
  /** A handler threw: a bug of the gateway. */
  readonly onError: (error: unknown, requestId: string) => void
  /** A model call is passed to its handler. */
  readonly onCall?: (request: IncomingRequest<RequestBody>) => void
  /** A request was refused before it reached a handler. */
  readonly onRefused?: (refused: GatewayRefusal) => void
  /** An unread response was aborted to free memory. */
  readonly onUnread?: (ended: UnreadEnded) => void
  /** The load of the process; the caller stops it. Absent: the server measures for itself. */
  readonly load?: LoadMeter
  readonly timing?: Partial<Timing>
  readonly socketTiming?: Partial<SocketTiming>
}

/** All in ms. */
type Timing = ServerTiming & {
  /** For streams to end after the drain has cancelled them. */
  readonly farewell: number
}

const TIMING: Timing = {
  head: 10_000,
  request: 60_000,
  check: 1_000,
  // Longer than the usual 60 s of load balancers, so that they close first.
  keepAlive: 65_000,
  // As nginx's lingering_timeout.
  linger: 5_000,
  farewell: 1_000,
}

/** `node:http` is loaded only where it is configured. */
const HTTP_SERVERS = {
  own: async () => http1Server,
  node: async () => (await import('../transport/server/node-server.ts')).nodeServer,
} as const satisfies Record<string, () => Promise<OpenHttpServer>>

const REQUESTS_PER_SOCKET = 10_000

/** A running server. */
export type Server = {
  readonly port: number
  readonly draining: () => boolean
  /** Requests and WebSocket turns in progress. */
  readonly live: () => number
  readonly connections: () => number
  /** Ends gracefully; resolves when nothing is left. A second call skips the waits that remain. */
  readonly drain: (how: Drain) => Promise<void>
  /** Makes a drain, now or later, close the port without its delay. */
  readonly leavePort: () => void
  /** Ends at once: requests in progress are aborted. */
  readonly close: () => Promise<void>
}

/** Starts a server. Rejects with Node's error when it cannot listen (`EADDRINUSE`, `EACCES`). */
export const startServer = async (options: ServerOptions): Promise<Server> => {
  const { settings, handlers, onError, host } = options
  const timing: Timing = { ...TIMING, ...options.timing }
  const load = options.load ?? measureLoad()
  const { port: asked, keys, production = false } = options
  const admission = new Admission({
    port: asked,
    host,
    settings,
    load,
    keys,
    production,
    secure: options.secure ?? false,
  })
  const loggedPath = (path: string): string => admission.loggedPath(path, 'routes' in findRoute(path))
  const context: ServerContext = {
    settings,
    basePath: options.basePath ?? '',
    handlers,
    admin: options.admin,
    signsIn: options.signsIn,
    hasClaude: options.hasClaude,
    servesClouds: options.servesClouds,
    passes: options.passes,
    knownModel: options.knownModel,
    pages: options.pages,
    admission,
    forms: options.forms,
    onError,
    onCall: (request) => options.onCall?.(request),
    onRefused: (refused) =>
      options.onRefused?.({
        ...refused,
        path: loggedPath(refused.path),
        owner: () => (refused.headers ? admission.access.ownerOf(settings(), refused.headers) : null),
      }),
    onUnread: (ended) => options.onUnread?.({ ...ended, path: loggedPath(ended.path) }),
    linger: timing.linger,
  }
  const upgrade = new Upgrade(context, options, { ...SOCKET_TIMING, ...options.socketTiming })

  const openServer: OpenHttpServer = await HTTP_SERVERS[options.httpServer ?? 'own']()
  const handler: ServerHandler<ConnectionContext> = {
    connected(connection) {
      server.limitConnections(admission.mostConnections)
      return admission.connect(connection)
    },
    serve: (connection, exchange) => new RequestHandler(context, connection, exchange).begin(),
    grants: (head, protocol) => upgrade.grants(head, protocol),
    upgrade: (connection, head, socket, first) => upgrade.accept(connection, head, socket, first),
    malformed: (connection, problem) => refuseMalformed(context, connection, problem),
    keeps: (connection, bytes) => admission.keep(connection, bytes),
    closed: (connection) => admission.disconnect(connection),
    failed: (error) => onError(error, ''),
  }
  const limits = { timing, headBytes: REQUEST_LIMITS.headBytes, requestsPerSocket: REQUESTS_PER_SOCKET }
  const server = openServer<ConnectionContext>(handler, { ...limits, listener: options.listener })

  const reusePort = options.reusePort ?? false
  const { socket } = options
  const port = socket
    ? await (await import('../transport/server/unix-socket.ts')).listenOnSocket(server, socket)
    : await server.listen({ port: asked, host, reusePort })
  admission.listensOn(port)
  server.limitConnections(admission.mostConnections)
  const { healthPort } = options
  const probes = healthPort ? http1Server(probesOf(handler), limits) : null
  const loopback = production ? undefined : '127.0.0.1'
  await probes?.listen({ port: healthPort, host: socket ? loopback : host, reusePort })

  const shutdown = new Shutdown({
    server,
    admission,
    upgrade,
    farewell: timing.farewell,
    stopMeasuring() {
      if (!options.load) load.stop()
    },
  })
  return {
    port,
    draining: () => admission.phase !== 'serving',
    live: () => admission.requests + upgrade.busy(),
    connections: () => admission.connections.size,
    drain: (how) => shutdown.drain(how).finally(() => probes?.close()),
    leavePort: () => shutdown.leavePort(),
    close: () => Promise.all([shutdown.close(), probes?.close()]).then(() => {}),
  }
}

/** The same handler for the probes alone: every other target is 404, and nothing is upgraded. */
const probesOf = (handler: ServerHandler<ConnectionContext>): ServerHandler<ConnectionContext> => ({
  ...handler,
  serve(connection, exchange) {
    if (isProbe(exchange.target)) handler.serve(connection, exchange)
    else exchange.answer(404, { 'content-type': 'text/plain' }, 'This port serves /health only.\n')
  },
  grants: () => false,
})
