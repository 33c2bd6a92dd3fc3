/**
 * Counts whole answers while they are in memory and limits them. The large ones share memory by client: beyond its share
 * a client's later answers are not read further until its earlier ones have been delivered, so that memory stays bounded
 * and other clients keep theirs. How much is read in one turn of the event loop is limited too, and large answers are
 * ended (parsed, translated, written) one at a time.
 */
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { PIECE } from '../../core/steps.ts'
import type { Dial, Ongoing, UpstreamListener, World } from '../../core/world.ts'
import { turnedAway } from '../../policy/health/shed.ts'
import type { HeldBytes } from '../process/load.ts'

/** What flows on as it comes is not held, unless all of it is collected. */
const FLOWS = /event-stream|eventstream|ndjson/i

/** Answers of up to so many bytes are read whatever is held. */
const LARGE = 64 * 1024

/** Answers of so few bytes are not aborted, however much is held for others. */
const SMALL = 1_048_576

/** Bytes of large answers that are read in one turn of the event loop: a few ms. */
const PER_TURN = 2 * 1_048_576

/** Parts of the limit that the large answers of one client may take together with what it has not read, and those of all. */
const SHARE = { client: 1 / 4, all: 1 / 2 }

/** ms after which it is looked again whether a client still reads its answers. */
const LOOK = 500

export type HoldingOptions = {
  readonly held: HeldBytes
  /** The limit, in bytes. */
  readonly most: () => number
  readonly turn: World['turn']
  /** Runs in the next turn of the event loop. */
  readonly nextTurn?: (run: () => void) => void
}

export const withByteAccounting = (dial: Dial, options: HoldingOptions): Dial => {
  const answers = new LargeAnswers(options)
  return (call, listener) => new CountedCall(dial, call, listener, { ...options, answers })
}

/** The large answers in memory. */
class LargeAnswers {
  readonly #held: HeldBytes
  readonly #most: () => number
  readonly #nextTurn: (run: () => void) => void
  /** In the order in which they became large. */
  readonly #bytes = new Map<CountedCall, number>()
  readonly #byClient = new Map<string, number>()
  /** Those that are not read at present. */
  readonly #stopped = new Set<CountedCall>()
  #total = 0
  /** Bytes read in this turn of the event loop. */
  #turn = 0
  #armed = false
  #timer: NodeJS.Timeout | undefined

