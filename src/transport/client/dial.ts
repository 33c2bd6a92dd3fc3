/** Upstream calls over pooled HTTP/1.1 connections. Code outside this folder does not depend on the HTTP client. */
import { DIRECT, type Egress } from '../../core/egress.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { ForwardProxy } from '../../core/forward-proxy.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, OngoingCall, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { encodingOf, type Inflater, inflater } from '../net/inflate.ts'
import { acceptOf, randomKey } from '../net/web-socket-key.ts'
import { destinationOf, type OnProxyConnect } from './connect.ts'
import type { ConnectionListener, ConnectionPool, OpenConnection, UpstreamConnection } from './connection.ts'
import { Http1Connection } from './http1-connection.ts'
import { NameCache } from './names.ts'
import type { OutgoingCall } from './outgoing-call.ts'
import { refusedByProxy } from './proxy-hop.ts'

/** `scheme` with its colon. */
type InProcessUpstream = { readonly scheme: string; readonly dial: Dial }

/** Options of `dialer`. */
export type DialOptions = {
  /** Opens connections; see `connectionFor`. Default: the gateway's own client. */
  readonly open?: OpenConnection
  /** Maximum idle time of a connection in ms, unless the upstream states a shorter one. Default 30,000. */
  readonly keepAlive?: number
  /** Maximum idle connections per origin. Default 256. */
  readonly maxIdle?: number
  /** Maximum decoded bytes of a compressed response. Default 64 MiB. */
  readonly maxDecodedBytes?: number
  /** How calls without an own `egress` are made, now. Absent: directly, and as Node does. */
  readonly egress?: () => Egress
  /** A provider in this process: it receives the calls to URLs of its scheme. */
  readonly inProcess?: InProcessUpstream
  /** Receives the result of each connection through a proxy, by the name of the proxy. */
  readonly onProxyConnect?: OnProxyConnect
}

/** The available HTTP clients. */
export type HttpClient = 'own' | 'undici'

/** Loads an HTTP client. undici is imported on demand: it would be a fifth of the code to load. */
export const connectionFor = async (client: HttpClient): Promise<OpenConnection> =>
  client === 'own' ? ownConnection : (await import('./undici-connection.ts')).undiciConnection

const ownConnection: OpenConnection = (destination, pool) => new Http1Connection(destination, pool)

/** A `Dial` that can be closed. */
export type Dialer = {
  readonly dial: Dial
  /** Ends connections that were made in other ways than these, each after its call. */
  keepOnly(inUse: Iterable<Egress>): void
  /** Fails all calls and closes all connections. */
  close(): Promise<void>
}

/** Creates a dialer for `http:` and `https:` URLs. */
export const dialer = (options: DialOptions = {}): Dialer => {
  const { open = ownConnection, keepAlive = 30_000, maxIdle = 256, maxDecodedBytes = 64 * 1024 * 1024 } = options
  const { inProcess, egress: usual = () => DIRECT, onProxyConnect } = options
  const names = new NameCache()
  const ways = new Map<string, Way>()
  let closed = false

  const wayOf = (egress: Egress): Way => {
    const known = ways.get(egress.id)
    if (known) return known
    const way = new Way(egress, { names, keepAlive, maxIdle, open, onProxyConnect })
    ways.set(egress.id, way)
    return way
  }

  const dial: Dial = (call, listener) => {
    if (inProcess && call.url.startsWith(inProcess.scheme)) return inProcess.dial(call, listener)
    if (closed) return failedLater(listener, fail('shutdown', 'The gateway closed its connections.', UNSENT))
    const route = wayOf(call.egress ?? usual()).routeTo(call.url)
    if (!route)
      return failedLater(listener, fail('internal', 'The address of the upstream is not an http or https URL.', UNSENT))
    return new HttpCall(call, route, listener, maxDecodedBytes).start()
  }

  return {
    dial,
    keepOnly(inUse) {
      const ids = new Set(Array.from(inUse, ({ id }) => id))
      for (const [id, way] of ways)
        if (!ids.has(id)) {
          ways.delete(id)
          way.retire()
        }
    },
    async close() {
      closed = true
      await Promise.all([...ways.values()].map((way) => way.close()))
    },
  }
}

