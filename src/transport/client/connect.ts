import { connect as connectPlain, isIP, type OnReadOpts, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Failure } from '../../core/failure.ts'
import type { ForwardProxy } from '../../core/forward-proxy.ts'
import { connectFailure, connectTimedOut } from './connection-failures.ts'
import { emptyHeadCache, type HeadCache } from './heads.ts'
import { brokenHop, openTunnel, type ProxyStage, proxyTimedOut } from './proxy-hop.ts'

/** The peer of a connection, with the TLS state that its connections share. */
type Peer = {
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** Certificates (PEM) trusted instead of the default ones. */
  readonly ca?: string
  /** The trusted certificates, loaded once: loading takes longer than the rest of a handshake. */
  context?: SecureContext
  /** The last TLS session, for resumption. */
  session?: Buffer
}

/** A connection target with the state that its connections share. */
export type Destination = Peer & {
  /** `https://[::1]:8443` */
  readonly origin: string
  /** The value of the `host` header: with the port unless it is the default (RFC 9110, section 7.2). */
  readonly authority: string
  readonly heads: HeadCache
  /** The proxy on the way; null: the destination is reached directly. */
  readonly hop: { readonly proxy: ForwardProxy; readonly peer: Peer } | null
}

/** Loaded with the first TLS connection: an import would add 10 ms to the start (Node 24.21). */
const tls = () => process.getBuiltinModule('node:tls')

/** The destination of a URL. `ca`: certificates (PEM) trusted instead of the default ones. */
export const destinationOf = (url: URL, ca: string | undefined, proxy: ForwardProxy | null = null): Destination => {
  const secure = url.protocol === 'https:'
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  const port = Number(url.port || (secure ? 443 : 80))
  const trusted = ca !== undefined && { ca }
  return {
    origin: url.origin,
    authority: url.host,
    host,
    port,
    secure,
    heads: emptyHeadCache(),
    hop: proxy && { proxy, peer: { host: proxy.host, port: proxy.port, secure: proxy.secure, ...trusted } },
    ...trusted,
  }
}

/** A connection that is being opened. */
export type Connecting = {
  /** The socket in use. It is another one after a tunnel has been opened. */
  socket: Socket
}

/** The result of `connectTo`. After a failure the socket is destroyed. */
export type Connected = (failure: Failure | null, socket: Socket, error?: Error) => void

/** Options of `connectTo`. */
export type ConnectingOptions = {
  /** ms for everything: TCP, the tunnel and TLS. 0: no limit. */
  readonly allowed: number
  /** Receives the bytes instead of `data` events. Not used in a tunnel; see `isTunnel`. */
  readonly read?: OnReadOpts
}

/** Whether the destination is reached by a tunnel: its socket then emits `data` events. */
export const isTunnel = ({ secure, hop }: Destination): boolean => secure && hop !== null

/** A timer that fires this late (ms) means that the event loop was blocked. */
const BLOCKED_LOOP_MS = 20

/** Opens a connection, through the proxy and including TLS. `done` is called once. */
export const connectTo = (
  destination: Destination,
  { allowed, read }: ConnectingOptions,
  done: Connected,
): Connecting => {
  const { hop, secure } = destination
  const target = `${destination.host.includes(':') ? `[${destination.host}]` : destination.host}:${destination.port}`
  const first = hop?.peer ?? destination
  const connecting: Connecting = { socket: openSocket(first, isTunnel(destination) ? {} : { ...(read && { read }) }) }
  let stage: ProxyStage | 'destination' = hop ? 'proxy' : 'destination'
  let timer: NodeJS.Timeout | undefined
  const startTimer = (ms: number) => {
    const due = performance.now() + ms
    timer = setTimeout(() => {
      const late = performance.now() - due
      // Extends the timeout by the time in which this process could not handle events.
      if (late >= BLOCKED_LOOP_MS) return startTimer(late)
      finish(
        hop && stage !== 'destination' ? proxyTimedOut(hop.proxy, stage, target, allowed) : connectTimedOut(allowed),
        new Error('connect timeout'),
      )
    }, ms)
  }
  if (allowed > 0) startTimer(allowed)
  let open = true
  const finish = (failure: Failure | null, error?: Error) => {
    if (!open) return
    open = false
    clearTimeout(timer)
    const { socket } = connecting
    unwatch(socket)
    done(failure, socket, error)
    // An unhandled `error` event would end the process. A second listener would make Node keep an array for the life of
    // the connection.
    if (socket.listenerCount('error') === 0) socket.on('error', ignored)
    if (failure) socket.destroy()
  }
  const failed = (error: Error) => {
    const failure = connectFailure(error)
    const isOurs = failure.kind === 'busy'
    finish(
      hop && stage !== 'destination' && !isOurs ? brokenHop(hop.proxy, stage, target, failure.message) : failure,
      error,
    )
  }
  const closed = () => failed(Object.assign(new Error('closed while connecting'), { code: 'ECONNRESET' }))
  const unwatch = (socket: Socket) => socket.off('error', failed).off('close', closed)
  const watch = (peer: Peer, opened: () => void) => {
    const { socket } = connecting
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    socket.once(peer.secure ? 'secureConnect' : 'connect', opened)
    socket.on('error', failed).on('close', closed)
    if (peer.secure)
      socket.on('session', (session: Buffer) => {
        peer.session = session
      })
  }
  watch(first, () => {
    if (!hop || !secure) return finish(null)
    stage = 'tunnel'
    const through = connecting.socket
    openTunnel(through, hop.proxy, target, (failure) => {
      if (failure) return finish(failure, new Error(failure.message))
      unwatch(through)
      through.on('error', ignored)
      stage = 'destination'
      connecting.socket = openSocket(destination, { through })
      watch(destination, () => finish(null))
    })
  })
  return connecting
}

/** Opens a socket, or TLS on an open one. */
const openSocket = (
  peer: Peer,
  { read, through }: { readonly read?: OnReadOpts; readonly through?: Socket },
): Socket => {
  const { host, port, secure, ca, session } = peer
  if (!secure) return connectPlain({ host, port, ...(read && { onread: read }) })
  peer.context ??= tls().createSecureContext(ca === undefined ? {} : { ca })
  return tls().connect({
    ...(through ? { socket: through } : { host, port }),
    ...(isIP(host) === 0 ? { servername: host } : { host }),
    ALPNProtocols: ['http/1.1'],
    // Explicit: NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment must not disable verification.
    rejectUnauthorized: true,
    secureContext: peer.context,
    ...(session && { session }),
    ...(read && { onread: read }),
  })
}

const ignored = () => {}
