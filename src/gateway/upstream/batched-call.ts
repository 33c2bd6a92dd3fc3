/**
 * Sends one request as several calls and joins their JSON answers to one list, in the order of the parts. The attempt sees
 * one call: the first part that fails is its answer, and ends the others.
 */
import { type EncodedText, outgoingBody } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, OngoingCall, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { MAX_WHOLE } from './body-reader.ts'

/** Calls in flight at once. */
export const PARTS_IN_FLIGHT = 4

/** A `dial` that sends these bodies instead of the body of the call. */
export const batchedDial =
  (dial: Dial, bodies: readonly EncodedText[]): Dial =>
  (call, listener) =>
    new BatchedCall({ dial, bodies, call, listener })

type Batch = {
  readonly dial: Dial
  readonly bodies: readonly EncodedText[]
  readonly call: UpstreamCall
  readonly listener: UpstreamListener
}

class BatchedCall implements OngoingCall {
  readonly #batch: Batch
  readonly #ongoing = new Map<number, OngoingCall>()
  readonly #answers: Uint8Array[][]
  #next = 0
  #left: number
  #size = 0
  #isOver = false
  /** Headers of the part that ended last: its rate limits are the newest. */
  #headers: HeaderLookup = () => undefined

  constructor(batch: Batch) {
    this.#batch = batch
    this.#left = batch.bodies.length
    this.#answers = batch.bodies.map(() => [])
    this.#startParts()
  }

  abort(): void {
    this.#isOver = true
    for (const call of this.#ongoing.values()) call.abort()
    this.#ongoing.clear()
  }

  resume(): void {
    for (const call of this.#ongoing.values()) call.resume()
  }

  #startParts(): void {
    const { dial, bodies, call } = this.#batch
    while (!this.#isOver && this.#ongoing.size < PARTS_IN_FLIGHT && this.#next < bodies.length) {
      const index = this.#next++
      const body = bodies[index]
      const part = dial({ ...call, ...(body && { body: outgoingBody(body) }) }, this.#listenerOf(index))
      // `dial` may have reported a failure before it returned.
      if (this.#isOver) part.abort()
      else this.#ongoing.set(index, part)
    }
  }

  #listenerOf(index: number): UpstreamListener {
    const { listener } = this.#batch
    let answered: { readonly status: number; readonly headers: HeaderLookup } | null = null
    /** This part is the answer of the whole call. */
    let isAnswer = false
    return {
      onHeaders: (status, headers) => {
        answered = { status, headers }
        this.#headers = headers
        if (status === 200 && headers('content-type')?.includes('json') !== false) return
        isAnswer = true
        this.#endOthers(index)
        listener.onHeaders(status, headers)
      },
      onBody: (chunk) => {
        if (isAnswer) return listener.onBody(chunk)
        this.#size += chunk.length
        if (this.#size > MAX_WHOLE) this.#fail(answered, fail('too_large', `the answers exceed ${MAX_WHOLE} bytes`))
        // The chunk is valid only during the call.
        else this.#answers[index]?.push(new Uint8Array(chunk))
        return true
      },
      onEnd: () => {
        if (isAnswer) return listener.onEnd()
        this.#ongoing.delete(index)
        if (--this.#left === 0) this.#deliver()
        else this.#startParts()
      },
      onFailure: (failure) => (isAnswer ? listener.onFailure(failure) : this.#fail(answered, failure)),
      onPaused: (stopped) => {
        if (isAnswer) listener.onPaused?.(stopped)
      },
    }
  }

  #endOthers(index: number): void {
    const own = this.#ongoing.get(index)
    this.#ongoing.delete(index)
    this.abort()
    if (own) this.#ongoing.set(index, own)
  }

  #fail(answered: { readonly status: number; readonly headers: HeaderLookup } | null, failure: Failure): void {
    if (this.#isOver) return
    this.abort()
    // After the header block a lost connection is a truncated answer.
    if (answered) this.#batch.listener.onHeaders(answered.status, answered.headers)
    this.#batch.listener.onFailure(failure)
  }

  #deliver(): void {
    const { listener } = this.#batch
    this.#isOver = true
    listener.onHeaders(200, this.#headers)
    for (const [index, chunks] of this.#answers.entries()) {
      listener.onBody(index === 0 ? OPEN : COMMA)
      for (const chunk of chunks) listener.onBody(chunk)
    }
    listener.onBody(CLOSE)
    listener.onEnd()
  }
}

const utf8 = new TextEncoder()
const [OPEN, COMMA, CLOSE] = [utf8.encode('['), utf8.encode(','), utf8.encode(']')]
