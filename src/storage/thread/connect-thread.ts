/**
 * Starts a thread, calls its methods, and ends it: the one place that creates threads but for those of Postgres. A call has a
 * time limit, fails if the thread ends before its answer, and counts in the queue until it is answered. Loads
 * `node:worker_threads` only when a thread starts.
 */
import { getCompileCacheDir } from 'node:module'
import type { ResourceLimits } from 'node:worker_threads'
import { problemOf } from '../sql/sqlite/sqlite-problem.ts'
import { type ClientThread, startPart, type ThreadOpener } from './thread-part.ts'
import type {
  ArgumentOf,
  DataOf,
  EventsOf,
  FromThread,
  MethodsOf,
  ThreadAnswer,
  ThreadFailure,
  ThreadProgram,
  ThreadResult,
  ToThread,
  ValueOf,
} from './thread-program.ts'

/** What a thread is, and what happens when it is slow or ends. `Program`: the type of its program. */
export type ThreadOptions<Program extends ThreadProgram> = {
  /** The module that exports `program`. */
  readonly program: URL
  /** Data of a new thread. */
  readonly data: () => DataOf<Program>
  /** Memory limits in MB. */
  readonly memory: Pick<ResourceLimits, 'maxOldGenerationSizeMb' | 'maxYoungGenerationSizeMb'>
  /** The name of a thread that it shares with other programs; that has limits of its own. Absent: it has one for itself. */
  readonly shared?: string | undefined
  readonly events?: { readonly [Event in keyof EventsOf<Program>]: (value: EventsOf<Program>[Event]) => void }
  /** A thread that has ended by itself is started again a second later, or with the next call. */
  readonly restart: 'always' | 'when called'
  /** ms for the program to be loaded; the limit of a call begins after it. Absent: it is part of the limits. */
  readonly startLimit?: number
  /** Calls without an answer and the sum of their weights; more are refused with the problem. */
  readonly queue?: { readonly calls: number; readonly weight: number; readonly problem: (calls: number) => string }
  /** The thread cannot start, or has ended. Not called after `close`. */
  readonly onProblem?: (problem: string) => void
  /** A call was answered after so many ms. */
  readonly onTime?: ((method: string, ms: number) => void) | undefined
}

export type CallOptions = {
  /** ms; null: none. */
  readonly limit: number | null
  /** Share of the queue. Default 0. */
  readonly weight?: number
  /** Buffers of the argument that are moved to the thread. */
  readonly moved?: ArrayBuffer[]
}

/** ms between two starts of a thread that has ended by itself. */
const RESTART = 1_000
const CLOSING = 'the gateway is shutting down'
const ENTRY = new URL('./thread-entry.mjs', import.meta.url)

type PendingCall = {
  readonly number: number
  readonly method: string
  readonly limit: number | null
  readonly weight: number
  /** In ms of the monotonic clock. */
  readonly since: number
  readonly resolve: (result: ThreadResult<unknown>) => void
  timer: NodeJS.Timeout | null
  /** It has failed; the thread's answer is still pending. */
  isLate: boolean
}

export class ThreadClient<Program extends ThreadProgram> {
  readonly #options: ThreadOptions<Program>
  #thread: ClientThread | null = null
  #isReady = false
  #restart: NodeJS.Timeout | null = null
  #problem: string | null = null
  #isClosing = false
  #number = 0
  readonly #pending = new Map<number, PendingCall>()
  #weight = 0
  /** Threads that were terminated and still run a statement. */
  #ending = 0

