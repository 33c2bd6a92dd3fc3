/**
 * An HTTP/1.1 connection for upstream calls. It sends a request in one write, parses the response in the read buffer and
 * allocates no object per chunk. undici is the alternative (`undici-connection.ts`) and the reference in the tests.
 */
import type { Socket } from 'node:net'
import { wholeBody } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { SpooledBody } from '../../core/form.ts'
import { dropEndListeners } from '../net/end-listeners.ts'
import { byteLength, joinMessage, WriteBuffer } from '../net/write-buffer.ts'
import { type Connecting, type ConnectingOptions, connectTo, type Destination, isTunnel } from './connect.ts'
import type { ConnectionListener, ConnectionPool, UpstreamConnection } from './connection.ts'
import { callFailure, readFailure } from './connection-failures.ts'
import { type OutgoingHead, requestHead } from './heads.ts'
import { type AnswerSink, HttpAnswerReader } from './http-answer-reader.ts'
import type { OutgoingCall } from './outgoing-call.ts'
import { framingOf, Upload } from './upload.ts'

/** The read buffer of all connections: its content is consumed before the next read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024)

/** Maximum bytes of a body that is copied behind its header block, for a single write. */
const MAX_COPIED = 64 * 1024

/** For plain sockets only: TLS still needs the bytes after `write` has returned. */
const writeBuffer = new WriteBuffer()

const DISCARD: AnswerSink = { head() {}, bytes: () => true }

/** Whether the socket has accepted the bytes. */
const written = (socket: Socket, bytes: Uint8Array): Promise<boolean> =>
  new Promise((resolve) => void socket.write(bytes, (error) => resolve(!error)))

/** A connection that the gateway's own HTTP client uses. */
export class Http1Connection implements UpstreamConnection {
  readonly #destination: Destination
  readonly #pool: ConnectionPool
  readonly #reader: HttpAnswerReader
  #connecting: Connecting | null = null
  /** Null until it is open. */
  #socket: Socket | null = null
  #listener: ConnectionListener | null = null
  /** A response has been received on it. */
  #used = false
  #settled = true
  /** A part of the request is not sent: no other one may follow. */
  #isSending = false
  /** A request that was passed before the connection was open, or before it had settled. */
  #unsent: { readonly head: OutgoingHead; readonly message: OutgoingCall } | null = null
  #error: Error | null = null
  /** A body on its way; null: the request is complete. */
  #upload: Upload | null = null

  constructor(destination: Destination, pool: ConnectionPool) {
    this.#destination = destination
    this.#reader = new HttpAnswerReader(DISCARD, destination.heads)
    this.#pool = pool
  }

