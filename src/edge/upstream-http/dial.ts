/**
 * The way upstream: calls over kept-alive HTTP/1.1 connections. Nothing outside this folder knows which client makes them.
 */
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, Ongoing, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { destinationOf } from './connect.ts'
import type { Connection, ConnectionListener, ConnectionPool, OpenConnection } from './connection.ts'
import { type DemoOptions, demoDial } from './demo.ts'
import { Http1Connection } from './http1-connection.ts'
import { encodingOf, type Inflater, inflater } from './inflate.ts'
import type { OutgoingCall } from './outgoing-call.ts'

export type DialOptions = {
  /** Who speaks HTTP on a connection, as `lineFor` has it. Absent: our client. */
  readonly line?: OpenConnection
  /** ms an idle connection is kept for the next call, unless the upstream says otherwise. */
  readonly keepAlive?: number
  /** Idle connections kept for one origin. */
  readonly mostIdle?: number
  /** Bytes a compressed answer may hold. */
  readonly mostDecoded?: number
  /** Certificates (PEM) trusted beside the usual ones would be; given, only these are. Verification itself is never off. */
  readonly ca?: string
  readonly demo?: DemoOptions
}

export type HttpClient = 'own' | 'undici'

/** The lines of a client. Undici is loaded by who wants it: it is a fifth of what there would be to load. */
export const connectionFor = async (client: HttpClient): Promise<OpenConnection> =>
  client === 'own' ? ownLine : (await import('./undici-connection.ts')).undiciConnection

const ownLine: OpenConnection = (place, keeper) => new Http1Connection(place, keeper)

export type Dialer = {
  readonly dial: Dial
  /** Ends every call and every connection. */
  close(): Promise<void>
}

/** Makes calls upstream; `demo:` URLs are answered in the process. */
export const dialer = (options: DialOptions = {}): Dialer => {
  const { line = ownLine, keepAlive = 30_000, mostIdle = 256, mostDecoded = 64 * 1024 * 1024, ca } = options
  const roads = new Map<string, Road>()
  const origins = new Map<string, Origin>()
  const demo = demoDial(options.demo)
  let closed = false

  const originOf = (url: URL): Origin => {
    const place = destinationOf(url, ca)
    const origin =
      origins.get(url.origin) ?? new Origin((keeper) => line(place, keeper, keepAlive), { keepAlive, mostIdle })
    origins.set(url.origin, origin)
    return origin
  }
  const roadTo = (address: string): Road | null => {
    const known = roads.get(address)
    if (known) return known
    const url = URL.canParse(address) ? new URL(address) : null
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return null
    const road = { origin: originOf(url), path: url.pathname + url.search }
    // Addresses are few, save where the model's name, which clients choose, is a part of them.
    if (roads.size >= MOST_ROADS) roads.clear()
    roads.set(address, road)
    return road
  }

  const dial: Dial = (call, listener) => {
    if (call.url.startsWith('demo:')) return demo(call, listener)
    if (closed) return failedLater(listener, fail('shutdown', 'The gateway has closed its connections.', UNSENT))
    const road = roadTo(call.url)
    if (!road)
      return failedLater(listener, fail('internal', 'The address of the upstream is not an http or https URL.', UNSENT))
    return new Call(call, road, listener, mostDecoded).start()
  }

  return {
    dial,
    async close() {
      closed = true
      await Promise.all([...origins.values()].map((origin) => origin.close()))
    },
  }
}

const UNSENT = { unsent: true } as const

/** Addresses remembered as parsed. */
const MOST_ROADS = 1_000

type Road = { readonly origin: Origin; readonly path: string }

/** No listener is called before `dial` has returned. */
const failedLater = (listener: UpstreamListener, failure: Failure): Ongoing => {
  let live = true
  queueMicrotask(() => live && listener.failed(failure))
  return {
    abort() {
      live = false
    },
    resume() {},
  }
}

type OriginOptions = { readonly keepAlive: number; readonly mostIdle: number }

/** ms between two looks at which idle connections are over their time. */
const SWEEP = 1_000

/** One origin's connections. */
class Origin {
  readonly #newLine: (keeper: ConnectionPool) => Connection
  readonly #options: OriginOptions
  readonly #lines = new Set<Connection>()
  /** Newest last: the last used is the least likely to have been closed meanwhile. */
  #idle: { readonly line: Connection; readonly until: number }[] = []
  /** Whose last answer came so lately that something behind it may still be unread. */
  #unsettled: Connection[] = []
  #sweep: NodeJS.Timeout | undefined

  constructor(newLine: (keeper: ConnectionPool) => Connection, options: OriginOptions) {
    this.#newLine = newLine
    this.#options = options
  }

  /** An idle connection, or a new one. */
  take(): Connection {
    return this.#idle.pop()?.line ?? this.make()
  }

  make(): Connection {
    const line = this.#newLine(this)
    this.#lines.add(line)
    return line
  }

