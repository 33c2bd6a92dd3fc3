/**
 * Queries of a thread that owns a database. Each has a time limit, and fails if the thread ends before its result. A thread
 * that has ended is started again after a second.
 */
import { type DatabaseThread, type DatabaseThreadOptions, startThread, threadEnd } from './database-thread.ts'

type Numbered = { readonly number: number }

export type QueriedThreadOptions<Received> = Pick<DatabaseThreadOptions<Received>, 'file' | 'memory'> & {
  /** Data of a new thread. */
  readonly data: () => object
  /** A message that is no result. */
  readonly onMessage: (message: Exclude<Received, Numbered>) => void
  /** The thread cannot start, or has ended. Not called after `close`. */
  readonly onProblem: (problem: string) => void
}

/** There is no result. `sent`: the thread has received the query and may have run it. */
export type QueryFailure = { readonly problem: string; readonly sent: boolean }

/** ms between two starts of the thread. */
const RESTART = 1_000
const CLOSING = 'the gateway is shutting down'

type PendingQuery<Result> = {
  readonly resolve: (result: Result | QueryFailure) => void
  readonly timer: NodeJS.Timeout
}

/** `Sent`: messages to the thread. `Received`: its messages; a result has the number of its query. */
export class QueriedThread<Sent, Received> {
  readonly #options: QueriedThreadOptions<Received>
  #thread: DatabaseThread | null = null
  #restart: NodeJS.Timeout | null = null
  #problem: string | null = null
  #isClosing = false
  #number = 0
  readonly #pending = new Map<number, PendingQuery<Extract<Received, Numbered>>>()

  constructor(options: QueriedThreadOptions<Received>) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#thread !== null
  }

  /** Queries without a result. */
  get waiting(): number {
    return this.#pending.size
  }

  /** Starts the thread unless it runs. Returns why it cannot start now, or null. */
  start(): string | null {
    if (this.#isClosing) return CLOSING
    if (this.#thread) return null
    if (this.#restart) return this.#problem
    const { file, memory, data } = this.#options
    const thread = startThread<Received>({
      file,
      memory,
      data: data(),
      onMessage: (message) => this.#receive(message),
      onExit: (ended, problem) => this.#lost(ended, problem),
    })
    if (typeof thread === 'string') {
      this.#options.onProblem(thread)
      return thread
    }
    this.#thread = thread
    return null
  }

  /** Sends a query and returns its result. `limit`: ms. `moved`: buffers that are moved to the thread. */
  query(
    queryOf: (number: number) => Sent & Numbered,
    limit: number,
    moved: ArrayBuffer[] = [],
  ): Promise<Extract<Received, Numbered> | QueryFailure> {
    const problem = this.start()
    if (problem !== null) return Promise.resolve({ problem, sent: false })
    const number = ++this.#number
    const late = () => this.#settle(number, { problem: `no result within ${limit / 1_000} s`, sent: true })
    return new Promise((resolve) => {
      // A result that has arrived while the event loop was busy is read first.
      const timer = setTimeout(() => setImmediate(late), limit)
      this.#pending.set(number, { resolve, timer })
      this.#thread?.postMessage(queryOf(number), moved)
    })
  }

  /** Sends a message, if the thread runs. */
  post(message: Sent): void {
    this.#thread?.postMessage(message)
  }

  /** Sends the last message and waits at most `limit` ms until the thread has ended. Queries without a result fail. */
  async close(message: Sent, limit: number): Promise<void> {
    this.#isClosing = true
    if (this.#restart) clearTimeout(this.#restart)
    if (!this.#thread) return
    this.post(message)
    await threadEnd(this.#thread, limit)
    this.#failAll(CLOSING)
  }

  #receive(message: Received): void {
    if (isResult(message)) this.#settle(message.number, message)
    // What has no number is no result.
    else this.#options.onMessage(message as Exclude<Received, Numbered>)
  }

  #settle(number: number, result: Extract<Received, Numbered> | QueryFailure): void {
    const pending = this.#pending.get(number)
    if (!pending) return
    this.#pending.delete(number)
    clearTimeout(pending.timer)
    pending.resolve(result)
  }

  #failAll(problem: string): void {
    for (const number of [...this.#pending.keys()]) this.#settle(number, { problem, sent: true })
  }

  #lost(thread: DatabaseThread, problem: string): void {
    if (thread !== this.#thread) return
    this.#thread = null
    this.#problem = problem
    this.#failAll(problem)
    if (this.#isClosing) return
    this.#restart = setTimeout(() => {
      this.#restart = null
      this.start()
    }, RESTART).unref()
    this.#options.onProblem(problem)
  }
}

const isResult = <Received>(message: Received): message is Extract<Received, Numbered> =>
  typeof message === 'object' && message !== null && 'number' in message