  send(message: OutgoingCall, listener: ConnectionListener): void {
    this.#listener = listener
    const head = requestHead(this.#destination.heads, this.#destination.authority, message)
    if (typeof head === 'string') return this.#broke(fail('internal', head, { unsent: true }))
    const { upgrade, method } = message.call
    this.#reader.reset(listener, { mayUpgrade: upgrade !== undefined, isHead: method === 'HEAD' })
    if (this.#socket && this.#settled) return this.#write(head, message)
    this.#unsent = { head, message }
    if (!this.#socket) this.#connect({ allowed: message.call.connectTimeout })
  }

  settled(): void {
    this.#settled = true
    // A response may arrive before its request has been sent completely; the rest would precede the next request. Checked
    // only here: over TLS the socket reports sent bytes some time after the response may have arrived.
    if (this.#socket && this.#socket.writableLength > 0)
      return this.#broke(
        fail('reset', 'The connection had unsent bytes of an earlier request.', { unsent: true }),
        true,
      )
    this.#writeUnsent()
  }

  resume(): void {
    this.#socket?.resume()
  }

  write(bytes: Uint8Array, drained: () => void): boolean {
    const socket = this.#socket
    if (!socket?.writable || socket.write(bytes)) return true
    socket.once('drain', drained)
    return false
  }

  drop(): void {
    this.#listener = null
    this.#end()
  }

  close(): Promise<void> {
    const socket = this.#socket ?? this.#connecting?.socket
    const done =
      !socket || socket.closed
        ? Promise.resolve()
        : new Promise<void>((resolve) => void socket.once('close', () => resolve()))
    this.#broke(fail('shutdown', 'The gateway closed its connections.'))
    return done
  }

  #connect({ allowed }: Pick<ConnectingOptions, 'allowed'>): void {
    const read = { buffer: READ_BUFFER, callback: (length: number) => this.#read(READ_BUFFER, length) }
    this.#connecting = connectTo(this.#destination, { allowed, read }, (failure, socket) => {
      this.#connecting = null
      if (failure) return this.#broke(failure)
      this.#opened(socket)
      this.#writeUnsent()
    })
  }

  #opened(socket: Socket): void {
    this.#socket = socket
    // TLS on an open socket has no read buffer of its own to share.
    if (isTunnel(this.#destination))
      socket.on('data', (chunk: Buffer) => {
        if (!this.#read(chunk, chunk.length)) socket.pause()
      })
    socket.on('error', (error) => {
      this.#error = error
    })
    // Node's `end` listener would only end the writable side; this class destroys the socket.
    if (!this.#destination.secure) dropEndListeners(socket)
    // `on`: both are emitted once, and `once` would allocate a wrapper.
    socket.on('end', () => this.#eof())
    socket.on('close', () => this.#eof())
  }

  #writeUnsent(): void {
    const unsent = this.#unsent
    this.#unsent = null
    if (unsent && this.#listener) this.#write(unsent.head, unsent.message)
  }

  #write(head: OutgoingHead, { call: { body, upload } }: OutgoingCall): void {
    const socket = this.#socket
    if (!socket) return
    if (upload) {
      socket.write(head.text + framingOf(upload), 'latin1')
      this.#upload = new Upload(upload, { socket, failed: (failure) => this.#broke(failure) })
      return this.#upload.begin()
    }
    if (body instanceof SpooledBody) return void this.#sendStored(socket, head, body)
    if (body === undefined) return void socket.write(`${head.text}\r\n`, 'latin1')
    if (!this.#destination.secure && writeBuffer.send(socket, head.text, body)) return
    const length = `content-length: ${byteLength(body)}\r\n\r\n`
    const isText = typeof body === 'string'
    if (!isText && body.length <= MAX_COPIED) return void socket.write(joinMessage(head.text + length, body))
    if (head.isAscii && isText) return void socket.write(head.text + length + body)
    socket.cork()
    socket.write(head.text + length, 'latin1')
    socket.write(wholeBody(body))
    socket.uncork()
  }

  /** Sends a body that is read while it is sent. A response may end before; then the rest is not sent. */
  async #sendStored(socket: Socket, head: OutgoingHead, body: SpooledBody): Promise<void> {
    const listener = this.#listener
    this.#isSending = true
    socket.write(`${head.text}content-length: ${body.length}\r\n\r\n`, 'latin1')
    try {
      for await (const piece of body.pieces()) {
        if (this.#listener !== listener) return
        // The piece is overwritten by the next one. A broken socket reports its error to its listener too.
        if (!(await written(socket, piece))) return
      }
      this.#isSending = false
    } catch {
      if (this.#listener === listener)
        this.#broke(fail('storage', 'The form in progress cannot be read from the disk.'))
    }
  }

  /** Returns whether the socket should continue to read. */
  #read(bytes: Buffer, length: number): boolean {
    const listener = this.#listener
    if (!listener || this.#unsent) {
      // Unrequested bytes on an idle connection would be read as the next response. An unsent request can be retried.
      this.#broke(fail('reset', 'The upstream sent bytes without a request.'), true)
      return false
    }
    const progress = this.#reader.read(bytes, length)
    // The listener may have dropped the connection.
    if (this.#listener !== listener) return false
    if (progress === 'more') return true
    if (progress === 'full') return false
    if (progress === 'done') {
      this.#done(listener)
      return true
    }
    this.#broke(readFailure(progress, this.#reader.answering))
    return false
  }

  #eof(): void {
    const listener = this.#listener
    if (!listener) return this.#end()
    const { begun, answering } = this.#reader
    const problem = this.#reader.end()
    if (!problem && !this.#error) return this.#done(listener)
    const failure = problem && !this.#error ? readFailure(problem, answering) : callFailure(this.#error, answering)
    this.#broke(failure, this.#used && !begun)
  }

  #done(listener: ConnectionListener): void {
    this.#listener = null
    this.#used = true
    this.#settled = false
    const { reusable, idleTimeout } = this.#reader
    // The response may be complete before the request is.
    const isSent = !this.#isSending && (this.#upload === null || this.#upload.isOver)
    if (reusable && isSent && this.#socket?.writable) {
      this.#upload = null
      this.#pool.release(this, idleTimeout)
    } else this.#end()
    listener.end()
  }

  #broke(failure: Failure, stale = false): void {
    const listener = this.#listener
    this.#listener = null
    this.#end()
    listener?.broke(failure, stale)
  }

  #end(): void {
    const upload = this.#upload
    this.#upload = null
    upload?.stop()
    this.#pool.remove(this)
    const socket = this.#socket ?? this.#connecting?.socket
    socket?.destroy()
  }
}