  constructor(options: ThreadOptions<Program>) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#thread !== null
  }

  /** Number of terminated threads that have not ended yet: a statement of a database is not interrupted. */
  get ending(): number {
    return this.#ending
  }

  /** Starts the thread unless it runs. Returns why it cannot start now, or null. */
  start(): string | null {
    if (this.#isClosing) return CLOSING
    if (this.#thread) return null
    if (this.#restart) return this.#problem
    const thread = this.#newThread()
    if (typeof thread === 'string') this.#options.onProblem?.(thread)
    else this.#thread = thread
    return typeof thread === 'string' ? thread : null
  }

  /** Calls a method, and starts the thread if it does not run. Does not reject. */
  call<Name extends keyof MethodsOf<Program> & string>(
    method: Name,
    argument: ArgumentOf<MethodsOf<Program>[Name]>,
    { limit, weight = 0, moved = [] }: CallOptions,
  ): Promise<ThreadResult<ValueOf<MethodsOf<Program>[Name]>>> {
    const problem = this.#isClosing ? CLOSING : (this.#overload(weight) ?? this.start())
    if (problem !== null) return Promise.resolve({ problem, cause: 'refused', isReady: this.#isReady })
    const number = ++this.#number
    const { promise, resolve } = Promise.withResolvers<ThreadResult<unknown>>()
    const since = performance.now()
    const call: PendingCall = { number, method, limit, weight, since, resolve, timer: null, isLate: false }
    this.#pending.set(number, call)
    this.#weight += weight
    this.#limit(call)
    this.#send({ method, argument, number }, moved)
    // The thread answers with the value of this method.
    return promise as Promise<ThreadResult<ValueOf<MethodsOf<Program>[Name]>>>
  }

  /** Calls a method without an answer, if the thread runs. */
  post<Name extends keyof MethodsOf<Program> & string>(
    method: Name,
    argument: ArgumentOf<MethodsOf<Program>[Name]>,
  ): void {
    this.#send({ method, argument })
  }

  /** Ends the thread at once, although it may run a call. Calls without an answer fail with the problem. */
  terminate(problem: string): void {
    const thread = this.#thread
    this.#thread = null
    if (thread) {
      this.#ending++
      thread.once('exit', () => this.#ending--)
      // Not awaited: a thread that waits for a disk ends when the disk answers.
      void thread.terminate()
    }
    this.#failAll({ problem, cause: 'ended', isReady: this.#isReady })
  }

  /** Lets the thread complete its calls and waits until it has ended, at most `limit` ms. The next call starts another one. */
  async end(limit: number): Promise<void> {
    const thread = this.#thread
    this.#send({ close: true })
    this.#thread = null
    if (thread) await ended(thread, limit)
  }

  /** Ends the thread for good, within `limit` ms. Calls without an answer fail then. */
  async close(limit: number): Promise<void> {
    this.#isClosing = true
    if (this.#restart) clearTimeout(this.#restart)
    this.#send({ close: true })
    if (this.#thread) await ended(this.#thread, limit)
    this.#failAll({ problem: CLOSING, cause: 'ended', isReady: this.#isReady })
  }

  // ── The thread ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** It does not keep the process alive. A text is the reason why it cannot start. */
  #newThread(): ClientThread | string {
    const { program, data, memory, shared } = this.#options
    const workerData = { program: program.href, data: data(), compileCache: getCompileCacheDir() }
    try {
      const thread = shared === undefined ? openThread(workerData, memory) : startPart(shared, workerData, openThread)
      let problem = 'its thread has ended'
      this.#isReady = false
      thread.on('message', (message: FromThread) => this.#receive(thread, message))
      thread.on('error', (error) => {
        problem = `its thread has ended: ${problemOf(error)}`
      })
      thread.on('exit', () => this.#lost(thread, problem))
      // A listener for messages keeps the process alive again.
      thread.unref()
      return thread
    } catch (error) {
      // Node's permission model allows threads only with --allow-worker.
      return `its thread cannot start: ${problemOf(error)}`
    }
  }

  #send(message: ToThread, moved: ArrayBuffer[] = []): void {
    this.#thread?.postMessage(message, moved)
  }

  #receive(thread: ClientThread, message: FromThread): void {
    if ('answers' in message) for (const answer of message.answers) this.#settle(answer)
    else if ('event' in message) handlersOf(this.#options.events)?.[message.event]?.(message.value)
    else if (thread === this.#thread) this.#ready()
  }

  #ready(): void {
    this.#isReady = true
    if (this.#options.startLimit === undefined) return
    for (const call of this.#pending.values()) if (!call.isLate) this.#limit(call)
  }

  #lost(thread: ClientThread, problem: string): void {
    if (thread !== this.#thread) return
    this.#thread = null
    this.#problem = problem
    this.#failAll({ problem, cause: 'ended', isReady: this.#isReady })
    if (this.#isClosing) return
    if (this.#options.restart === 'always')
      this.#restart = setTimeout(() => {
        this.#restart = null
        this.start()
      }, RESTART).unref()
    this.#options.onProblem?.(problem)
  }

  // ── Calls ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #overload(weight: number): string | null {
    const { queue } = this.#options
    if (!queue || (this.#pending.size < queue.calls && this.#weight + weight <= queue.weight)) return null
    return queue.problem(this.#pending.size)
  }

  #limit(call: PendingCall): void {
    if (call.timer) clearTimeout(call.timer)
    const { limit } = call
    if (limit === null) return
    const ms = this.#isReady ? limit : (this.#options.startLimit ?? limit)
    // What has arrived while the event loop was busy is read first: the answer, or `ready`, which sets another limit.
    const timer = setTimeout(() => setImmediate(() => call.timer === timer && this.#expire(call, ms)), ms)
    call.timer = timer
  }

  #expire(call: PendingCall, ms: number): void {
    if (call.isLate || !this.#pending.has(call.number)) return
    call.isLate = true
    this.#send({ cancel: call.number })
    call.resolve({ problem: `no result within ${ms / 1_000} s`, cause: 'late', isReady: this.#isReady })
  }

  #settle(answer: ThreadAnswer): void {
    const call = this.#pending.get(answer.number)
    if (!call) return
    this.#forget(call)
    this.#options.onTime?.(call.method, performance.now() - call.since)
    if (!call.isLate) call.resolve(answer)
  }

  #forget(call: PendingCall): void {
    this.#pending.delete(call.number)
    this.#weight -= call.weight
    if (call.timer) clearTimeout(call.timer)
  }

  #failAll(failure: ThreadFailure): void {
    for (const call of [...this.#pending.values()]) {
      this.#forget(call)
      if (!call.isLate) call.resolve(failure)
    }
  }
}

/** It does not keep the process alive, and gets no environment variables, which may contain keys. */
const openThread: ThreadOpener = (workerData, memory) => {
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const thread = new Worker(ENTRY, { workerData, env: {}, execArgv: [], resourceLimits: memory })
  thread.unref()
  return thread
}

/** The thread has the program whose type names these events. */
const handlersOf = (events: unknown) => events as { readonly [event: string]: (value: unknown) => void } | undefined

/** Waits until the thread has ended by itself, at most `limit` ms, and terminates it then. */
const ended = async (thread: ClientThread, limit: number): Promise<void> => {
  const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limit)
  await Promise.race([exited, late])
  clearTimeout(timer)
  // Not awaited: a thread that waits for a disk ends when the disk answers.
  void thread.terminate()
}
