/** Memory taken by what clients send: bodies of requests, and messages of WebSockets. */
import { bodyShed, type ShedReason } from '../policy/health/shed.ts'
import type { HeldBytes } from '../runtime/load.ts'
import type { UnreadAnswers } from './unread-answers.ts'

/** The bytes of each client, counted in the limit of all buffered bytes too. A client is named by its key or its network. */
export class BodyMemory {
  readonly #held: HeldBytes
  readonly #unread: UnreadAnswers
  readonly #limit: () => number
  readonly #own = new Map<string, number>()

  /** `limit`: of `held`, in bytes. */
  constructor(held: HeldBytes, unread: UnreadAnswers, limit: () => number) {
    this.#held = held
    this.#unread = unread
    this.#limit = limit
  }

  /** Counts bytes of a client, unless they exceed a limit. */
  take(client: string, bytes: number): ShedReason | null {
    this.#unread.makeRoom(bytes)
    const own = this.#own.get(client) ?? 0
    const shed = bodyShed(bytes, { own, held: this.#held.bytes(), limit: this.#limit() })
    if (!shed) this.count(client, bytes)
    return shed
  }

  /** Counts bytes of a client, also above the limits; negative: they are no longer in memory. */
  count(client: string, by: number): void {
    if (by === 0) return
    const own = (this.#own.get(client) ?? 0) + by
    if (own > 0) this.#own.set(client, own)
    else this.#own.delete(client)
    this.#held.change(by)
  }
}
