import { connect as connectPlain, isIP, type OnReadOpts, type Socket } from 'node:net'
import type { PeerCertificate, SecureContext, TLSSocket } from 'node:tls'
import type { EgressTls } from '../../core/egress.ts'
import type { Failure } from '../../core/failure.ts'
import type { ForwardProxy } from '../../core/forward-proxy.ts'
import { nodeAuthorities } from '../net/authorities.ts'
import { connectFailure, connectTimedOut } from './connection-failures.ts'
import { emptyHeadCache, type HeadCache } from './heads.ts'
import type { PeerNames } from './names.ts'
import { brokenHop, openTunnel, type ProxyStage, proxyTimedOut } from './proxy-hop.ts'

/** The peer of a connection, with the TLS state that its connections share. */
type Peer = {
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** The name for SNI and in the certificate. */
  readonly serverName: string
  readonly trust: Trust
  /** Undefined: Node asks the operating system for each connection. */
  readonly names: PeerNames | undefined
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
  readonly hop: Hop | null
}

type Hop = { readonly proxy: ForwardProxy; readonly peer: Peer; readonly onConnect: OnProxyConnect | undefined }

/** Loaded with the first TLS connection: an import would add 10 ms to the start (Node 24.21). */
const tls = () => process.getBuiltinModule('node:tls')

/** Certificates, with their context: loading it takes longer than the rest of a handshake. */
export type Trust = { readonly tls: EgressTls; context?: SecureContext }

/** How destinations are reached. Their connections share it. */
export type WayTo = {
  readonly trust: Trust
  readonly names?: PeerNames | undefined
  readonly onProxyConnect?: OnProxyConnect | undefined
}

/** `refused`: the proxy works, but opens no connection to the destination. */
export type ProxyOutcome = 'connected' | 'refused' | 'failed'
export type OnProxyConnect = (proxy: string, outcome: ProxyOutcome) => void

/** The destination of a URL. */
export const destinationOf = (
  url: URL,
  { trust, names, onProxyConnect }: WayTo,
  proxy: ForwardProxy | null = null,
): Destination => {
  const secure = url.protocol === 'https:'
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  const port = Number(url.port || (secure ? 443 : 80))
  return {
    origin: url.origin,
    authority: url.host,
    host,
    port,
    secure,
    serverName: trust.tls.serverName ?? host,
    trust,
    names,
    heads: emptyHeadCache(),
    hop: proxy && { proxy, peer: proxyPeer(proxy, { trust, names }), onConnect: onProxyConnect },
  }
}

/** The certificate of the client is for the destination. */
const proxyPeer = ({ host, port, secure }: ForwardProxy, { trust, names }: WayTo): Peer => ({
  host,
  port,
  secure,
  serverName: host,
  trust: trust.tls.client ? { tls: { ...trust.tls, client: null } } : trust,
  names,
})

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
  let isDropped = false
  const finish = (failure: Failure | null, error?: Error) => {
    if (!open) return
    open = false
    clearTimeout(timer)
    if (!isDropped) hop?.onConnect?.(hop.proxy.name, proxyOutcome(failure))
    const { socket } = connecting
    unwatch(socket)
    done(failure, socket, error)
    // An unhandled `error` event would end the process. A second listener would make Node keep an array for the life of
    // the connection.
    if (socket.listenerCount('error') === 0) socket.on('error', ignored)
    if (failure) socket.destroy()
  }
  let issuer: () => string | null = () => null
  const failed = (error: Error) => {
    const failure = connectFailure(error, issuer)
    const isOurs = failure.kind === 'busy'
    if (!isOurs && !isDropped) first.names?.forget(first.host)
    finish(
      hop && stage !== 'destination' && !isOurs ? brokenHop(hop.proxy, stage, target, failure.message) : failure,
      error,
    )
  }
  // Without an error before it, the connection was closed here, because its call has ended.
  const closed = () => {
    isDropped = true
    failed(Object.assign(new Error('closed while connecting'), { code: 'ECONNRESET' }))
  }
  const unwatch = (socket: Socket) => socket.off('error', failed).off('close', closed)
  const watch = (peer: Peer, opened: () => void) => {
    const { socket } = connecting
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    socket.once(peer.secure ? 'secureConnect' : 'connect', opened)
    socket.on('error', failed).on('close', closed)
    if (!peer.secure) return
    // The cast: `openSocket` opens it with TLS.
    issuer = watchIssuer(socket as TLSSocket)
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

/** A failure of another kind is one of the destination, to which the proxy has connected. */
const proxyOutcome = (failure: Failure | null): ProxyOutcome =>
  failure?.kind !== 'proxy' ? 'connected' : failure.endpointOnly ? 'refused' : 'failed'

/** Opens a socket, or TLS on an open one. */
const openSocket = (
  peer: Peer,
  { read, through }: { readonly read?: OnReadOpts; readonly through?: Socket },
): Socket => {
  const { host, port, secure, serverName, trust, names, session } = peer
  if (!secure)
    return connectPlain({ host, port, ...(names && { lookup: names.lookup }), ...(read && { onread: read }) })
  trust.context ??= contextOf(trust.tls)
  return tls().connect({
    ...(through ? { socket: through } : { host, port, ...(names && { lookup: names.lookup }) }),
    ...(isIP(serverName) === 0 ? { servername: serverName } : { host }),
    ALPNProtocols: ['http/1.1'],
    // Explicit: NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment must not disable verification.
    rejectUnauthorized: true,
    secureContext: trust.context,
    ...(session && { session }),
    ...(read && { onread: read }),
  })
}

/** Without `ca`, Node's own certificates take no time to load: they are shared by all contexts. */
const contextOf = ({ ca, caOnly, client }: EgressTls): SecureContext => {
  const { createSecureContext } = tls()
  return createSecureContext({
    ...(ca !== '' && { ca: caOnly ? ca : [...nodeAuthorities(), ca] }),
    ...(client && { cert: client.cert, key: client.key.reveal() }),
  })
}

/** Remembers the certificate of a server before Node ends the connection that it cannot trust. */
const watchIssuer = (socket: TLSSocket): (() => string | null) => {
  let issuer: string | null = null
  // Emitted after the handshake, before Node verifies the result. Reading it as an X509Certificate here makes Node refuse it.
  socket.prependOnceListener('secure', () => {
    let last = socket.getPeerCertificate(true)
    for (let depth = 0; last.issuerCertificate && depth < MAX_CHAIN; depth++) last = last.issuerCertificate
    issuer = last.issuer ? issuerName(last.issuer) : null
  })
  return () => issuer
}

const MAX_CHAIN = 10

/** The name of an issuer. It comes from the network: printable, and short. */
const issuerName = ({ CN, O }: PeerCertificate['issuer']): string | null => {
  // Values that are repeated are a list.
  const text = [CN ?? O ?? ''].flat().join(', ')
  return text === '' ? null : text.replace(/[^\x20-\x7e\u00a1-\u024f]/g, '?').slice(0, 80)
}

const ignored = () => {}
