/**
 * The connection to Redis, in a thread of its own. It joins the set of processes that count, beats while it works, and joins
 * again under another name after a failure: scripts that Redis runs late then change nothing that still counts. After three
 * failures in a row Redis is left alone, and probed every second.
 */
import { randomBytes } from 'node:crypto'
import { Redis, type RedisOptions } from 'ioredis'
import { afterIdle } from './after-idle.ts'
import { digestOf, PEERS_KEY } from './counter-keys.ts'
import { type CounterScript, SCRIPTS } from './scripts.ts'

export type RedisLinkOptions = {
  readonly url: string
  readonly node: string
  readonly shares: number
  /** The process has joined: what it has in progress must be stored again. Calls are sent in their order. */
  readonly onJoined: () => void
  /** Redis cannot be used. The text contains no address. */
  readonly onLost: (problem: string) => void
  /** A beat was answered. */
  readonly onBeat: () => void
  /** ms that a batch of scripts took. */
  readonly onTime: (ms: number) => void
}

type Reply = readonly string[]
type ScriptCall = {
  readonly script: CounterScript
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  /** Called if Redis has run the script under the current name of the process. */
  readonly done: (reply: Reply) => void
}

const jittered = (ms: number): number => ms * (0.75 + Math.random() / 2)

/** ms. `command`: for an answer. `probe`: between two probes, up to a quarter more or less. `start`: for the first connection. */
const TIMES = { command: 50, connect: 1_000, start: 1_000, probe: 1_000, beat: 2_000 }
/** Failures in a row after which Redis is left alone, and probes without an answer until it is connected again. */
const LIMITS = { failures: 3, probes: 5 }

const OPTIONS = {
  lazyConnect: true,
  enableOfflineQueue: false,
  enableReadyCheck: false,
  autoResendUnfulfilledCommands: false,
  disableClientInfo: true,
  maxRetriesPerRequest: 0,
  connectTimeout: TIMES.connect,
  // The link watches the time itself: a busy thread reads an answer that has arrived before it gives up. This frees memory.
  commandTimeout: 20 * TIMES.command,
  retryStrategy: (times: number) => (times === 1 ? 50 : jittered(TIMES.probe)),
} satisfies RedisOptions

