/** Checks texts in a thread with limits of time and memory, one at a time. */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import { type CheckedText, type CheckTask, NAME } from './check-task.ts'
import type { program } from './check-thread.ts'

export type ConfigChecksOptions = {
  /** ms until the modules of the thread are loaded, and then until its result. */
  readonly limits?: { readonly start: number; readonly check: number }
}

const PROGRAM = new URL('./check-thread.ts', import.meta.url)
const LIMITS = { start: 30_000, check: 10_000 }
/** MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** Checks that wait for the one in progress. */
const MAX_WAITING = 3

/** The checks of a process. */
export class ConfigChecks {
  readonly #limits: { readonly start: number; readonly check: number }
  readonly #thread: ThreadClient<typeof program>
  #last: Promise<unknown> = Promise.resolve()
  #open = 0

  constructor({ limits = LIMITS }: ConfigChecksOptions = {}) {
    this.#limits = limits
    this.#thread = new ThreadClient({
      program: PROGRAM,
      data: () => null,
      memory: MEMORY,
      restart: 'when called',
      startLimit: limits.start,
    })
  }

  /** Checks a text after those before it. A text that exceeds the limits has a problem. */
  async check(task: CheckTask): Promise<Outcome<CheckedText>> {
    if (this.#open > MAX_WAITING) return bad(BUSY)
    this.#open++
    const result = this.#last.then(() => this.#inThread(task))
    this.#last = result
    try {
      return await result
    } finally {
      this.#open--
    }
  }

  /** Does not reject. The thread ends with the check: the next one gets all of its memory. */
  async #inThread(task: CheckTask): Promise<Outcome<CheckedText>> {
    const { check } = this.#limits
    const result = await this.#thread.call('check', task, { limit: check })
    this.#thread.terminate('the check is complete')
    if ('value' in result) return good(result.value)
    const isExcessive = 'cause' in result && result.isReady && result.cause !== 'refused'
    if (!isExcessive) return failed(result.problem)
    return excessive(result.cause === 'late' ? `more than ${check / 1_000} s` : 'too much memory')
  }
}

/** The answer for a text that the thread could not check within its limits. */
const excessive = (needs: string): Outcome<CheckedText> =>
  good({
    ok: false,
    problems: [
      {
        where: NAME,
        found: `a text whose check needs ${needs}`,
        allowed: 'fewer values, anchors, aliases and brackets',
      },
    ],
    warnings: [],
  })

const failed = (problem: string): Outcome<CheckedText> =>
  bad(fail('internal', `The configuration was not checked: ${problem}.`))

const BUSY: Failure = fail('busy', 'Four configurations are being checked. Try again in a few seconds.', {
  retryAfter: 5_000,
})
