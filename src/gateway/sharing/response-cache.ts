/**
 * The response cache: complete answers in memory, up to a size limit, for equal later requests of one key or team. Behind them may
 * be a second level, which several gateways share.
 */
import type { Cancel, World } from '../../core/world.ts'
import type { TokenUsage } from '../accounts/token-usage.ts'
import { bytesOf, type MemoryQuota } from './answer-buffer.ts'

/** An answer as it was sent. */
export type CachedAnswer = {
  /** The ID of the request that it answered. */
  readonly id: string
  readonly body: string
  /** Headers of the answer itself, such as its content type. */
  readonly headers: Readonly<Record<string, string>>
  readonly provider: string
  readonly model: string
  readonly used: TokenUsage | null
  readonly team: string
  readonly key: string
}

/** A stored answer and its age in ms. */
export type CacheHit = { readonly answer: CachedAnswer; readonly age: number }

/** Which answers to remove: those that match every member. */
export type CacheSelector = {
  readonly team?: string | undefined
  /** The key of the request that stored it. */
  readonly key?: string | undefined
  /** As `model` or `provider/model`. */
  readonly model?: string | undefined
}

/** `left`: ms until it expires. */
export type SharedHit = CacheHit & { readonly left: number }

/** The second level. Operations are limited in time, and never reject. */
export type SharedCache = {
  /** Null: there is no answer, or none in time. */
  readonly find: (name: string) => Promise<SharedHit | null>
  /** Stores an answer for `ttl` ms, in the background. */
  readonly put: (name: string, answer: CachedAnswer, ttl: number) => void
  /** Returns how many were removed; null: not all could be. */
  readonly purge: (selector: CacheSelector) => Promise<number | null>
  readonly close: () => Promise<void>
}

type CacheEntry = {
  readonly answer: CachedAnswer
  readonly storedAt: number
  readonly until: number
  readonly size: number
}

export type CacheOptions = {
  readonly world: Pick<World, 'now' | 'later'>
  /** A collision-free digest of any text, of a fixed length. */
  readonly fingerprint: (text: string) => string
  /** Maximum memory in bytes. */
  readonly limit: () => number
  /** Absent: this process is alone. */
  readonly shared?: SharedCache | undefined
}

/** Memory of an entry without its body, in bytes. */
const OVERHEAD = 1_024

/** Maximum memory of one answer in bytes. */
const LARGEST = 1_048_576

/** Fraction of the limit that answers may take while they are received. */
const RECORDING_FRACTION = 1 / 4

/** ms between two searches for expired answers. */
const SWEEP = 60_000

/** Stores answers by the digest of their request. */
export class ResponseCache implements MemoryQuota {
  readonly #options: CacheOptions
  /** The order of the Map is the order of last use. */
  readonly #entries = new Map<string, CacheEntry>()
  #bytes = 0
  /** Bytes of answers that are being received. */
  #recording = 0
  #timer: Cancel | null = null

  constructor(options: CacheOptions) {
    this.#options = options
  }

  /** The number of answers. */
  get size(): number {
    return this.#entries.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Maximum memory in bytes. */
  get limit(): number {
    return this.#options.limit()
  }

  /** The name of a request, from the text that identifies it. */
  nameOf(text: string): string {
    return this.#options.fingerprint(text)
  }

  /** The answer with this name, unless it is older than `maxAge` ms. */
  find(name: string, maxAge: number): CacheHit | null {
    const entry = this.#entries.get(name)
    if (!entry) return null
    const now = this.#options.world.now()
    if (entry.until <= now) {
      this.#remove(name)
      return null
    }
    const age = now - entry.storedAt
    if (age > maxAge) return null
    this.#entries.delete(name)
    this.#entries.set(name, entry)
    return { answer: entry.answer, age }
  }

  /** Whether there is a second level. */
  get isShared(): boolean {
    return this.#options.shared !== undefined
  }

  /** The answer of the second level, which is kept here too, unless it is older than `maxAge` ms. */
  async findShared(name: string, maxAge: number): Promise<CacheHit | null> {
    const found = await this.#options.shared?.find(name)
    if (!found) return null
    this.#keep(name, found)
    return found.age > maxAge ? null : found
  }

  /** Stores an answer for `ttl` ms. An answer that is too large is not stored. */
  put(name: string, answer: CachedAnswer, ttl: number): void {
    this.#keep(name, { answer, age: 0, left: ttl })
    if (mayFit(answer.body.length)) this.#options.shared?.put(name, answer, ttl)
  }

  #keep(name: string, { answer, age, left }: SharedHit): void {
    const size = OVERHEAD + bytesOf(answer.body)
    this.#remove(name)
    const limit = this.#options.limit()
    if (size <= Math.min(LARGEST, limit)) {
      const now = this.#options.world.now()
      this.#entries.set(name, { answer, storedAt: now - age, until: now + left, size })
      this.#bytes += size
    }
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= limit) break
      this.#remove(oldest)
    }
    this.#timer ??= this.#options.world.later(SWEEP, () => this.#sweep())
  }

  /** Removes answers here. Returns their number. */
  purge(selector: CacheSelector = {}): number {
    let removed = 0
    for (const [name, { answer }] of this.#entries) {
      if (!isSelected(selector, answer)) continue
      this.#remove(name)
      removed++
    }
    return removed
  }

  /** Removes answers of the second level. Returns their number; null: they could not be removed. */
  async purgeShared(selector: CacheSelector): Promise<number | null> {
    return this.#options.shared ? this.#options.shared.purge(selector) : 0
  }

  async close(): Promise<void> {
    await this.#options.shared?.close()
  }

  /** Whether an answer of this size may be stored, and there is memory for recordings. */
  take(bytes: number): boolean {
    this.#recording += bytes
    return this.#recording <= this.#options.limit() * RECORDING_FRACTION
  }

  give(bytes: number): void {
    this.#recording -= bytes
  }

  #remove(name: string): void {
    const entry = this.#entries.get(name)
    if (!entry) return
    this.#entries.delete(name)
    this.#bytes -= entry.size
  }

  #sweep(): void {
    const now = this.#options.world.now()
    for (const [name, { until }] of this.#entries) if (until <= now) this.#remove(name)
    this.#timer = this.#entries.size === 0 ? null : this.#options.world.later(SWEEP, () => this.#sweep())
  }
}

/** Whether an answer is to be removed. */
export const isSelected = (
  { team, key, model }: CacheSelector,
  answer: Pick<CachedAnswer, 'team' | 'key' | 'provider' | 'model'>,
): boolean =>
  (team ?? answer.team) === answer.team &&
  (key ?? answer.key) === answer.key &&
  (model === undefined || model === answer.model || model === `${answer.provider}/${answer.model}`)

/** Whether an answer of this length may fit. */
export const mayFit = (characters: number): boolean => characters <= LARGEST - OVERHEAD
