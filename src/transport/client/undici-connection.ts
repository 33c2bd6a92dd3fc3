/** A connection that uses undici: the alternative to the gateway's own HTTP client, and its reference in the tests. */

import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { Client, type Dispatcher } from 'undici'
import { type OutgoingBody, wholeBody } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { SpooledBody } from '../../core/form.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { StreamedBody } from '../../core/streamed-body.ts'
import { type Connecting, connectTo, type Destination } from './connect.ts'
import type { ConnectionListener, ConnectionPool, OpenConnection, UpstreamConnection } from './connection.ts'
import { callFailure } from './connection-failures.ts'
import { MAX_INTERIM } from './http-answer-reader.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** undici requires a reason; it is never read. */
const STOPPED = new Error('stopped')

const sentBody = (body: OutgoingBody): string | Uint8Array | Readable =>
  body instanceof SpooledBody ? Readable.from(copiedPieces(body), { objectMode: false }) : wholeBody(body)

/** undici may request the next piece before it has sent the last one. */
async function* copiedPieces(body: SpooledBody): AsyncGenerator<Uint8Array> {
  for await (const piece of body.pieces()) yield piece.slice()
}

type UndiciHeaders = { readonly [name: string]: string | string[] | undefined }

/** Opens connections that use undici. */
export const undiciConnection: OpenConnection = (destination, pool, keepAlive) =>
  new UndiciConnection(destination, pool, keepAlive)

class UndiciConnection implements UpstreamConnection {
  readonly #client: Client
  readonly #pool: ConnectionPool
  #call: UndiciCall | null = null
  #connecting: Connecting | null = null
  /** The connection was opened for the current call, so it cannot have been closed while idle. */
  #fresh = false
  /** The failure of the last attempt to connect. */
  #failure: Failure | null = null

  constructor(destination: Destination, pool: ConnectionPool, keepAlive: number) {
    this.#pool = pool
    this.#client = new Client(destination.origin, {
      connect: (_options, callback) => this.#connect(destination, callback),
      pipelining: 1,
      allowH2: false,
      // The gateway's timers apply; undici's do not fire while a reader is paused (nodejs/undici#5393).
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16 * 1024,
      keepAliveTimeout: keepAlive,
    })
    this.#client.on('disconnect', () => {
      // undici opens a new connection for an unsent request; without one the client is no longer needed.
      if (this.#call === null) void this.close()
    })
    // Errors without a request: unhandled, they would end the process. The cast: undici's types do not list this event.
    ;(this.#client as EventEmitter).on('error', () => {})
  }

  send({ call, path }: OutgoingCall, listener: ConnectionListener): void {
    const { method, headers, body, upload, connectTimeout, upgrade } = call
    this.#failure = null
    if (upgrade) {
      this.drop()
      return listener.broke(fail('internal', 'HTTP_CLIENT=undici opens no WebSocket.', { unsent: true }), false)
    }
    this.#call = new UndiciCall(listener, connectTimeout, {
      isFresh: () => this.#fresh,
      answered: () => {
        this.#call = null
        if (!this.#client.destroyed) this.#pool.release(this, undefined)
      },
      broke: () => {
        const failure = this.#failure
        this.drop()
        return failure
      },
    })
    const length = body instanceof SpooledBody ? body.length : (upload?.length ?? null)
    this.#client.dispatch(
      {
        path,
        method,
        headers: length === null ? headers : { ...headers, 'content-length': String(length) },
        ...(body !== undefined && { body: sentBody(body) }),
        ...(upload && { body: uploadStream(upload) }),
        // The gateway decides on retries, not undici.
        idempotent: false,
      },
      this.#call,
    )
  }

  /** No-op: undici checks the connection before it sends. */
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
    this.#pool.remove(this)
    this.#connecting?.socket.destroy()
    if (!this.#client.destroyed) await this.#client.destroy()
  }

  #connect(destination: Destination, callback: (...result: [null, Socket] | [Error, null]) => void): void {
    this.#failure = null
    const allowed = this.#call?.connectTimeout ?? 0
    this.#connecting = connectTo(destination, { allowed }, (failure, socket, error) => {
      this.#connecting = null
      this.#failure = failure
      if (error) return callback(error, null)
      // undici starts the queued request inside this callback: that request has a fresh connection.
      this.#fresh = true
      callback(null, socket)
      this.#fresh = false
    })
  }
}

type CallOwner = {
  readonly isFresh: () => boolean
  readonly answered: () => void
  /** Ends the connection. Returns the failure to connect, if there was one. */
  readonly broke: () => Failure | null
}

/** Maps undici's events of one request to a `ConnectionListener`. */
class UndiciCall implements Dispatcher.DispatchHandler {
  readonly connectTimeout: number
  readonly #owner: CallOwner
  /** Null after its last event. */
  #listener: ConnectionListener | null
  #controller: Dispatcher.DispatchController | null = null
  /** Known once undici has started the request. */
  #fresh = false
  #begun = false
  #answering = false
  #interim = 0

  constructor(listener: ConnectionListener, connectTimeout: number, owner: CallOwner) {
    this.#listener = listener
    this.connectTimeout = connectTimeout
    this.#owner = owner
  }

  resume(): void {
    this.#controller?.resume()
  }

  stop(): void {
    this.#listener = null
    this.#controller?.abort(STOPPED)
  }

  #broke(failure: Failure, stale = false): void {
    const listener = this.#listener
    this.#listener = null
    const instead = this.#owner.broke()
    listener?.broke(instead ?? failure, instead === null && stale)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    this.#fresh = this.#owner.isFresh()
    if (!this.#listener) controller.abort(STOPPED)
  }

  onResponseStarted(): void {
    this.#begun = true
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: UndiciHeaders): void {
    if (status < 200) {
      this.#interim++
      if (this.#interim > MAX_INTERIM)
        this.#broke(fail('not_http', `The upstream sent more than ${MAX_INTERIM} interim responses.`))
      return
    }
    this.#answering = true
    this.#listener?.head(status, lookup(headers))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#listener && !this.#listener.bytes(chunk)) controller.pause()
  }

  onResponseEnd(): void {
    this.#controller = null
    const listener = this.#listener
    this.#listener = null
    this.#owner.answered()
    listener?.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null
    if (this.#listener)
      this.#broke(callFailure(error, this.#answering), !this.#fresh && !this.#begun && isClosed(error))
  }
}

const lookup =
  (headers: UndiciHeaders): HeaderLookup =>
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

/** A body as a stream of Node, for undici. */
const uploadStream = (body: StreamedBody): Readable => {
  let isPiped = false
  const stream = new Readable({
    read() {
      if (isPiped) return body.resume()
      isPiped = true
      body.pipeTo({
        push: (part) => stream.push(part),
        end(failure) {
          if (failure) stream.destroy(new Error(failure.message))
          else stream.push(null)
        },
      })
    },
    destroy(error, done) {
      body.drop()
      done(error)
    },
  })
  return stream
}
