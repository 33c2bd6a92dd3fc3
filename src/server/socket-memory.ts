/** Memory taken by the messages of a WebSocket: those that are not complete, and those that wait for their turn. */
import type { ShedReason } from '../policy/health/shed.ts'
import type { BodyMemory } from './body-memory.ts'

/** Bytes of a control frame of a client without its payload (RFC 6455, section 5.2: header and mask). */
const CONTROL = 6
/** Bytes of memory for each read, beside those that were read. */
const PER_READ = 128

export class SocketMemory {
  readonly #bodies: BodyMemory
  readonly #client: string
  /** Bytes received since the last complete message. */
  #unfinished = 0
  /** Characters of complete messages. */
  #complete = 0
  #counted = 0
  #isClosed = false

  /** `client`: the owner of the memory. */
  constructor(bodies: BodyMemory, client: string) {
    this.#bodies = bodies
    this.#client = client
  }

  /** Bytes were received. Returns why there is no memory for them, or null. */
  received(bytes: number): ShedReason | null {
    if (this.#isClosed) return null
    this.#unfinished += bytes + PER_READ
    const more = this.#unfinished + this.#complete - this.#counted
    if (more <= 0) return null
    const shed = this.#bodies.take(this.#client, more)
    if (!shed) this.#counted += more
    return shed
  }

  /** A ping or pong was received; the rest of an unfinished message is still in memory. */
  control(payload: number): void {
    this.#unfinished = Math.max(0, this.#unfinished - payload - CONTROL)
  }

  /** A message of so many characters is complete. */
  message(size: number): void {
    this.#unfinished = 0
    this.#complete += size
    this.#release()
  }

  /** A complete message is no longer in memory. */
  done(size: number): void {
    this.#complete -= size
    this.#release()
  }

  /** The connection has closed. */
  clear(): void {
    this.#unfinished = 0
    this.#complete = 0
    this.#release()
    this.#isClosed = true
  }

  #release(): void {
    const by = this.#unfinished + this.#complete - this.#counted
    if (by >= 0 || this.#isClosed) return
    this.#counted += by
    this.#bodies.count(this.#client, by)
  }
}
