/** The store of shared responses: in progress, or completed and kept for later retries. In memory, up to a size limit. */

import type { Config } from '../../core/config.ts'
import type { Settings } from '../../core/settings.ts'
import type { AnswerClaims } from '../../core/shared-answer.ts'
import type { EndedEvent } from '../../core/trace.ts'
import type { Cancel } from '../../core/world.ts'
import type { TeamRouteSource } from '../../policy/routing/team-routes.ts'
import type { CallDeps } from '../call/call-lifecycle.ts'
import type { MemoryQuota } from './answer-buffer.ts'
import type { BroadcastResponse } from './broadcast-response.ts'

/** A response that several requests may receive. */
export type SharedResponse = {
  /** The id of the request that started it. */
  readonly id: string
  readonly answer: BroadcastResponse
  readonly config: Config
  readonly names: Set<string>
  /** Retries with the same Idempotency-Key may request it again. */
  keyed: boolean
  /** Cancels the timer that ends a response without readers; null: it has readers. */
  grace: Cancel | null
  /** How its call ended; undefined: unknown. */
  ended: EndedEvent | undefined
  /** When it expires, in ms of the monotonic clock. */
  until: number
  /** Resolves once, when its call is over and has been recorded. */
  readonly settled: Promise<void>
  readonly settle: () => void
}

/** A response found by name. `fingerprint`: of the request that the name was used for. */
export type NamedResponse = { readonly response: SharedResponse; readonly fingerprint: string }

/** Memory of a response without its text, in bytes: names, fingerprints, headers. */
export const OVERHEAD = 2_048

/**
 * Prefix of the names of duplicates, which are shared only while in progress. Names of idempotency keys have another
 * prefix.
 */
export const DUPLICATE = 'duplicate '

/** Memory limit of all shared responses, in bytes. */
export const memoryLimit = ({ idempotency }: Settings): number => idempotency.maxMegabytes * 1024 * 1024

/** The dependencies of sharing. */
export type SharingDeps = CallDeps &
  TeamRouteSource & {
    readonly config: () => Config
    /** Answers that several processes share; null: their store cannot be used now. Absent: this process is alone. */
    readonly claims?: () => AnswerClaims | null
  }

/** Shared responses by name. */
export class SharedResponses implements MemoryQuota {
  readonly #gateway: Pick<SharingDeps, 'world' | 'config'>
  readonly #byName = new Map<string, NamedResponse>()
  /** In progress, without readers. */
  readonly #unread = new Set<SharedResponse>()
  /** Completed; the oldest first. */
  readonly #kept = new Set<SharedResponse>()
  #taken = 0
  #timer: Cancel | null = null

  constructor(gateway: Pick<SharingDeps, 'world' | 'config'>) {
    this.#gateway = gateway
  }

  /** The response with this name, unless it has expired. */
  find(name: string): NamedResponse | undefined {
    const found = this.#byName.get(name)
    if (found && found.response.until <= this.#gateway.world.now()) {
      this.#remove(found.response)
      return undefined
    }
    return found
  }

  name(name: string, response: SharedResponse, fingerprint: string): void {
    this.#byName.set(name, { response, fingerprint })
    response.names.add(name)
  }

  /** The last reader has left: whether the response may continue without readers. */
  mayContinueUnread(response: SharedResponse, { limit }: Settings): boolean {
    this.#unread.add(response)
    return this.#unread.size <= limit.concurrent
  }

  /** The response has a reader again. */
  markRead(response: SharedResponse): void {
    this.#unread.delete(response)
  }

  /**
   * The response is over: keeps it for later retries, for so many ms, if it was answered with 200, otherwise removes it.
   * Returns whether it is kept.
   */
  finish(response: SharedResponse, keep: number): boolean {
    const { world } = this.#gateway
    const { answer, ended } = response
    this.#unread.delete(response)
    // A completed response is kept for retries of the same call only, never for duplicates.
    for (const name of [...response.names]) if (name.startsWith(DUPLICATE)) this.#unname(name, response)
    const isAnswered = (ended === undefined || ended.how === 'answered') && answer.status === 200
    if (!response.keyed || keep <= 0 || !answer.replayable || !isAnswered) {
      this.#remove(response)
      return false
    }
    response.until = world.now() + keep
    this.#kept.add(response)
    this.#scheduleSweep()
    return true
  }

  take(bytes: number): boolean {
    const limit = memoryLimit(this.#gateway.config().settings)
    this.#taken += bytes
    for (const oldest of this.#kept) {
      if (this.#taken <= limit) break
      this.#remove(oldest)
    }
    return this.#taken <= limit
  }

  give(bytes: number): void {
    this.#taken -= bytes
  }

  /** Removes all names of a response. */
  unlist(response: SharedResponse): void {
    this.#unread.delete(response)
    for (const name of [...response.names]) this.#unname(name, response)
  }

  #remove(response: SharedResponse): void {
    this.unlist(response)
    this.#kept.delete(response)
    this.give(OVERHEAD)
    response.answer.release()
  }

  /** The name may already belong to a later response. */
  #unname(name: string, response: SharedResponse): void {
    response.names.delete(name)
    if (this.#byName.get(name)?.response === response) this.#byName.delete(name)
  }

  /** Removes expired responses that no request looks up. */
  #scheduleSweep(): void {
    const [oldest] = this.#kept
    if (this.#timer || !oldest) return
    const { world } = this.#gateway
    this.#timer = world.later(Math.max(0, oldest.until - world.now()), () => {
      this.#timer = null
      for (const response of [...this.#kept]) if (response.until <= world.now()) this.#remove(response)
      this.#scheduleSweep()
    })
  }
}
