/** Starts the server. */
import { join } from 'node:path'
import type { HeaderLookup } from '../core/headers.ts'
import { memoizeLast } from '../core/memoize-last.ts'
import { createResponse } from '../gateway/responses/create-response.ts'
import { READING } from '../limits/restored-budgets.ts'
import { isTrusted, proxyRanges, UNIX_PEER } from '../policy/accounts/client-address.ts'
import { hasPassThrough } from '../policy/pass/access.ts'
import { firstKnown } from '../policy/routing/models.ts'
import { untilFree } from '../runtime/free-port.ts'
import { readRunFile } from '../runtime/run-file.ts'
import { isAdminPath, loadedOnUse } from '../server/admin-request.ts'
import { handlersFor } from '../server/handlers.ts'
import { isModelPath, protocolAt } from '../server/routes.ts'
import { type Server, startServer } from '../server/server.ts'
import { Spool } from '../storage/files/spool.ts'
import type { OpenListener } from '../transport/server/http-server.ts'
import { openAdmin, openClientPages, openDashboard, openDocs, sharedMetrics } from './admin-parts.ts'
import { claudePages } from './claude.ts'
import { isKeyed, type Runtime, refuseToStart } from './runtime.ts'

/** Longest wait in ms for a port that processes of the gateway before this one may still have. */
const PORT_PATIENCE = 10_000

/**
 * Waits until processes of an earlier gateway in this data folder have left the port: one that drains, or workers whose
 * supervisor was killed. Any other program that uses the port is not waited for.
 */
const untilPortIsLeft = async ({ loaded, current, worker }: Runtime): Promise<void> => {
  const { port, host, socket } = loaded.launch
  if (socket || worker?.first === false || readRunFile(current.config.settings.data.dir)?.port !== port) return
  await untilFree({ port, host, ms: PORT_PATIENCE }, () =>
    process.stderr.write(
      `headgate: Port ${port} is in use by processes of the gateway before this one. Waiting up to ${PORT_PATIENCE / 1000} s.\n`,
    ),
  )
}

/** Opens the certificates of the port, or exits with a message. Without them nothing is loaded. */
const openTls = async ({ current, loaded, log }: Runtime): Promise<void> => {
  const { tls } = current.config.settings
  if (tls.cert.length === 0 && tls.key.length === 0) return
  if (loaded.launch.httpServer !== 'own')
    return refuseToStart(['tls needs the built-in HTTP server. Remove HTTP_SERVER.'])
  const { openInboundTls } = await import('../server/inbound-tls.ts')
  current.tls = await openInboundTls(tls, log).catch((error: Error) => refuseToStart([`tls: ${error.message}.`]))
}

/** ms between two log lines about connections that were closed. */
const REFUSED_PAUSE = 10_000

const UNTRUSTED =
  'proxyProtocol (PROXY_PROTOCOL) is required without trustedProxies: no connection would be accepted. Set TRUSTED_PROXIES to the addresses of the balancers.'

const PROXY_ON_SOCKET =
  'proxyProtocol (PROXY_PROTOCOL) is not read on a Unix socket. Use a port, or let the proxy send X-Forwarded-For and set TRUSTED_PROXIES=unix.'

/** How connections are accepted; undefined: over plain TCP. */
const openListener = async ({ current, loaded, log }: Runtime): Promise<OpenListener | undefined> => {
  const tls = current.tls?.open
  if (loaded.launch.socket) {
    if (current.config.settings.proxyProtocol === 'required') return refuseToStart([PROXY_ON_SOCKET])
    if (loaded.launch.httpServer !== 'own')
      return refuseToStart(['HOST=unix:/path needs the built-in HTTP server. Remove HTTP_SERVER.'])
    const { socketListener } = await import('../transport/server/unix-socket.ts')
    return socketListener(UNIX_PEER, tls)
  }
  if (current.config.settings.proxyProtocol === 'off') return tls
  if (loaded.launch.httpServer !== 'own')
    return refuseToStart(['proxyProtocol needs the built-in HTTP server. Remove HTTP_SERVER.'])
  if (current.config.settings.trustedProxies.length === 0) return refuseToStart([UNTRUSTED])
  const { proxiedListener } = await import('../transport/server/proxied-listener.ts')
  const ranges = memoizeLast(proxyRanges)
  let next = 0
  let refused = 0
  return proxiedListener({
    tls,
    isTrusted: (peer) => isTrusted(peer, ranges(current.config.settings.trustedProxies)),
    onRefused(peer, why) {
      refused++
      if (performance.now() < next) return
      log.warn('proxy_protocol', { address: peer, refused, message: `A connection was closed. ${why}` })
      next = performance.now() + REFUSED_PAUSE
      refused = 0
    },
  })
}

