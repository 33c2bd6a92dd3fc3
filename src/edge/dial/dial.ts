/**
 * The way upstream: calls over kept-alive HTTP/1.1 connections. Nothing outside this folder knows which client makes them.
 */
import type { EventEmitter } from 'node:events'
import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { connect as connectSecure } from 'node:tls'
import { Client, type Dispatcher } from 'undici'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/protocol.ts'
import type { Dial, Ongoing, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { type DemoOptions, demoDial } from './demo.ts'
import { callFailure, connectFailure, connectTimedOut } from './failures.ts'
import { encodingOf, type Inflater, inflater } from './inflate.ts'

export type DialOptions = {
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

export type Dialer = {
  readonly dial: Dial
  /** Ends every call and every connection. */
  close(): Promise<void>
}

/** Idle connections by origin, newest last: the last used is the least likely to have been closed meanwhile. */
type Origin = {
  readonly url: string
  readonly secure: boolean
  readonly idle: Line[]
  /** The last TLS session, to be resumed. */
  session?: Buffer
}

type Settled = Required<Omit<DialOptions, 'ca' | 'demo'>> & Pick<DialOptions, 'ca'>

/** Makes calls upstream; `demo:` URLs are answered in the process. */
export const dialer = (options: DialOptions = {}): Dialer => {
  const settled: Settled = {
    keepAlive: 30_000,
    mostIdle: 256,
    mostDecoded: 64 * 1024 * 1024,
    ...options,
  }
  const origins = new Map<string, Origin>()
  const lines = new Set<Line>()
  const demo = demoDial(options.demo)
  let closed = false

  const originOf = (url: URL): Origin => {
    let origin = origins.get(url.origin)
    if (!origin) {
      origin = { url: url.origin, secure: url.protocol === 'https:', idle: [] }
      origins.set(url.origin, origin)
    }
    return origin
  }

  const dial: Dial = (call, listener) => {
    if (call.url.startsWith('demo:')) return demo(call, listener)
    const url = URL.canParse(call.url) ? new URL(call.url) : undefined
    const problem = closed
      ? fail('shutdown', 'The gateway has closed its connections.', { unsent: true })
      : url && (url.protocol === 'http:' || url.protocol === 'https:')
        ? undefined
        : fail('internal', 'The address of the upstream is not an http or https URL.', { unsent: true })
    if (problem || !url) return failedLater(listener, problem ?? fail('internal', 'The upstream has no address.'))
    return new Call(call, url, originOf(url), listener, settled, lines).start()
  }

  return {
    dial,
    async close() {
      closed = true
      await Promise.all([...lines].map((line) => line.close()))
    },
  }
}

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

/** One connection, used by one call at a time, with undici's parser on it. */
class Line {
  /** Set while a call uses it. */
  call: Call | null = null
  /** Its connection was made for the present call: nobody can have closed it while it lay idle. */
  fresh = false
  /** Why it could not connect. */
  failure: Failure | null = null
  readonly client: Client
  private readonly origin: Origin
  private readonly settled: Settled
  private readonly lines: Set<Line>
  private connecting: Socket | null = null

  constructor(origin: Origin, settled: Settled, lines: Set<Line>) {
    this.origin = origin
    this.settled = settled
    this.lines = lines
    this.client = new Client(origin.url, {
      connect: (options, callback) => this.connect(options, callback),
      pipelining: 1,
      allowH2: false,
      // Our own timers watch a call; theirs do not fire while a reader is paused (nodejs/undici#5393).
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16 * 1024,
      keepAliveTimeout: settled.keepAlive,
    })
    lines.add(this)
    this.client.on('disconnect', () => {
      // In use, it makes itself a new connection for what has not been sent; idle, it is done.
      if (this.call === null) void this.close()
    })
    // Whatever undici cannot tell a request it says here; unheard, it would end the process.
    // (An event its types do not list, hence the cast to what it also is.)
    ;(this.client as EventEmitter).on('error', () => {})
  }

  /** Ready for the next call. */
  release(): void {
    this.call = null
    if (this.client.destroyed) return
    this.origin.idle.push(this)
    if (this.origin.idle.length > this.settled.mostIdle) void this.origin.idle[0]?.close()
  }

  async close(): Promise<void> {
    this.lines.delete(this)
    const at = this.origin.idle.indexOf(this)
    if (at !== -1) this.origin.idle.splice(at, 1)
    this.connecting?.destroy()
    if (!this.client.destroyed) await this.client.destroy()
  }

  private connect(
    { hostname, port }: { hostname: string; port: string },
    callback: (...result: [null, Socket] | [Error, null]) => void,
  ): void {
    const { origin, settled } = this
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
    const allowed = this.call?.connectTimeout ?? 0
    const socket = origin.secure
      ? connectSecure({
          host,
          port: Number(port || 443),
          ...(isIP(host) === 0 && { servername: host }),
          ALPNProtocols: ['http/1.1'],
          // Said, so that NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment cannot turn it off.
          rejectUnauthorized: true,
          ...(origin.session && { session: origin.session }),
          ...(settled.ca !== undefined && { ca: settled.ca }),
        })
      : connectPlain({ host, port: Number(port || 80) })
    this.connecting = socket
    this.failure = null
    const timer =
      allowed > 0 &&
      setTimeout(() => {
        finish(connectTimedOut(allowed), new Error('connect timeout'))
        socket.destroy()
      }, allowed)
    let open = true
    const finish = (failure: Failure | null, error?: Error) => {
      if (!open) return
      open = false
      if (timer) clearTimeout(timer)
      this.connecting = null
      this.failure = failure
      if (error) callback(error, null)
      else {
        // undici starts the waiting request inside this callback: that request has a fresh connection.
        this.fresh = true
        callback(null, socket)
        this.fresh = false
      }
    }
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    socket.once(origin.secure ? 'secureConnect' : 'connect', () => finish(null))
    socket.on('error', (error) => finish(connectFailure(error), error))
    socket.once('close', () => {
      const error = Object.assign(new Error('closed while connecting'), { code: 'ECONNRESET' })
      finish(connectFailure(error), error)
    })
    if (origin.secure)
      socket.on('session', (session: Buffer) => {
        origin.session = session
      })
  }
}

/** Nobody reads it; undici wants a reason. */
const STOPPED = new Error('stopped')

/** A server that keeps sending interim answers never gets to the real one. */
const MOST_INTERIM = 8

type Headers = { readonly [name: string]: string | string[] | undefined }

const lookup =
  (headers: Headers, hidden: readonly string[] = []): HeaderLookup =>
  (name) => {
    if (!Object.hasOwn(headers, name) || hidden.includes(name)) return undefined
    const value = headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

/** One call: what undici tells, made into what the listener is promised. */
class Call implements Dispatcher.DispatchHandler, Ongoing {
  readonly connectTimeout: number
  private readonly call: UpstreamCall
  private readonly url: URL
  private readonly origin: Origin
  private readonly settled: Settled
  private readonly lines: Set<Line>
  /** Null once it has heard the last. */
  private listener: UpstreamListener | null
  private line: Line | null = null
  private controller: Dispatcher.DispatchController | null = null
  private inflater: Inflater | null = null
  private fresh = false
  private retried = false
  /** `dial` has not returned yet, and no listener is called before it has. */
  private starting = false
  /** A byte of the answer has come. */
  private begun = false
  private answering = false
  private interim = 0

  constructor(
    call: UpstreamCall,
    url: URL,
    origin: Origin,
    listener: UpstreamListener,
    settled: Settled,
    lines: Set<Line>,
  ) {
    this.call = call
    this.url = url
    this.origin = origin
    this.listener = listener
    this.settled = settled
    this.lines = lines
    this.connectTimeout = call.connectTimeout
  }

  start(): this {
    this.starting = true
    this.send(this.origin.idle.pop() ?? new Line(this.origin, this.settled, this.lines))
    this.starting = false
    return this
  }

  private send(line: Line): void {
    const { method, headers, body } = this.call
    this.line = line
    line.call = this
    line.failure = null
    line.client.dispatch(
      {
        path: this.url.pathname + this.url.search,
        method,
        headers,
        ...(body !== undefined && { body }),
        // A POST is not sent twice by undici of its own accord; when it may be is decided below.
        idempotent: false,
      },
      this,
    )
  }

  abort(): void {
    if (!this.listener) return
    this.listener = null
    this.drop()
  }

  resume(): void {
    if (this.inflater) this.inflater.resume()
    else this.controller?.resume()
  }

  /** Ends the connection, which is in an unknown state. */
  private drop(): void {
    this.inflater?.stop()
    const line = this.line
    this.line = null
    this.controller?.abort(STOPPED)
    if (line) {
      line.call = null
      void line.close()
    }
  }

  private fail(failure: Failure): void {
    if (this.starting) {
      queueMicrotask(() => this.fail(failure))
      return
    }
    const listener = this.listener
    this.listener = null
    this.drop()
    listener?.failed(failure)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    this.fresh = this.line?.fresh ?? true
    if (!this.listener) controller.abort(STOPPED)
  }

  onResponseStarted(): void {
    this.begun = true
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (!this.listener) return
    if (status < 200) {
      this.interim++
      if (this.interim > MOST_INTERIM) this.fail(fail('not_http', 'Only interim answers came.'))
      return
    }
    this.answering = true
    const encoding = encodingOf(lookup(headers)('content-encoding'))
    if (encoding === 'none') {
      this.listener.head(status, lookup(headers))
      return
    }
    if (encoding === 'unknown') {
      this.fail(fail('malformed', 'The answer has a content-encoding nobody asked for.', { status }))
      return
    }
    // Asked for plain text, some servers compress all the same.
    this.inflater = inflater(
      encoding.name,
      this.settled.mostDecoded,
      {
        bytes: (chunk) => this.listener?.bytes(chunk) ?? true,
        end: () => {
          const listener = this.listener
          this.listener = null
          listener?.end()
        },
        failed: (failure) => this.fail(failure),
      },
      () => this.controller?.resume(),
    )
    this.listener.head(status, lookup(headers, ['content-encoding', 'content-length']))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.inflater) {
      if (!this.inflater.push(chunk)) controller.pause()
    } else if (this.listener && !this.listener.bytes(chunk)) controller.pause()
  }

  onResponseEnd(): void {
    this.controller = null
    const line = this.line
    this.line = null
    line?.release()
    if (this.inflater) {
      this.inflater.end()
      return
    }
    const listener = this.listener
    this.listener = null
    listener?.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const line = this.line
    this.line = null
    if (line) {
      line.call = null
      void line.close()
    }
    if (!this.listener) return
    if (line?.failure) {
      this.fail(line.failure)
      return
    }
    // The upstream closed the connection while it lay idle, which it may do at any time, and the request crossed that
    // on the wire. Once more on a connection of its own; whether that one breaks too is for the gateway to judge.
    const stale = !this.fresh && !this.begun && isClosed(error)
    if (stale && !this.retried) {
      this.retried = true
      this.controller = null
      this.send(new Line(this.origin, this.settled, this.lines))
      return
    }
    this.controller = null
    this.fail(callFailure(error, this.answering))
  }
}

const isClosed = (error: Error): boolean => {
  const { code } = error as NodeJS.ErrnoException
  return (
    code === 'ECONNRESET' ||
    code === 'EPIPE' ||
    code === 'ETIMEDOUT' ||
    (code === 'UND_ERR_SOCKET' && !error.message.startsWith('bad '))
  )
}