const UNSENT = { unsent: true } as const

/** Maximum cached URLs. */
const MAX_ROUTES = 1_000

/**
 * A parsed upstream URL. `path` includes the query. `proxy`: it receives the request itself, in absolute form, with its
 * credentials; a tunnel needs them only when it is opened.
 */
type CallRoute = { readonly origin: Origin; readonly path: string; readonly proxy?: ForwardProxy }

const withCredentials = (call: UpstreamCall, { authorization }: ForwardProxy): UpstreamCall =>
  authorization === null
    ? call
    : { ...call, headers: { ...call.headers, 'proxy-authorization': authorization.reveal() } }

/** Reports a failure after `dial` has returned: listeners are never called before. */
const failedLater = (listener: UpstreamListener, failure: Failure): OngoingCall => {
  let live = true
  queueMicrotask(() => live && listener.onFailure(failure))
  return {
    abort() {
      live = false
    },
    resume() {},
  }
}

type WayOptions = {
  readonly names: NameCache
  readonly keepAlive: number
  readonly maxIdle: number
  readonly open: OpenConnection
  readonly onProxyConnect: OnProxyConnect | undefined
}

/** The destinations that are reached in one way, with their connections. */
class Way {
  readonly #egress: Egress
  readonly #options: WayOptions
  readonly #to: Parameters<typeof destinationOf>[1]
  readonly #routes = new Map<string, CallRoute>()
  readonly #origins = new Map<string, Origin>()