  constructor({ held, most, nextTurn = (run) => void setImmediate(run) }: HoldingOptions) {
    this.#held = held
    this.#most = most
    this.#nextTurn = nextTurn
    held.onRead(() => this.#lookSoon())
  }

  /** Counts bytes read of an answer. False: it is not to be read further until `readOn` is called on it. */
  read(call: CountedCall, bytes: number): boolean {
    this.#count(call, bytes)
    this.#turn += bytes
    this.#lookSoon()
    if (this.#mayRead(call)) return true
    this.#stopped.add(call)
    this.#timer ??= setInterval(() => this.#lookSoon(), LOOK).unref()
    return false
  }

  /** It has come to its end, and still takes memory. */
  complete(call: CountedCall): void {
    this.#stopped.delete(call)
  }

  leave(call: CountedCall): void {
    this.#stopped.delete(call)
    this.#count(call, -(this.#bytes.get(call) ?? 0))
    this.#bytes.delete(call)
    this.#lookSoon()
  }

  #count(call: CountedCall, by: number): void {
    this.#bytes.set(call, (this.#bytes.get(call) ?? 0) + by)
    const sum = (this.#byClient.get(call.client) ?? 0) + by
    if (sum > 0) this.#byClient.set(call.client, sum)
    else this.#byClient.delete(call.client)
    this.#total += by
  }

  #mayRead(call: CountedCall): boolean {
    if (this.#turn > PER_TURN) return false
    const { client } = call
    const most = this.#most()
    const share = most * SHARE.client
    const unreadBy = (one: string): number => this.#held.beingRead(one)
    const unread = unreadBy(client)
    if (unread > share) return false
    // One at least is always read to its end; the others wait for it.
    if (this.#total > most * SHARE.all) return this.#isFirst(call, (other) => unreadBy(other.client) <= share)
    const isOver = (this.#byClient.get(client) ?? 0) + unread > share
    return !isOver || this.#isFirst(call, (other) => other.client === client)
  }

  #isFirst(call: CountedCall, among: (other: CountedCall) => boolean): boolean {
    for (const other of this.#bytes.keys()) if (among(other)) return other === call
    return false
  }

  #lookSoon(): void {
    if (this.#armed) return
    this.#armed = true
    this.#nextTurn(() => {
      this.#armed = false
      this.#turn = 0
      this.#look()
    })
  }

  #look(): void {
    if (this.#stopped.size === 0) return
    for (const call of [...this.#bytes.keys()]) {
      if (!this.#stopped.has(call) || !this.#mayRead(call)) continue
      this.#stopped.delete(call)
      call.readOn()
    }
    if (this.#stopped.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

type Count = HoldingOptions & { readonly answers: LargeAnswers }

class CountedCall implements UpstreamListener, Ongoing {
  readonly client: string
  readonly #listener: UpstreamListener
  readonly #count: Count
  readonly #collected: boolean
  readonly #ongoing: Ongoing
  #flows = false
  #held = 0
  #over = false
  /** It is one of the large answers. */
  #large = false
  /** Not read for the sake of memory or time. */
  #stopped = false
  /** Not read since the listener has no room. */
  #full = false

  constructor(dial: Dial, call: Parameters<Dial>[0], listener: UpstreamListener, count: Count) {
    this.client = call.client ?? ''
    this.#listener = listener
    this.#count = count
    this.#collected = call.collected === true
    // No listener is called before this has returned.
    this.#ongoing = dial(call, this)
  }

  head(status: number, headers: HeaderLookup): void {
    this.#flows = !this.#collected && FLOWS.test(headers('content-type') ?? '')
    this.#listener.head(status, headers)
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#over) return true
    if (this.#flows) return this.#listener.bytes(chunk)
    const { held, most, answers } = this.#count
    this.#held += chunk.length
    held.change(chunk.length)
    if (this.#held > SMALL && held.bytes() > 2 * most()) {
      this.#release()
      this.#ongoing.abort()
      this.#listener.failed(turnedAway('buffered'))
      return true
    }
    const room = this.#listener.bytes(chunk)
    this.#full = !room
    // Answers that are not collected may wait for a slow client: others must not wait for them.
    if (this.#over || !this.#collected || this.#held <= LARGE) return room
    const more = this.#large ? chunk.length : this.#held
    this.#large = true
    if (answers.read(this, more)) return room
    this.#stopped = true
    this.#listener.waits?.(true)
    return false
  }

  /** It is its turn again. */
  readOn(): void {
    this.#stopped = false
    this.#listener.waits?.(false)
    if (!this.#full) this.#ongoing.resume()
  }

  end(): void {
    if (this.#over) return
    const end = () => {
      // It may have been aborted meanwhile.
      if (this.#over) return
      this.#release()
      this.#listener.end()
    }
    // What is parsed at its end is one piece of work, bounded only by the largest answer.
    if (this.#held <= PIECE) return end()
    this.#count.answers.complete(this)
    this.#listener.waits?.(true)
    this.#count.turn(end)
  }

  failed(failure: Failure): void {
    if (this.#over) return
    this.#release()
    this.#listener.failed(failure)
  }

  abort(): void {
    this.#release()
    this.#ongoing.abort()
  }

  resume(): void {
    this.#full = false
    if (!this.#stopped) this.#ongoing.resume()
  }

  #release(): void {
    this.#over = true
    if (this.#large) this.#count.answers.leave(this)
    this.#large = false
    this.#count.held.change(-this.#held)
    this.#held = 0
  }
}
