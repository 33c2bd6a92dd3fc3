/** Whether limits are shared with other gateways now, for the log and `/health`. */
import type { Log } from '../observe/log.ts'

export type LimitsProblem = { readonly reason: string; readonly since: number }

export class LimitsReport {
  readonly #date: () => number
  readonly #log: () => Pick<Log, 'info' | 'error'> | null
  #problem: LimitsProblem | null = null

  /** `log`: null: another process logs it. */
  constructor(date: () => number, log: () => Pick<Log, 'info' | 'error'> | null) {
    this.#date = date
    this.#log = log
  }

  /** Why limits are not shared, and since when (ms since 1970); null: they are. */
  get problem(): LimitsProblem | null {
    return this.#problem
  }

  /** Logs when the store is lost, and when it is back. */
  report(problem: string | null): void {
    const before = this.#problem
    if (problem === null) {
      this.#problem = null
      if (before) this.#log()?.info('limits', { status: 'ok', message: 'Limits and budgets are shared again.' })
      return
    }
    this.#problem = { reason: problem, since: before?.since ?? this.#date() }
    if (before) return
    const message = `Limits and budgets are not shared with other gateways (REDIS_URL, or without it DATABASE_URL): ${problem}. Until it answers, this gateway uses what it was granted before, and its part of rates and of requests in progress.`
    this.#log()?.error('limits', { status: 'degraded', message })
  }
}
