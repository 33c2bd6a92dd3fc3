/** The memory that one request takes: its body, and the part of its response that its client has not read. */
import { type Failure, fail } from '../core/failure.ts'
import { type ShedReason, shedFailure } from '../policy/health/shed.ts'
import type { BodyReading } from './body.ts'
import { type Admission, UNKNOWN_BYTES } from './request-admission.ts'
import type { Unread } from './unread-answers.ts'

const GONE = fail('client_gone', 'The request has ended.')

export class RequestMemory {
  readonly #admission: Pick<Admission, 'bodies' | 'unread'>
  /** The client whose share of memory it takes. */
  owner: string
  /** Its body that is being read, until its handler has it. */
  reading: BodyReading | null = null
  /** Bytes of its body in memory. */
  #bodyBytes = 0
  /** Set if there was not enough memory for the body. */
  #why: ShedReason | undefined
  /** The response was ended to free memory. */
  #isEnded = false
  /** The request has ended, and nothing would release further bytes of its body. */
  #isOver = false

  constructor(admission: Pick<Admission, 'bodies' | 'unread'>, owner: string) {
    this.#admission = admission
    this.owner = owner
  }

  /** Why there was not enough memory for the body; undefined: there was. */
  get why(): ShedReason | undefined {
    return this.#why
  }

  reserve(bytes: number): Failure | null {
    if (this.#isOver) return GONE
    const shed = this.#admission.bodies.take(this.owner, bytes)
    if (shed) {
      this.#why = shed
      return shedFailure(shed)
    }
    this.#bodyBytes += bytes
    return null
  }

  /** Takes it also if the memory is full. */
  reserveSmall(bytes: number): void {
    this.#admission.bodies.count(this.owner, bytes)
    this.#bodyBytes += bytes
  }

  /** Counts a part of a body that is held until its sender is known. Returns whether there is memory for it. */
  hold(bytes: number): boolean {
    if (this.#bodyBytes + bytes > UNKNOWN_BYTES) return this.reserve(bytes) === null
    this.reserveSmall(bytes)
    return true
  }

  /** So many bytes of the body are no longer in memory. */
  release(bytes: number): void {
    if (!this.#isOver) this.reserveSmall(-bytes)
  }

  /** The body is no longer in memory, or its parts are counted again as they are read. */
  releaseBody(): void {
    this.reserveSmall(-this.#bodyBytes)
  }

  /** The request has ended. */
  done(): void {
    this.reading?.abandon()
    this.releaseBody()
    this.#isOver = true
  }

  /** The client has not read so many bytes of the response. */
  unread(bytes: number, answer: Unread): void {
    if (!this.#isEnded) this.#admission.unread.set(this.owner, answer, bytes)
  }

  /** The response is ended, to free its memory. */
  endUnread(): void {
    this.#isEnded = true
  }
}