export class RedisLink {
  readonly #options: RedisLinkOptions
  readonly #redis: Redis
  readonly #node: string
  readonly #base = randomBytes(9).toString('base64url')
  /** Raised with each name of the process. */
  #epoch = 0
  #state: 'starting' | 'joining' | 'joined' | 'lost' | 'closed' = 'starting'
  /** Names of this process that may still be in the set. */
  #earlier: string[] = []
  #failures = 0
  #probes = 0
  /** Why the last connection has failed. */
  #connectionProblem = 'Redis cannot be reached'
  #peers: readonly string[] = []
  #queue: ScriptCall[] = []
  /** When the batches without an answer were sent; the oldest is first. */
  readonly #sent = new Set<{ readonly at: number }>()
  /** Scripts that Redis knows since the process has joined. */
  readonly #known = new Set<CounterScript>()
  #watch: NodeJS.Timeout | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(options: RedisLinkOptions) {
    this.#options = options
    this.#node = digestOf(options.node)
    this.#redis = new Redis(options.url, OPTIONS)
    this.#redis.on('error', (error: Error) => {
      this.#connectionProblem = connectionProblem(error)
    })
    this.#redis.on('ready', () => this.#onConnected())
    this.#redis.on('close', () => this.#onClosed())
    this.#redis.connect().catch(() => {})
    this.#after(TIMES.start, () => this.#lose(this.#connectionProblem))
  }

  /** Whether scripts are run now or in a moment. */
  get isUsed(): boolean {
    return this.#state !== 'lost' && this.#state !== 'closed'
  }

  get isJoined(): boolean {
    return this.#state === 'joined'
  }

  /** Processes of all gateways that use a share each while Redis does not answer. */
  get shares(): number {
    const all = this.#peers.reduce((sum, name) => sum + (Number(name.slice(name.lastIndexOf('.') + 1)) || 1), 0)
    return Math.max(all, this.#options.shares)
  }

  /** Runs a script with the next batch. `args`: without the process and its node. */
  call(
    script: CounterScript,
    keys: readonly string[],
    args: readonly (string | number)[],
    done: ScriptCall['done'],
  ): void {
    if (this.#state !== 'joined') return
    this.#push({ script, keys, args, done })
  }

  /** Sends what was called in this turn. */
  flush(): void {
    const calls = this.#queue
    if (calls.length === 0) return
    this.#queue = []
    const epoch = this.#epoch
    const sent = { at: performance.now() }
    this.#sent.add(sent)
    this.#startWatch()
    const commands = calls.map(({ script, keys, args }) => {
      const isKnown = this.#known.has(script)
      this.#known.add(script)
      return [
        isKnown ? 'evalsha' : 'eval',
        isKnown ? script.sha : script.text,
        1 + keys.length,
        PEERS_KEY,
        ...keys,
        ...args,
      ]
    })
    const answered = (results: readonly [error: Error | null, result: unknown][] | null) => {
      if (!this.#sent.delete(sent) || epoch !== this.#epoch) return
      if (!results) return this.#fail(this.#connectionProblem)
      this.#options.onTime(performance.now() - sent.at)
      this.#onResults(epoch, calls, results)
    }
    this.#redis
      .pipeline(commands)
      .exec()
      .then(answered, () => answered(null))
  }

  /** Leaves the set: what this process has in progress counts no more. */
  async close(): Promise<void> {
    const isJoined = this.isJoined
    this.#state = 'closed'
    clearTimeout(this.#timer)
    if (this.#watch) clearTimeout(this.#watch)
    const { text } = SCRIPTS.leave
    if (isJoined) await this.#redis.eval(text, 1, PEERS_KEY, this.#process).catch(() => {})
    this.#redis.disconnect()
  }

  get #process(): string {
    return `${this.#base}.${this.#epoch}.${this.#options.shares}`
  }

  #push({ script, keys, args, done }: ScriptCall): void {
    if (this.#queue.length === 0) queueMicrotask(() => this.flush())
    this.#queue.push({ script, keys, args: [this.#process, this.#node, ...args], done })
  }

  #onResults(epoch: number, calls: readonly ScriptCall[], results: readonly [Error | null, unknown][]): void {
    for (const [index, { script, done }] of calls.entries()) {
      if (epoch !== this.#epoch) return
      const [error, result] = results[index] ?? [null, null]
      if (error) return this.#fail(commandProblem(error, this.#connectionProblem))
      // The scripts return lists of texts.
      const reply = result as Reply
      // It was flushed, or has not received a beat for too long.
      if (reply[0] === 'unknown') return this.#join()
      if (script !== SCRIPTS.join) this.#failures = 0
      done(reply)
    }
  }

  // ── Connection ─────────────────────────────────────────────────────────────────────────────────────────────────

  #onConnected(): void {
    if (this.#state === 'starting' || this.#state === 'lost') this.#join()
  }

  #onClosed(): void {
    if (this.#state === 'joined' || this.#state === 'joining') this.#lose(this.#connectionProblem)
  }

  /** Joins under a new name. What was sent before is not waited for. */
  #join(): void {
    if (this.#state === 'closed') return
    if (this.#state !== 'lost') this.#state = 'joining'
    this.#abandon()
    this.#push({ script: SCRIPTS.join, keys: [], args: this.#earlier, done: (reply) => this.#onJoined(reply) })
    this.#earlier = [...this.#earlier, this.#process].slice(-100)
  }

  #onJoined([, ...peers]: Reply): void {
    this.#peers = peers
    this.#state = 'joined'
    this.#probes = 0
    this.#earlier = [this.#process]
    this.#options.onJoined()
    this.#after(TIMES.beat, () => this.#beat())
  }

  #beat(): void {
    this.call(SCRIPTS.beat, [], [], ([, ...peers]) => {
      this.#peers = peers
      this.#options.onBeat()
    })
    this.#after(TIMES.beat, () => this.#beat())
  }

  #abandon(): void {
    this.#epoch++
    this.#queue = []
    this.#sent.clear()
    this.#known.clear()
    if (this.#watch) clearTimeout(this.#watch)
    this.#watch = null
  }

  #fail(problem: string): void {
    if (this.#state === 'closed') return
    this.#failures++
    if (this.#failures < LIMITS.failures && this.#state !== 'lost' && this.#redis.status === 'ready') this.#join()
    else this.#lose(problem)
  }

  #lose(problem: string): void {
    if (this.#state === 'closed') return
    const isNew = this.#state !== 'lost'
    this.#state = 'lost'
    this.#abandon()
    this.#after(jittered(TIMES.probe), () => this.#probe())
    if (isNew) this.#options.onLost(problem)
  }

  #probe(): void {
    this.#after(jittered(TIMES.probe), () => this.#probe())
    if (this.#redis.status !== 'ready') return
    // A connection that the network has forgotten is not answered even if Redis is back.
    if (++this.#probes % LIMITS.probes === 0) this.#redis.disconnect(true)
    else this.#join()
  }

  #after(ms: number, run: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(run, ms)
  }

  #startWatch(): void {
    const [oldest] = this.#sent
    if (this.#watch || !oldest) return
    const epoch = this.#epoch
    const wait = Math.max(1, oldest.at + TIMES.command - performance.now())
    this.#watch = afterIdle(wait, () => {
      if (epoch !== this.#epoch) return
      this.#watch = null
      if (this.#sent.has(oldest)) this.#fail(`Redis does not answer within ${TIMES.command} ms`)
      else this.#startWatch()
    })
  }
}

const connectionProblem = (error: Error): string => {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return code ? `Redis cannot be reached (${code})` : commandProblem(error, 'Redis cannot be reached')
}

/** Only the first word of a message: the rest may contain an address. */
const commandProblem = (error: Error, connection: string): string => {
  const [code] = /^[A-Z]{3,}(?= )/.exec(error.message) ?? []
  return code ? `Redis refuses commands (${code})` : connection
}
