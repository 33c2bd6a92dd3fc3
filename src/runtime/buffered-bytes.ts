/**
 * Counts and limits the bytes of responses that are buffered whole. Large responses share memory by client: above its share,
 * a client's later responses pause until its earlier ones have been delivered, so that other clients keep their share. Bytes
 * read per turn of the event loop are limited too, and large responses complete (parse, translate, write) one at a time.
 */
import type { Failure } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import { PIECE } from '../core/steps.ts'
import type { Dial, OngoingCall, UpstreamListener, World } from '../core/world.ts'
import { shedFailure } from '../policy/health/shed.ts'
import type { HeldBytes } from './load.ts'

/** Media types of streams, which are not buffered unless the caller collects them. */
const STREAM_TYPE = /event-stream|eventstream|ndjson/i

/** Responses up to this size (bytes) are read without limits. */
const LARGE = 64 * 1024

/** Responses up to this size (bytes) are never aborted. */
const SMALL = 1_048_576

/** Maximum bytes of large responses read in one turn of the event loop: a few ms of work. */
const PER_TURN = 2 * 1_048_576

/** Maximum parts of the limit: for one client's large responses with its unread bytes, and for all large responses. */
const SHARE = { client: 1 / 4, all: 1 / 2 }

/** ms between checks of paused responses: whether their clients still read. */
const CHECK_INTERVAL = 500

/** Options of `withByteAccounting`. */
export type ByteAccountingOptions = {
  readonly held: HeldBytes
  /** Limit of buffered bytes. */
  readonly limit: () => number
  readonly turn: World['turn']
  /** Schedules a function for the next turn of the event loop. Default: `setImmediate`. */
  readonly nextTurn?: (run: () => void) => void
}

/** Wraps a dialer: its calls count and limit buffered response bytes. */
export const withByteAccounting = (dial: Dial, options: ByteAccountingOptions): Dial => {
  const answers = new LargeAnswers(options)
  return (call, listener) => new CountedCall(dial, call, listener, { ...options, answers })
}

/** All large responses in memory. Decides which of them may be read. */
class LargeAnswers {
  readonly #held: HeldBytes
  readonly #limit: () => number
  readonly #nextTurn: (run: () => void) => void
  /** Bytes of each large response; the response that became large first comes first. */
  readonly #bytes = new Map<CountedCall, number>()
  readonly #byClient = new Map<string, number>()
  readonly #paused = new Set<CountedCall>()
  #total = 0
  /** Bytes read in the current turn of the event loop. */
  #turnBytes = 0
  #checkScheduled = false
  #timer: NodeJS.Timeout | undefined

