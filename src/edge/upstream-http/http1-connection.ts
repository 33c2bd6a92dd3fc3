/**
 * Our own HTTP/1.1 client: a request in one write, an answer read where the kernel put it, no object made for a chunk. It
 * speaks to configured providers only, which is why it may be ours; undici stays beside it as a switch and as its oracle
 * (every test of this folder runs on both).
 */
import type { Socket } from 'node:net'
import { type Failure, fail } from '../../core/failure.ts'
import { dropEndListeners } from '../net/end-listeners.ts'
import { joinMessage, WriteBuffer } from '../net/write-buffer.ts'
import { AnswerReader, type AnswerSink } from './answer-reader.ts'
import { connectTo, type Destination } from './connect.ts'
import type { Connection, ConnectionListener, ConnectionPool } from './connection.ts'
import { callFailure, readFailure } from './errors.ts'
import { type RequestHead, requestHead } from './heads.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** What the kernel has for any connection is read into this, and used up before the next is read. */
const READ = Buffer.allocUnsafeSlow(64 * 1024)

/** A request of so many bytes is put together and leaves in one write; of a longer one the parts leave as they are. */
const COPIED = 64 * 1024

/** For requests to plain sockets; what TLS has been given it has not sent when it returns. */
const sheet = new WriteBuffer()

const NOBODY: AnswerSink = { head() {}, bytes: () => true }

export class Http1Connection implements Connection {
  readonly #place: Destination
  readonly #keeper: ConnectionPool
  readonly #reader: AnswerReader
  #socket: Socket | null = null
  #hears: ConnectionListener | null = null
  /** A call has been answered on it. */
  #used = false
  #settled = true
  /** Given before it was connected, or had settled. */
  #waiting: { readonly head: RequestHead; readonly message: OutgoingCall } | null = null
  #error: Error | null = null
  #ended: (() => void)[] | null = null

  constructor(place: Destination, keeper: ConnectionPool) {
    this.#place = place
    this.#reader = new AnswerReader(NOBODY, place.heads)
    this.#keeper = keeper
  }

  send(message: OutgoingCall, hears: ConnectionListener): void {
    this.#hears = hears
    const head = requestHead(this.#place.heads, this.#place.authority, message)
    if (typeof head === 'string') return this.#broke(fail('internal', head, { unsent: true }))
    this.#reader.again(hears)
    if (this.#socket && this.#settled) return this.#write(head, message)
    this.#waiting = { head, message }
    if (!this.#socket) this.#connect(message.call.connectTimeout)
  }

  settled(): void {
    this.#settled = true
    // An answer may come before all of its question has gone out; what is still to go would stand before the next one.
    // Asked for only now: over TLS what has gone out is known some time after the answer may have come.
    if (this.#socket && this.#socket.writableLength > 0)
      return this.#broke(fail('reset', 'The connection still held the end of an earlier call.', { unsent: true }), true)
    this.#writeWaiting()
  }

  resume(): void {
    this.#socket?.resume()
  }

  drop(): void {
    this.#hears = null
    this.#end()
  }

  close(): Promise<void> {
    const { closed = true } = this.#socket ?? {}
    const done = closed
      ? Promise.resolve()
      : new Promise<void>((resolve) => {
          this.#ended ??= []
          this.#ended.push(resolve)
        })
    this.#broke(fail('shutdown', 'The gateway closed its connections.'))
    return done
  }

  #connect(timeout: number): void {
    const socket = connectTo(
      this.#place,
      timeout,
      (failure) => {
        if (failure) this.#broke(failure)
        else this.#writeWaiting()
      },
      { buffer: READ, callback: (length) => this.#read(length) },
    )
    this.#socket = socket
    socket.on('error', (error) => {
      this.#error = error
    })
    // Node's own keeps the socket from being written to, which is destroyed here.
    if (!this.#place.secure) dropEndListeners(socket)
    // Both come once; `once` would keep more for it.
    socket.on('end', () => this.#eof())
    socket.on('close', () => {
      this.#eof()
      for (const run of this.#ended ?? []) run()
    })
  }

  #writeWaiting(): void {
    const waiting = this.#waiting
    this.#waiting = null
    if (waiting && this.#hears) this.#write(waiting.head, waiting.message)
  }

  #write(head: RequestHead, { call: { body, source } }: OutgoingCall): void {
    const socket = this.#socket
    if (!socket) return
    if (body === undefined) return void socket.write(`${head.text}\r\n`, 'latin1')
    if (!this.#place.secure && sheet.send(socket, head.text, source?.bytes ?? body)) return
    const length = `content-length: ${source?.bytes.length ?? Buffer.byteLength(body)}\r\n\r\n`
    if (source && source.bytes.length <= COPIED) return void socket.write(joinMessage(head.text + length, source.bytes))
    if (head.isAscii && !source) return void socket.write(head.text + length + body)
    socket.cork()
    socket.write(head.text + length, 'latin1')
    socket.write(source?.bytes ?? body)
    socket.uncork()
  }

  /** Answers whether more is wanted. */
  #read(length: number): boolean {
    const hears = this.#hears
    if (!hears || this.#waiting) {
      // Nobody asked: what stands on an idle connection would be taken for the next call's answer. A call that waits to
      // be sent is none the worse for it.
      this.#broke(fail('reset', 'The connection was not clean.'), true)
      return false
    }
    const after = this.#reader.read(READ, length)
    // Whoever heard may have ended it.
    if (this.#hears !== hears) return false
    if (after === 'more') return true
    if (after === 'full') return false
    if (after === 'done') {
      this.#done(hears)
      return true
    }
    this.#broke(readFailure(after, this.#reader.answering))
    return false
  }

  #eof(): void {
    const hears = this.#hears
    if (!hears) return this.#end()
    const { begun, answering } = this.#reader
    const problem = this.#reader.end()
    if (!problem && !this.#error) return this.#done(hears)
    const failure = problem && !this.#error ? readFailure(problem, answering) : callFailure(this.#error, answering)
    this.#broke(failure, this.#used && !begun)
  }

  #done(hears: ConnectionListener): void {
    this.#hears = null
    this.#used = true
    this.#settled = false
    const { keeps, idle } = this.#reader
    if (keeps && this.#socket?.writable) this.#keeper.rest(this, idle)
    else this.#end()
    hears.end()
  }

  #broke(failure: Failure, stale = false): void {
    const hears = this.#hears
    this.#hears = null
    this.#end()
    hears?.broke(failure, stale)
  }

  #end(): void {
    this.#keeper.gone(this)
    this.#socket?.destroy()
  }
}
