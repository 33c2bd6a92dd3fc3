/** The counters of several gateways in Redis, for the thread that has the connection. */
import { randomUUID } from 'node:crypto'
import type { CounterTotals, LeaseReply } from '../gateway/accounts/counter-store.ts'
import type { LeaseAnswer, LeaseAsk, LeaseHolder } from '../policy/accounts/lease.ts'
import { connectRedis, type RedisConnection, redisCode } from '../storage/redis/redis-connection.ts'
import type { CommonCounters } from './common-counters.ts'
import { BEAT_KEYS, counterKeys, digestOf } from './counter-keys.ts'
import { GONE } from './counter-memory.ts'
import { type RedisScript, SCRIPTS } from './lease-script.ts'

/** `timeout`: ms for an answer. */
export type RedisStoreOptions = { readonly url: string; readonly timeout: number }

/** Exchanges without an answer after which the network may have forgotten the connection. */
const MOST_FAILED = 5

export class RedisStore implements CommonCounters {
  readonly #options: RedisStoreOptions
  readonly #redis: RedisConnection
  /** Why the last connection has failed. */
  #problem = 'Redis cannot be reached'
  /** Resolves when a connection is ready, or has failed. */
  #connecting = Promise.withResolvers<void>()
  #failed = 0

  constructor(options: RedisStoreOptions) {
    this.#options = options
    this.#redis = connectRedis(options.url, { connect: options.timeout, command: options.timeout, pipelines: true })
    this.#redis.on('error', (error: Error) => {
      this.#problem = connectionProblem(error)
      this.#connecting.resolve()
    })
    this.#redis.on('ready', () => this.#connecting.resolve())
    this.#redis.on('close', () => {
      this.#connecting.resolve()
      this.#connecting = Promise.withResolvers()
    })
    this.#redis.connect().catch(() => this.#connecting.resolve())
  }

  async lease(holder: LeaseHolder, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    const named = { ...holder, process: digestOf(holder.process), run: digestOf(holder.run) }
    const [first, ...answers] = await this.#run((run) => [
      run(SCRIPTS.beat, BEAT_KEYS, [named.process, randomUUID(), GONE]),
      ...asks.map((ask) => run(SCRIPTS.lease, counterKeys(ask.counter), argumentsOf(named, ask))),
    ])
    if (typeof first === 'string') return { problem: first, peers: 0, epoch: '', answers: [] }
    const [epoch = '', peers = '1'] = first ?? []
    return { problem: null, epoch, peers: Number(peers), answers: answers.map(answerOf) }
  }

  async read(counters: readonly string[]): Promise<readonly (CounterTotals | null)[] | null> {
    await this.#ready()
    const reading = counters.map((name) => this.#redis.hmget(counterKeys(name)[0], 'used', 'held'))
    try {
      return (await Promise.all(reading)).map(([used, held]) =>
        used === null || used === undefined ? null : { used: Number(used), held: Number(held) },
      )
    } catch {
      return null
    }
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }

  /** Runs scripts in one exchange. One text in place of replies: why Redis cannot be used. */
  async #run(commands: (run: RunScript) => readonly Promise<unknown>[]): Promise<readonly (Reply | string)[]> {
    await this.#ready()
    const results = await Promise.allSettled(commands((...command) => this.#script(...command)))
    const failed = results.find(({ status }) => status === 'rejected')
    if (failed?.status !== 'rejected') {
      this.#failed = 0
      // The scripts return lists of texts.
      return results.map((result) => (result.status === 'fulfilled' ? (result.value as Reply) : []))
    }
    // A connection that the network has forgotten is not answered even if Redis is back.
    if (++this.#failed % MOST_FAILED === 0) this.#redis.disconnect(true)
    return [commandProblem(failed.reason, this.#problem, this.#options.timeout)]
  }

  /** A server that was started again does not know the script. */
  async #script(
    { sha, text }: RedisScript,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    try {
      return await this.#redis.evalsha(sha, keys.length, ...keys, ...args)
    } catch (error) {
      if (!(error instanceof Error) || redisCode(error) !== 'NOSCRIPT') throw error
      return this.#redis.eval(text, keys.length, ...keys, ...args)
    }
  }

  async #ready(): Promise<void> {
    if (this.#redis.status !== 'ready') await this.#connecting.promise
  }
}

type Reply = readonly string[]
type RunScript = (script: RedisScript, keys: readonly string[], args: readonly (string | number)[]) => Promise<unknown>

const argumentsOf = ({ process, boot, run }: LeaseHolder, ask: LeaseAsk): readonly (string | number)[] => [
  ...[process, boot, ask.seq, ask.id, ask.kind, ask.limit, ask.refill, ask.granted, ask.used, ask.held],
  ...[ask.need, ask.want, ask.lapse, ask.life, ask.seed?.spent ?? 0, ask.seed?.by ?? '', ask.leaves ? 1 : 0],
  ...[randomUUID(), ask.seed?.quiet ?? 0, run, ask.before, ask.left],
  ...(ask.seed?.recorded ?? []).flatMap((part) => [digestOf(part.run), part.spent]),
]

const answerOf = (reply: Reply | string): LeaseAnswer => {
  const [status, id = '', ...values] = reply
  const [granted = 0, sum = 0, used = 0, held = 0, users = 1, short = 0, shift = 0, gone = 0] = values.map(Number)
  switch (status) {
    case 'ok':
      return { status, id, granted, sum, used, held, users, isShort: short === 1, isGone: gone === 1, shift }
    case 'stale':
      return { status, boot: Number(id) }
    case 'lapsed':
      return { status, counted: id === '' ? null : Number(id) }
    case 'restarted':
      return { status }
    default:
      return { status: 'unseeded' }
  }
}

const connectionProblem = (error: Error): string => {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return code ? `Redis cannot be reached (${code})` : commandProblem(error, 'Redis cannot be reached', 0)
}

/** Only the code of a message: the rest may contain an address. */
const commandProblem = (error: unknown, connection: string, timeout: number): string => {
  if (!(error instanceof Error)) return connection
  if (error.message.includes('timed out')) return `Redis does not answer within ${timeout} ms`
  const code = redisCode(error)
  return code ? `Redis refuses commands (${code})` : connection
}
