/**
 * Finds out that a store is away, so that requests wait for it once and not one by one: while it does not answer, calls are decided
 * at once. A store that is slow is not away, as it answers a probe.
 */
import type { ThreadResult } from '../thread/thread-program.ts'

/** Writes may have to wait for another process while reads are answered. */
export type StoreCallKind = 'read' | 'write'

export type StoreWatchOptions = {
  /** ms of the monotonic clock. */
  readonly now: () => number
  /** Calls a function after so many ms; returns a function which cancels that. */
  readonly later: (ms: number, run: () => void) => () => void
  /** ms without an answer to calls and to a probe, after which the store is away. */
  readonly timeout: () => number
  /** A write that changes nothing, with its limit in ms. */
  readonly probe: (limit: number) => Promise<ThreadResult<null>>
  /** Why writes wait although reads are answered, or null. */
  readonly writesWait: () => string | null
  /** The text of a problem: the store has not answered for so many ms. */
  readonly silent: (ms: number) => string
  /** The first problem, or another reason for it; null: the store works again. */
  readonly changed: (problem: string | null) => void
}

type WaitingCall = {
  readonly kind: StoreCallKind
  readonly since: number
  readonly giveUp: (problem: string) => void
}

const BOTH: ReadonlySet<StoreCallKind> = new Set(['read', 'write'])
const WRITES: ReadonlySet<StoreCallKind> = new Set(['write'])
const NONE: ReadonlySet<StoreCallKind> = new Set()
/** ms between two probes while there is a problem. */
const PROBE = 1_000

export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #waiting = new Set<WaitingCall>()
  /** When a call was answered last, by kind; null: none was, as its thread is being loaded. */
  #answeredAt: { readonly [kind in StoreCallKind]: number } | null = null
  #problem: string | null = null
  #away = NONE
  #cancel: (() => void) | null = null
  #isProbing = false
  #isClosed = false

  constructor(options: StoreWatchOptions) {
    this.#options = options
  }

  /** Why calls of this kind are decided at once; null: they are made. */
  problemOf(kind: StoreCallKind): string | null {
    return this.#away.has(kind) ? this.#problem : null
  }

  /** Makes a call, unless the store is away, and waits for its result or until the store is found to be away. */
  run<Value>(kind: StoreCallKind, start: () => Promise<ThreadResult<Value>>): Promise<ThreadResult<Value>> {
    const problem = this.problemOf(kind)
    if (problem !== null) return Promise.resolve({ problem, cause: 'refused', isReady: true })
    return new Promise((resolve) => {
      const giveUp = (why: string) => resolve({ problem: why, cause: 'late', isReady: true })
      const call: WaitingCall = { kind, since: this.#options.now(), giveUp }
      this.#waiting.add(call)
      this.#lookLater()
      void start().then((result) => {
        this.#waiting.delete(call)
        this.#note(kind, result)
        resolve(result)
      })
    })
  }

  /** Something has failed. */
  fail(problem: string): void {
    if (this.#isClosed) return
    const isNew = this.#problem === null
    this.#problem = problem
    this.#options.changed(problem)
    if (isNew) void this.#probe()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #note(kind: StoreCallKind, result: ThreadResult<unknown>): void {
    const isLate = isLateResult(result)
    if (!isLate) {
      const now = this.#options.now()
      this.#answeredAt = { read: now, write: now, ...this.#answeredAt, [kind]: now }
    }
    if ('problem' in result) this.fail(isLate ? (this.#options.writesWait() ?? result.problem) : result.problem)
  }

  /** Half of the time is for calls, and the other half for the probe. */
  get #half(): number {
    return this.#options.timeout() / 2
  }

  #lookLater(): void {
    if (this.#cancel || this.#problem !== null || this.#isClosed) return
    this.#cancel = this.#options.later(this.#half, () => {
      this.#cancel = null
      this.#look()
    })
  }

  #look(): void {
    if (this.#waiting.size === 0) return
    const now = this.#options.now()
    const answered = this.#answeredAt
    const isSilent = ({ kind, since }: WaitingCall) =>
      answered !== null && now - Math.max(since, answered[kind]) >= this.#half - 1
    if ([...this.#waiting].some(isSilent)) void this.#probe()
    else this.#lookLater()
  }

  async #probe(): Promise<void> {
    if (this.#isProbing || this.#isClosed) return
    this.#isProbing = true
    const result = await this.#options.probe(this.#half)
    this.#isProbing = false
    if (this.#isClosed) return
    if (!('problem' in result)) return this.#works()
    const locked = this.#options.writesWait()
    const isLate = isLateResult(result)
    const problem = isLate ? (locked ?? this.#options.silent(this.#options.timeout())) : result.problem
    this.#away = isLate && locked === null ? BOTH : WRITES
    this.#problem = problem
    this.#options.changed(problem)
    if (isLate) this.#giveUp(problem)
    this.#cancel?.()
    this.#cancel = this.#options.later(PROBE, () => {
      this.#cancel = null
      void this.#probe()
    })
  }

  #works(): void {
    this.#away = NONE
    if (this.#problem !== null) {
      this.#problem = null
      this.#options.changed(null)
    }
    if (this.#waiting.size > 0) this.#lookLater()
  }

  #giveUp(problem: string): void {
    for (const call of this.#waiting) {
      if (!this.#away.has(call.kind)) continue
      this.#waiting.delete(call)
      call.giveUp(problem)
    }
  }
}

const isLateResult = (result: ThreadResult<unknown>): boolean => 'cause' in result && result.cause === 'late'
