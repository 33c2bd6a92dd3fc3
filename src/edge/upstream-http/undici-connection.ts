/** A connection with undici's client on it: the switch for when ours is not trusted, and what ours is compared with. */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { MOST_INTERIM } from './answer-reader.ts'
import { connectTo, type Destination } from './connect.ts'
import type { Connection, ConnectionListener, ConnectionPool, OpenConnection } from './connection.ts'
import { callFailure } from './errors.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** Nobody reads it; undici wants a reason. */
const STOPPED = new Error('stopped')

type Headers = { readonly [name: string]: string | string[] | undefined }

export const undiciConnection: OpenConnection = (place, keeper, keepAlive) => new UndiciLine(place, keeper, keepAlive)

class UndiciLine implements Connection {
  readonly #client: Client
  readonly #keeper: ConnectionPool
  #call: UndiciCall | null = null
  #connecting: Socket | null = null
  /** Its connection was made for the present call: nobody can have closed it while it lay idle. */
  #fresh = false
  /** Why it could not connect. */
  #failure: Failure | null = null

  constructor(place: Destination, keeper: ConnectionPool, keepAlive: number) {
    this.#keeper = keeper
    this.#client = new Client(place.origin, {
      connect: (_options, callback) => this.#connect(place, callback),
      pipelining: 1,
      allowH2: false,
      // Our own timers watch a call; theirs do not fire while a reader is paused (nodejs/undici#5393).
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16 * 1024,
      keepAliveTimeout: keepAlive,
    })
    this.#client.on('disconnect', () => {
      // In use, it makes itself a new connection for what has not been sent; idle, it is done.
      if (this.#call === null) void this.close()
    })
    // Whatever undici cannot tell a request it says here; unheard, it would end the process.
    // (An event its types do not list, hence the cast to what it also is.)
    ;(this.#client as EventEmitter).on('error', () => {})
  }

  send({ call, path }: OutgoingCall, hears: ConnectionListener): void {
    const { method, headers, body, source, connectTimeout } = call
    this.#failure = null
    this.#call = new UndiciCall(hears, connectTimeout, {
      isFresh: () => this.#fresh,
      answered: () => {
        this.#call = null
        if (!this.#client.destroyed) this.#keeper.rest(this, undefined)
      },
      broke: () => {
        const failure = this.#failure
        this.drop()
        return failure
      },
    })
    this.#client.dispatch(
      {
        path,
        method,
        headers,
        ...(body !== undefined && { body: source?.bytes ?? body }),
        // A POST is not sent twice by undici of its own accord; when it may be is decided elsewhere.
        idempotent: false,
      },
      this.#call,
    )
  }

  /** It looks for itself before it sends. */
  settled(): void {}

  resume(): void {
    this.#call?.resume()
  }

  drop(): void {
    this.#call?.stop()
    this.#call = null
    void this.close()
  }

  async close(): Promise<void> {
    this.#keeper.gone(this)
    this.#connecting?.destroy()
    if (!this.#client.destroyed) await this.#client.destroy()
  }

  #connect(place: Destination, callback: (...result: [null, Socket] | [Error, null]) => void): void {
    this.#failure = null
    const socket = connectTo(place, this.#call?.connectTimeout ?? 0, (failure, error) => {
      this.#connecting = null
      this.#failure = failure
      if (error) return callback(error, null)
      // undici starts the waiting request inside this callback: that request has a fresh connection.
      this.#fresh = true
      callback(null, socket)
      this.#fresh = false
    })
    this.#connecting = socket
  }
}

type Owner = {
  readonly isFresh: () => boolean
  readonly answered: () => void
  /** Ends the line; answers why it could not connect, if that was it. */
  readonly broke: () => Failure | null
}

/** What undici tells of one request, made into what a call hears. */
class UndiciCall implements Dispatcher.DispatchHandler {
  readonly connectTimeout: number
  readonly #owner: Owner
  /** Null once it has heard the last. */
  #hears: ConnectionListener | null
  #controller: Dispatcher.DispatchController | null = null
  /** Until it has been started it cannot be told from one that a dead connection took. */
  #fresh = false
  #begun = false
  #answering = false
  #interim = 0

  constructor(hears: ConnectionListener, connectTimeout: number, owner: Owner) {
    this.#hears = hears
    this.connectTimeout = connectTimeout
    this.#owner = owner
  }

  resume(): void {
    this.#controller?.resume()
  }

  stop(): void {
    this.#hears = null
    this.#controller?.abort(STOPPED)
  }

  #broke(failure: Failure, stale = false): void {
    const hears = this.#hears
    this.#hears = null
    const instead = this.#owner.broke()
    hears?.broke(instead ?? failure, instead === null && stale)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    this.#fresh = this.#owner.isFresh()
    if (!this.#hears) controller.abort(STOPPED)
  }

  onResponseStarted(): void {
    this.#begun = true
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      this.#interim++
      if (this.#interim > MOST_INTERIM) this.#broke(fail('not_http', 'Only interim answers came.'))
      return
    }
    this.#answering = true
    this.#hears?.head(status, lookup(headers))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#hears && !this.#hears.bytes(chunk)) controller.pause()
  }

  onResponseEnd(): void {
    this.#controller = null
    const hears = this.#hears
    this.#hears = null
    this.#owner.answered()
    hears?.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null
    if (this.#hears) this.#broke(callFailure(error, this.#answering), !this.#fresh && !this.#begun && isClosed(error))
  }
}

const lookup =
  (headers: Headers): HeaderLookup =>
  (name) => {
    if (!Object.hasOwn(headers, name)) return undefined
    const value = headers[name]
    return Array.isArray(value) ? value.join(', ') : value
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