/** Starts the server, or exits with a message if the port cannot be used. */
export const listen = async (runtime: Runtime): Promise<Server> => {
  const { version, gateway, loaded, log, metrics, worker, started, problems, load, clients } = runtime
  const { launch } = loaded
  const { host } = launch
  const { basePath, tls, proxyProtocol } = runtime.current.config.settings
  const refuseToListen = (error: NodeJS.ErrnoException) =>
    refuseToStart([launch.socket ? `HOST=${host}: ${error.message}` : notListening(error, launch.port, host)])
  await openTls(runtime)
  await untilPortIsLeft(runtime)
  const port = worker ? await worker.claim(launch.port, host).catch(refuseToListen) : launch.port
  const handlers = handlersFor({
    gateway,
    version,
    basePath,
    started,
    uptime: () => process.uptime() * 1000,
    draining: () => server.draining(),
    loading: isLoading(runtime),
    keyed: () => isKeyed(runtime),
    problems,
    metrics: worker ? () => sharedMetrics(runtime, worker) : () => metrics.text(),
    clientPages: () => openClientPages(runtime),
    claude: claudePages(runtime),
    worker,
  })
  const server: Server = await startServer({
    port,
    host,
    socket: launch.socket,
    basePath,
    listener: await openListener(runtime),
    secure: runtime.current.tls !== undefined,
    healthPort: launch.socket || runtime.current.tls || proxyProtocol === 'required' ? tls.healthPort : undefined,
    reusePort: worker !== undefined,
    httpServer: launch.httpServer,
    settings: () => runtime.current.config.settings,
    production: launch.production,
    keys: { ...runtime.keys, signed: runtime.issuers.signed },
    handlers,
    admin: loadedOnUse(() => openAdmin(runtime, handlers)),
    signsIn: () => runtime.current.config.sso !== null,
    hasClaude: () => runtime.current.config.claude !== null,
    servesClouds: () => runtime.current.config.cloudPaths !== false,
    passes: (path) => hasPassThrough(gateway.config(), path),
    knownModel: (names) =>
      firstKnown({ config: gateway.config(), lists: gateway.lists(), catalogue: gateway.catalogue }, names),
    pages: {
      dashboard: loadedOnUse(() => openDashboard(runtime)),
      docs: loadedOnUse(() => openDocs(runtime)),
    },
    forms: new Spool(() => {
      const { data, limit } = runtime.current.config.settings
      return { folder: join(data.dir, 'spool'), limit: limit.spoolMegabytes * 1_048_576 }
    }),
    answerTurn: (received, reply, connection) => {
      clients.arrived(received)
      return createResponse(gateway, received, reply, connection)
    },
    relay: async (received, socket) => {
      const { serveRealtime } = await import('../gateway/realtime/serve-realtime.ts')
      await serveRealtime(gateway, { received, socket })
    },
    onCall: (request) => clients.arrived(request),
    onError: (error, id) => gateway.emit({ event: 'error', error, ...(id !== '' && { id }) }),
    onUnread: ({ client, ...ended }) => {
      log.warn('unread_ended', { ...ended, client: client || undefined })
      metrics.shed('unread')
    },
    onRefused: (refused) => {
      const { id, method, path, status, failure, headers, client, why } = refused
      if (headers && isApiCall(path, headers)) clients.refused({ id, method, path, headers }, status, failure)
      if (!headers || isApiCall(path, headers)) {
        const style = isModelPath(path) ? protocolAt(path) : 'http'
        gateway.accounts.refused({ ...refused, style, isIdentified: Boolean(client) })
      }
      log.info('refused', {
        id,
        method,
        path,
        client: client || undefined,
        status,
        kind: failure.kind,
        message: failure.message,
        detail: failure.detail,
      })
      metrics.refused(failure)
      if (why !== undefined || failure.kind === 'draining') metrics.shed(why ?? failure.kind)
    },
    load,
  }).catch(refuseToListen)
  return server
}

/**
 * Whether the gateway cannot serve its clients yet: their keys are unknown, or what their budgets have spent is being read at
 * the start. Budgets that are read later, after a change, do not make it unready again.
 */
const isLoading = ({ keys, budgets }: Runtime): (() => boolean) => {
  let areBudgetsRead = false
  return () => {
    if (keys.isLoading()) return true
    areBudgetsRead ||= budgets.unknown()?.reason !== READING
    return !areBudgetsRead
  }
}

/** Whether a refused request may come from a client of the model API: not from a page, and not for the admin API. */
const isApiCall = (path: string, headers: HeaderLookup): boolean =>
  !isAdminPath(path) && headers('sec-fetch-mode') !== 'navigate' && path !== '/favicon.ico'

function notListening(error: NodeJS.ErrnoException, port: number, host: string | undefined): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `Port ${port} is in use. Choose another: PORT=${port + 1}`
    case 'EACCES':
      return `Port ${port} requires more privileges. Choose one above 1023: PORT=3000`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HOST=${host} is not an address of this machine. Choose another: HOST=127.0.0.1`
    case 'ENOTSUP':
      return 'WORKERS: this system does not support several processes on one port. Set WORKERS=1, or run several instances on different ports behind a load balancer.'
    default:
      return `Cannot listen on port ${port}: ${error.message}`
  }
}