  rest(line: Connection, idle: number | undefined): void {
    const { keepAlive, mostIdle } = this.#options
    // A server that says how long it waits is believed, less a second for the way there.
    const ms = idle === undefined ? keepAlive : Math.min(keepAlive, idle * 1_000 - 1_000)
    if (ms <= 0) return line.drop()
    this.#idle.push({ line, until: performance.now() + ms })
    if (this.#idle.length > mostIdle) this.#idle[0]?.line.drop()
    this.#sweep ??= setInterval(() => this.#look(), SWEEP).unref()
    this.#unsettled.push(line)
    if (this.#unsettled.length === 1) setImmediate(() => this.#settle())
  }

  /** Settled when the loop has read once more what connections have; what rests from now on waits for the next time. */
  #settle(): void {
    const lines = this.#unsettled
    this.#unsettled = []
    setImmediate(() => {
      for (const line of lines) line.settled()
    })
  }

  gone(line: Connection): void {
    this.#lines.delete(line)
    const at = this.#idle.findIndex((one) => one.line === line)
    if (at !== -1) this.#idle.splice(at, 1)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all([...this.#lines].map((line) => line.close()))
  }

  #look(): void {
    const now = performance.now()
    for (const { line, until } of [...this.#idle]) if (until <= now) line.drop()
    if (this.#idle.length > 0) return
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }
}

/** One call: what a line tells, made into what the listener is promised. */
class Call implements ConnectionListener, Ongoing {
  /** Null once it is being answered: then it is never sent again. */
  #message: OutgoingCall | null
  readonly #origin: Origin
  readonly #mostDecoded: number
  readonly #once: boolean
  /** Null once it has heard the last. */
  #listener: UpstreamListener | null
  #line: Connection | null = null
  #inflater: Inflater | null = null
  #retried = false
  #sent = 0
  /** `dial` has not returned yet, and no listener is called before it has. */
  #starting = false

  constructor(call: UpstreamCall, { origin, path }: Road, listener: UpstreamListener, mostDecoded: number) {
    this.#message = { call, path }
    this.#origin = origin
    this.#listener = listener
    this.#mostDecoded = mostDecoded
    this.#once = call.once === true
  }

  start(): this {
    this.#starting = true
    this.#send(this.#once ? this.#origin.make() : this.#origin.take())
    this.#starting = false
    return this
  }

  #send(line: Connection): void {
    this.#line = line
    this.#sent = performance.now()
    if (this.#message) line.send(this.#message, this)
  }

  abort(): void {
    if (!this.#listener) return
    this.#listener = null
    this.#drop()
  }

  resume(): void {
    if (this.#inflater) this.#inflater.resume()
    else this.#line?.resume()
  }

  #drop(): void {
    this.#inflater?.stop()
    const line = this.#line
    this.#line = null
    line?.drop()
  }

  #fail(failure: Failure): void {
    if (this.#starting) return queueMicrotask(() => this.#fail(failure))
    const listener = this.#listener
    this.#listener = null
    this.#drop()
    listener?.failed(failure)
  }

  head(status: number, headers: HeaderLookup): void {
    this.#message = null
    const encoding = encodingOf(headers('content-encoding'))
    if (encoding === 'none') {
      this.#listener?.head(status, headers)
      return
    }
    if (encoding === 'unknown')
      return this.#fail(fail('malformed', 'The answer has a content-encoding nobody asked for.', { status }))
    // Asked for plain text, some servers compress all the same.
    this.#inflater = inflater(
      encoding.name,
      this.#mostDecoded,
      {
        bytes: (chunk) => this.#listener?.bytes(chunk) ?? true,
        end: () => this.#finish(),
        failed: (failure) => this.#fail(failure),
      },
      () => this.#line?.resume(),
    )
    this.#listener?.head(status, (name) => (UNDONE.has(name) ? undefined : headers(name)))
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#inflater) return this.#inflater.push(chunk)
    return this.#listener?.bytes(chunk) ?? true
  }

  end(): void {
    this.#line = null
    if (this.#inflater) this.#inflater.end()
    else this.#finish()
  }

  broke(failure: Failure, stale: boolean): void {
    this.#line = null
    if (!this.#listener) return
    // The upstream closed the connection while it lay idle, which it may do at any time, and the request crossed that
    // on the wire. Once more on a connection of its own; whether that one breaks too is for the gateway to judge.
    if (!stale || !this.#message || this.#retried || performance.now() - this.#sent > CROSSING)
      return this.#fail(failure)
    this.#retried = true
    this.#send(this.#origin.make())
  }

  #finish(): void {
    const listener = this.#listener
    this.#listener = null
    listener?.end()
  }
}

/** ms in which a request and the closing of its connection can cross; later it was read, thought about, and is paid for. */
const CROSSING = 2_000

/** What a body that has been unpacked no longer is. */
const UNDONE: ReadonlySet<string> = new Set(['content-encoding', 'content-length'])