  constructor({ held, limit, nextTurn = (run) => void setImmediate(run) }: ByteAccountingOptions) {
    this.#held = held
    this.#limit = limit
    this.#nextTurn = nextTurn
    held.onRead(() => this.#checkSoon())
  }

  /** Counts bytes read of a response. Returns false to pause it until `continueReading` is called on it. */
  read(call: CountedCall, bytes: number): boolean {
    this.#count(call, bytes)
    this.#turnBytes += bytes
    this.#checkSoon()
    if (this.#mayRead(call)) return true
    this.#paused.add(call)
    this.#timer ??= setInterval(() => this.#checkSoon(), CHECK_INTERVAL).unref()
    return false
  }

  /** The response has been read completely, but is still in memory. */
  complete(call: CountedCall): void {
    this.#paused.delete(call)
  }

  /** The response is no longer in memory. */
  remove(call: CountedCall): void {
    this.#paused.delete(call)
    this.#count(call, -(this.#bytes.get(call) ?? 0))
    this.#bytes.delete(call)
    this.#checkSoon()
  }

  #count(call: CountedCall, by: number): void {
    this.#bytes.set(call, (this.#bytes.get(call) ?? 0) + by)
    const sum = (this.#byClient.get(call.client) ?? 0) + by
    if (sum > 0) this.#byClient.set(call.client, sum)
    else this.#byClient.delete(call.client)
    this.#total += by
  }

  #mayRead(call: CountedCall): boolean {
    if (this.#turnBytes > PER_TURN) return false
    const { client } = call
    const limit = this.#limit()
    const share = limit * SHARE.client
    const unreadBy = (name: string): number => this.#held.beingRead(name)
    const unread = unreadBy(client)
    if (unread > share) return false
    // At least one response is always read to its end.
    if (this.#total > limit * SHARE.all) return this.#isFirst(call, (other) => unreadBy(other.client) <= share)
    const isOver = (this.#byClient.get(client) ?? 0) + unread > share
    return !isOver || this.#isFirst(call, (other) => other.client === client)
  }

  #isFirst(call: CountedCall, among: (other: CountedCall) => boolean): boolean {
    for (const other of this.#bytes.keys()) if (among(other)) return other === call
    return false
  }

  #checkSoon(): void {
    if (this.#checkScheduled) return
    this.#checkScheduled = true
    this.#nextTurn(() => {
      this.#checkScheduled = false
      this.#turnBytes = 0
      this.#check()
    })
  }

  #check(): void {
    if (this.#paused.size === 0) return
    for (const call of [...this.#bytes.keys()]) {
      if (!this.#paused.has(call) || !this.#mayRead(call)) continue
      this.#paused.delete(call)
      call.continueReading()
    }
    if (this.#paused.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

type Accounting = ByteAccountingOptions & { readonly answers: LargeAnswers }

/** A call whose response bytes are counted. */
class CountedCall implements UpstreamListener, OngoingCall {
  readonly client: string
  readonly #listener: UpstreamListener
  readonly #accounting: Accounting
  readonly #collected: boolean
  readonly #passed: boolean
  readonly #ongoing: OngoingCall
  #isStream = false
  #held = 0
  #done = false
  /** Registered with `LargeAnswers`. */
  #large = false
  /** Paused by `LargeAnswers`. */
  #paused = false
  /** Paused by the listener. */
  #full = false

  constructor(dial: Dial, call: Parameters<Dial>[0], listener: UpstreamListener, accounting: Accounting) {
    this.client = call.client ?? ''
    this.#listener = listener
    this.#accounting = accounting
    this.#collected = call.buffered === true
    this.#passed = call.passed === true
    // `dial` does not call its listener before it has returned.
    this.#ongoing = dial(call, this)
  }

  onHeaders(status: number, headers: HeaderLookup): void {
    const isPassed = this.#passed || status === 101
    this.#isStream = isPassed || (!this.#collected && STREAM_TYPE.test(headers('content-type') ?? ''))
    this.#listener.onHeaders(status, headers)
  }

  onBody(chunk: Uint8Array): boolean {
    if (this.#done) return true
    if (this.#isStream) return this.#listener.onBody(chunk)
    const { held, limit, answers } = this.#accounting
    this.#held += chunk.length
    held.change(chunk.length)
    if (this.#held > SMALL && held.bytes() > 2 * limit()) {
      this.#release()
      this.#ongoing.abort()
      this.#listener.onFailure(shedFailure('buffered'))
      return true
    }
    const accepts = this.#listener.onBody(chunk)
    this.#full = !accepts
    // Responses that are not collected may wait for a slow client; others must not wait for them.
    if (this.#done || !this.#collected || this.#held <= LARGE) return accepts
    const more = this.#large ? chunk.length : this.#held
    this.#large = true
    if (answers.read(this, more)) return accepts
    this.#paused = true
    this.#listener.onPaused?.(true)
    return false
  }

  /** Resumes a response that `LargeAnswers` has paused. */
  continueReading(): void {
    this.#paused = false
    this.#listener.onPaused?.(false)
    if (!this.#full) this.#ongoing.resume()
  }

  onEnd(): void {
    if (this.#done) return
    const end = () => {
      // It may have been aborted in the meantime.
      if (this.#done) return
      this.#release()
      this.#listener.onEnd()
    }
    // Parsing a whole response is one piece of work, bounded only by its maximum size.
    if (this.#held <= PIECE) return end()
    this.#accounting.answers.complete(this)
    this.#listener.onPaused?.(true)
    this.#accounting.turn(end)
  }

  onFailure(failure: Failure): void {
    if (this.#done) return
    this.#release()
    this.#listener.onFailure(failure)
  }

  abort(): void {
    this.#release()
    this.#ongoing.abort()
  }

  resume(): void {
    this.#full = false
    if (!this.#paused) this.#ongoing.resume()
  }

  write(bytes: Uint8Array, drained: () => void): boolean {
    return this.#ongoing.write?.(bytes, drained) ?? true
  }

  #release(): void {
    this.#done = true
    if (this.#large) this.#accounting.answers.remove(this)
    this.#large = false
    this.#accounting.held.change(-this.#held)
    this.#held = 0
  }
}