  constructor(egress: Egress, options: WayOptions) {
    this.#egress = egress
    this.#options = options
    const { addresses, dns, tls } = egress
    const isUsual = addresses === 'auto' && dns.keep === 0
    this.#to = {
      trust: { tls },
      names: isUsual ? undefined : options.names.under(egress),
      onProxyConnect: options.onProxyConnect,
    }
  }

  /** Null: the address is not an http or https URL. */
  routeTo(address: string): CallRoute | null {
    const known = this.#routes.get(address)
    if (known) return known
    const url = URL.canParse(address) ? new URL(address) : null
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return null
    const proxy = this.#egress.proxyFor(url)
    const path = url.pathname + url.search
    const route =
      proxy && url.protocol === 'http:'
        ? { origin: this.#originOf(url, proxy), path: url.origin + path, proxy }
        : { origin: this.#originOf(url, proxy), path }
    // Bounded: some providers have the model's name, which clients choose, in the URL.
    if (this.#routes.size >= MAX_ROUTES) this.#routes.clear()
    this.#routes.set(address, route)
    return route
  }

  #originOf(url: URL, proxy: ForwardProxy | null): Origin {
    const known = this.#origins.get(url.origin)
    if (known) return known
    const { open, keepAlive, maxIdle } = this.#options
    const destination = destinationOf(url, this.#to, proxy)
    const maxAge = this.#egress.maxConnectionAge || Number.POSITIVE_INFINITY
    const origin = new Origin((pool) => open(destination, pool, keepAlive), { keepAlive, maxIdle, maxAge })
    this.#origins.set(url.origin, origin)
    return origin
  }

  /** Closes idle connections. Others end with their call. */
  retire(): void {
    for (const origin of this.#origins.values()) origin.retire()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#origins.values()].map((origin) => origin.close()))
  }
}

/** `maxAge`: ms after which a connection is used for no further call. */
type OriginOptions = Pick<WayOptions, 'keepAlive' | 'maxIdle'> & { readonly maxAge: number }

/** ms between checks for expired idle connections. */
const SWEEP_INTERVAL = 1_000

/** The connection pool of one origin. */
class Origin implements ConnectionPool {
  readonly #open: (pool: ConnectionPool) => UpstreamConnection
  readonly #options: OriginOptions
  /** With the times of their start. */
  readonly #connections = new Map<UpstreamConnection, number>()
  /** Newest last: the most recently used connection is the least likely to be closed by now. */
  #idle: { readonly connection: UpstreamConnection; readonly until: number }[] = []
  /** Connections released so recently that bytes after the response may still be unread. */
  #unsettled: UpstreamConnection[] = []
  #sweep: NodeJS.Timeout | undefined
  #isRetired = false

  constructor(open: (pool: ConnectionPool) => UpstreamConnection, options: OriginOptions) {
    this.#open = open
    this.#options = options
  }

  /** An idle connection, or a new one. */
  take(): UpstreamConnection {
    return this.#idle.pop()?.connection ?? this.create()
  }

  create(): UpstreamConnection {
    const connection = this.#open(this)
    this.#connections.set(connection, performance.now())
    return connection
  }

  release(connection: UpstreamConnection, idleTimeout: number | undefined): void {
    const { keepAlive, maxIdle, maxAge } = this.#options
    const now = performance.now()
    // One second less than the server's own timeout, for the time a request is on the network.
    const ms = idleTimeout === undefined ? keepAlive : Math.min(keepAlive, idleTimeout * 1_000 - 1_000)
    const until = Math.min(now + ms, (this.#connections.get(connection) ?? now) + maxAge)
    if (until <= now || this.#isRetired) return connection.drop()
    this.#idle.push({ connection, until })
    if (this.#idle.length > maxIdle) this.#idle[0]?.connection.drop()
    this.#sweep ??= setInterval(() => this.#dropExpired(), SWEEP_INTERVAL).unref()
    this.#unsettled.push(connection)
    if (this.#unsettled.length === 1) setImmediate(() => this.#settle())
  }

  /** A connection is settled after the event loop has polled its socket once more. */
  #settle(): void {
    const connections = this.#unsettled
    this.#unsettled = []
    setImmediate(() => {
      for (const connection of connections) connection.settled()
    })
  }

  remove(connection: UpstreamConnection): void {
    this.#connections.delete(connection)
    const at = this.#idle.findIndex((entry) => entry.connection === connection)
    if (at !== -1) this.#idle.splice(at, 1)
  }

  retire(): void {
    this.#isRetired = true
    for (const { connection } of [...this.#idle]) connection.drop()
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all(Array.from(this.#connections.keys(), (connection) => connection.close()))
  }

  #dropExpired(): void {
    const now = performance.now()
    for (const { connection, until } of [...this.#idle]) if (until <= now) connection.drop()
    if (this.#idle.length > 0) return
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }
}

/** One call: decodes the response's content encoding, and repeats the request on a new connection if a stale one broke. */
class HttpCall implements ConnectionListener, OngoingCall {
  /** Null after the response has begun: then the request is not sent again. */
  #message: OutgoingCall | null
  readonly #origin: Origin
  readonly #proxy: ForwardProxy | undefined
  readonly #maxDecodedBytes: number
  readonly #once: boolean
  /** Null after its last event. */
  #listener: UpstreamListener | null
  #connection: UpstreamConnection | null = null
  #inflater: Inflater | null = null
  #retried = false
  #sentAt = 0
  /** Null: the call does not change protocols. */
  readonly #handshake: Handshake | null
  /** `dial` has not returned; the listener must not be called before it has. */
  #starting = false

  constructor(
    call: UpstreamCall,
    { origin, path, proxy }: CallRoute,
    listener: UpstreamListener,
    maxDecodedBytes: number,
  ) {
    const sent = proxy ? withCredentials(call, proxy) : call
    this.#handshake = call.upgrade ? handshake() : null
    this.#message = {
      call: this.#handshake ? { ...sent, headers: { ...sent.headers, ...this.#handshake.headers } } : sent,
      path,
    }
    this.#origin = origin
    this.#proxy = proxy
    this.#listener = listener
    this.#maxDecodedBytes = maxDecodedBytes
    this.#once = call.once === true || call.upload !== undefined
  }

  start(): this {
    this.#starting = true
    this.#send(this.#once ? this.#origin.create() : this.#origin.take())
    this.#starting = false
    return this
  }

  #send(connection: UpstreamConnection): void {
    this.#connection = connection
    this.#sentAt = performance.now()
    if (this.#message) connection.send(this.#message, this)
  }

  abort(): void {
    if (!this.#listener) return
    this.#listener = null
    this.#drop()
  }

  resume(): void {
    if (this.#inflater) this.#inflater.resume()
    else this.#connection?.resume()
  }

  write(bytes: Uint8Array, drained: () => void): boolean {
    return this.#connection?.write?.(bytes, drained) ?? true
  }

  #drop(): void {
    this.#inflater?.stop()
    const connection = this.#connection
    this.#connection = null
    connection?.drop()
  }

  #fail(failure: Failure): void {
    if (this.#starting) return queueMicrotask(() => this.#fail(failure))
    const listener = this.#listener
    this.#listener = null
    this.#drop()
    listener?.onFailure(failure)
  }

  head(status: number, headers: HeaderLookup): void {
    this.#message = null
    // Only a proxy answers so.
    if (this.#proxy && status === PROXY_AUTHENTICATION)
      return this.#fail(refusedByProxy(this.#proxy, status, '', headers('proxy-authenticate') ?? ''))
    if (status === 101 && headers('sec-websocket-accept') !== this.#handshake?.accept)
      return this.#fail(fail('not_http', 'The upstream did not accept the WebSocket key.', { status }))
    const encoding = encodingOf(headers('content-encoding'))
    if (encoding === 'none') {
      this.#listener?.onHeaders(status, headers)
      return
    }
    if (encoding === 'unknown')
      return this.#fail(fail('malformed', 'The response has an unsupported content-encoding.', { status }))
    // Some servers compress although the request does not accept it.
    this.#inflater = inflater(
      encoding.name,
      this.#maxDecodedBytes,
      {
        bytes: (chunk) => this.#listener?.onBody(chunk) ?? true,
        end: () => this.#finish(),
        failed: (failure) => this.#fail(failure),
      },
      () => this.#connection?.resume(),
    )
    this.#listener?.onHeaders(status, (name) => (ENCODED_BODY_HEADERS.has(name) ? undefined : headers(name)))
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#inflater) return this.#inflater.push(chunk)
    return this.#listener?.onBody(chunk) ?? true
  }

  end(): void {
    this.#connection = null
    if (this.#inflater) this.#inflater.end()
    else this.#finish()
  }

  broke(failure: Failure, stale: boolean): void {
    this.#connection = null
    if (!this.#listener) return
    // The upstream closed an idle connection while the request was on the network, as it may at any time. Repeated once
    // on a new connection; further retries are the gateway's decision.
    if (!stale || !this.#message || this.#retried || performance.now() - this.#sentAt > CROSSING)
      return this.#fail(failure)
    this.#retried = true
    this.#send(this.#origin.create())
  }

  #finish(): void {
    const listener = this.#listener
    this.#listener = null
    listener?.onEnd()
  }
}

/** ms in which a request and the closing of its connection can cross. Later the request may have been processed and billed. */
const CROSSING = 2_000

const PROXY_AUTHENTICATION = 407

/** The headers of an opening handshake (RFC 6455, section 4.1), and the value that accepts it. */
type Handshake = { readonly headers: Readonly<Record<string, string>>; readonly accept: string }

const handshake = (): Handshake => {
  const key = randomKey()
  return { headers: { 'sec-websocket-version': '13', 'sec-websocket-key': key }, accept: acceptOf(key) }
}

/** Headers that do not apply to a decoded body. */
const ENCODED_BODY_HEADERS: ReadonlySet<string> = new Set(['content-encoding', 'content-length'])
