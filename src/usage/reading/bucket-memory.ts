/** What was read of past buckets of time. The older a bucket, the fewer of its requests have still to end. */
import type { TimeRange } from './queries.ts'

/** A bucket is read again after half of the time that had passed since its end. */
const SHARE = 0.5
const MOST = 1_000

export class BucketMemory {
  readonly #kept = new Map<string, { readonly at: number; readonly value: unknown }>()

  /** `name` contains all that decides the value but the bucket, and what kind of value it is. */
  async get<Value>(name: string, bucket: TimeRange, now: number, read: () => Promise<Value>): Promise<Value> {
    const key = `${bucket.from} ${bucket.to} ${name}`
    const known = this.#kept.get(key)
    // The name has the kind of the value, and this its type.
    if (known && now >= known.at && now - known.at < SHARE * (known.at - bucket.to)) return known.value as Value
    this.#kept.delete(key)
    const value = await read()
    this.#kept.set(key, { at: now, value })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest)
    return value
  }
}
