/**
 * Messages in streams of Redis or Valkey: one for all gateways, and one for each gateway. A reader waits in Redis for the next
 * message, and after a lost connection continues where it was. The keys have one hash tag, so a cluster keeps them together.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { connectRedis, type RedisConnection } from '../storage/redis/redis-connection.ts'
import { NEWS_TIMES, type News, type NewsStore, type NewsStoreOptions, type OutgoingNews } from './news-store.ts'

const PREFIX = 'hg:{news}:'
const TO_ALL = `${PREFIX}all`
/** Messages that a stream keeps, about. */
const MOST = 10_000
/** Messages of one answer. */
const PAGE = 500
/** ms. `block`: how long a reader waits for a message. `command`: for an answer. `retry`: until the next try. */
const TIMES = { block: 5_000, connect: 1_000, command: 1_000, retry: 1_000 }

/** Takes a role, or keeps it. */
const CLAIM = `local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
const CLOCK = `return redis.call('TIME')`
/** Saves unless another gateway has the role. */
const SAVE = `local holder = redis.call('GET', KEYS[1])
if not holder or holder == ARGV[1] then redis.call('SET', KEYS[2], ARGV[2]) end
return 1`
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

type StreamEntry = readonly [id: string, fields: readonly string[]]
type StreamReply = readonly (readonly [stream: string, entries: readonly StreamEntry[]])[] | null

export class RedisNews implements NewsStore {
  readonly #options: NewsStoreOptions
  readonly #writer: RedisConnection
  readonly #reader: RedisConnection
  readonly #own: string
  /** ms since 1970 by the clock of Redis, less those of the monotonic clock here; null: not known yet. */
  #clock: number | null = null
  #isClosed = false

  constructor(url: string, options: NewsStoreOptions) {
    this.#options = options
    this.#own = `${PREFIX}to:${options.node}`
    this.#writer = connectRedis(url, { connect: TIMES.connect, command: TIMES.command, pipelines: true })
    this.#reader = connectRedis(url, { connect: TIMES.connect, command: TIMES.block + TIMES.command, pipelines: false })
    for (const one of [this.#writer, this.#reader]) {
      one.on('error', () => {})
      one.connect().catch(() => {})
    }
    void this.#read()
  }

  async send(messages: readonly OutgoingNews[]): Promise<void> {
    const { node } = this.#options
    const pipeline = this.#writer.pipeline()
    for (const { to, body } of messages) {
      const stream = to === null ? TO_ALL : `${PREFIX}to:${to}`
      pipeline.xadd(stream, 'MAXLEN', '~', MOST, '*', 'from', node, 'body', body)
      pipeline.pexpire(stream, NEWS_TIMES.keep)
    }
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error
  }

  async claim(role: string, ms: number): Promise<boolean> {
    return (await this.#writer.eval(CLAIM, 1, `${PREFIX}role:${role}`, this.#options.node, ms)) === 1
  }

  async release(role: string): Promise<void> {
    await this.#writer.eval(RELEASE, 1, `${PREFIX}role:${role}`, this.#options.node)
  }

  load(role: string): Promise<string | null> {
    return this.#writer.get(`${PREFIX}state:${role}`)
  }

  async save(role: string, body: string): Promise<void> {
    const { node } = this.#options
    await this.#writer.eval(SAVE, 2, `${PREFIX}role:${role}`, `${PREFIX}state:${role}`, node, body)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#reader.disconnect()
    // What was sent last is written first.
    await this.#writer.quit().catch(() => {})
  }

  /** Reads until it is closed. */
  async #read(): Promise<void> {
    let after: readonly [all: string, own: string] | null = null
    let isConnected = false
    while (!this.#isClosed) {
      try {
        if (!isConnected) {
          // Of an earlier connection it continues; at the start it reads the messages of the last minute.
          const first = await this.#clockOfServer()
          after ??= [first, first]
          isConnected = true
          this.#options.onState(null)
        }
        const [all, own]: readonly [string, string] = after ?? ['$', '$']
        const reply = (await this.#reader.xread(
          ...(['COUNT', PAGE, 'BLOCK', TIMES.block] as const),
          ...(['STREAMS', TO_ALL, this.#own, all, own] as const),
        )) as StreamReply
        if (!reply || this.#isClosed) continue
        const last = (stream: string) => reply.find(([name]) => name === stream)?.[1].at(-1)?.[0]
        after = [last(TO_ALL) ?? all, last(this.#own) ?? own]
        this.#receive(reply.flatMap(([, entries]) => entries))
      } catch (error) {
        if (this.#isClosed) return
        isConnected = false
        this.#options.onState(problemOf(error))
        await sleep(TIMES.retry / 2)
      }
    }
  }

  /** Reads the clock of the server that has the streams. Returns the position of the messages of the last minute. */
  async #clockOfServer(): Promise<string> {
    const [seconds, micros] = (await this.#reader.eval(CLOCK, 1, TO_ALL)) as readonly [string, string]
    const now = Number(seconds) * 1_000 + Number(micros) / 1_000
    this.#clock = now - performance.now()
    return `${Math.floor(now - NEWS_TIMES.first)}`
  }

  #receive(entries: readonly StreamEntry[]): void {
    const now = performance.now() + (this.#clock ?? 0)
    const news = entries
      .map(
        ([id, [, from = '', , body = '']]): News => ({ from, body, age: Math.max(0, now - Number.parseInt(id, 10)) }),
      )
      .filter(({ from }) => from !== this.#options.node)
    if (news.length > 0) this.#options.onNews(news)
  }
}

/** Without the address. */
const problemOf = (error: unknown): string => {
  const code = error instanceof Error ? /^[A-Z]{3,20}(?= )/.exec(error.message)?.[0] : undefined
  return code === undefined ? 'Redis cannot be reached' : `Redis refuses a command (${code})`
}
