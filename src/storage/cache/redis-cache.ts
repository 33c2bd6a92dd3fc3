/**
 * Answers in Redis which several gateways send again, for the thread that has the connection. An answer is a hash with an end; its
 * name begins with the version of its form.
 */
import {
  type CachedAnswer,
  type CacheSelector,
  isSelected,
  type SharedHit,
} from '../../gateway/sharing/response-cache.ts'
import { connectRedis, primariesOf, type RedisConnection } from '../redis/redis-connection.ts'

export type RedisCacheOptions = {
  /** A secret. */
  readonly url: string
}

export type CachedRow = { readonly name: string; readonly answer: CachedAnswer; readonly ttl: number }

/** ms for a connection and for a command; requests do not wait for them as long. */
const LIMITS = { connect: 2_000, command: 2_000, pipelines: true }
const PREFIX = 'headgate:cache:1:'
/** Keys that a step of a purge looks at. */
const STEP = 500
/**
 * Above this part of `maxmemory`, or without one above so many bytes, no more answers are stored: counters need the rest. `check`: ms
 * between two looks.
 */
const ROOM = { part: 0.5, bytes: 1_073_741_824, check: 5_000 }

export class RedisCache {
  readonly #redis: RedisConnection
  /** The first attempt to connect is over. */
  readonly #begun: Promise<void>
  #isFull = false
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor({ url }: RedisCacheOptions) {
    this.#redis = connectRedis(url, LIMITS)
    // Commands fail meanwhile, and requests are answered without it.
    this.#redis.on('error', () => {})
    this.#begun = this.#redis.connect().catch(() => {})
  }

  async find(name: string): Promise<SharedHit | null> {
    if (this.#redis.status !== 'ready') return null
    const key = PREFIX + name
    const [[answer, ttl], left] = await Promise.all([this.#redis.hmget(key, 'answer', 'ttl'), this.#redis.pttl(key)])
    // Only `put` writes it.
    return answer && left > 0
      ? { answer: JSON.parse(answer) as CachedAnswer, age: Math.max(0, Number(ttl) - left), left }
      : null
  }

  async put({ name, answer, ttl }: CachedRow): Promise<void> {
    await this.#begun
    await this.#look()
    if (this.#isFull) return
    const { team, key, provider, model } = answer
    const fields = { answer: JSON.stringify(answer), ttl, team, key, provider, model }
    // Together: an answer without an end would stay.
    await this.#redis
      .multi()
      .hset(PREFIX + name, fields)
      .pexpire(PREFIX + name, ttl)
      .exec()
  }

  /** Removes answers. Returns their number. */
  async purge(selector: CacheSelector): Promise<number> {
    await this.#begun
    let removed = 0
    for (const node of primariesOf(this.#redis)) removed += await this.#purgeIn(node, selector)
    return removed
  }

  close(): void {
    this.#redis.disconnect()
  }

  async #purgeIn(node: ReturnType<typeof primariesOf>[number], selector: CacheSelector): Promise<number> {
    let removed = 0
    for (let cursor = '0'; ; ) {
      const [next, keys] = await node.scan(cursor, 'MATCH', `${PREFIX}*`, 'COUNT', STEP)
      const rows = await Promise.all(keys.map((key) => this.#redis.hmget(key, 'team', 'key', 'provider', 'model')))
      const found = keys.filter((_, at) => {
        const [team, key, provider, model] = rows[at] ?? []
        return isSelected(selector, { team: team ?? '', key: key ?? '', provider: provider ?? '', model: model ?? '' })
      })
      const counts = await Promise.all(found.map((key) => this.#redis.unlink(key)))
      removed += counts.reduce((sum, count) => sum + count, 0)
      if (next === '0') return removed
      cursor = next
    }
  }

  async #look(): Promise<void> {
    const now = performance.now()
    if (now - this.#checkedAt < ROOM.check) return
    this.#checkedAt = now
    const memory = await this.#redis.info('memory')
    const read = (field: string) => Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(memory)?.[1] ?? 0)
    const most = read('maxmemory')
    this.#isFull = read('used_memory') > (most > 0 ? most * ROOM.part : ROOM.bytes)
  }
}
