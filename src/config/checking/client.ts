/** Checks texts in a thread with limits of time and memory, one at a time. */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { startThread, threadEnd } from '../../storage/thread/database-thread.ts'
import { type CheckedText, type CheckMessage, type CheckTask, NAME } from './messages.ts'

export type ConfigChecksOptions = {
  /** ms until the modules of the thread are loaded, and then until its result. */
  readonly limits?: { readonly start: number; readonly check: number }
}

const THREAD = new URL('./check-thread.mjs', import.meta.url)
const LIMITS = { start: 30_000, check: 10_000 }
/** MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** Checks that wait for the one in progress. */
const MAX_WAITING = 3

/** The checks of a process. */
export class ConfigChecks {
  readonly #limits: { readonly start: number; readonly check: number }
  #last: Promise<unknown> = Promise.resolve()
  #open = 0

  constructor({ limits = LIMITS }: ConfigChecksOptions = {}) {
    this.#limits = limits
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

  /** Does not reject. */
  #inThread(task: CheckTask): Promise<Outcome<CheckedText>> {
    const { start, check } = this.#limits
    return new Promise((resolve) => {
      const end = (result: Outcome<CheckedText>) => {
        clearTimeout(timer)
        resolve(result)
        // The next check waits until the processor is free.
        if (typeof thread !== 'string') void threadEnd(thread, 0)
      }
      const thread = startThread<CheckMessage>({
        file: THREAD,
        data: task,
        memory: MEMORY,
        onMessage: (message) => {
          if (!('ready' in message)) return end(good(message))
          isReady = true
          clearTimeout(timer)
          timer = setTimeout(() => end(excessive(`more than ${check / 1_000} s`)), check)
        },
        onExit: (_thread, problem) => end(isReady ? excessive('too much memory') : failed(problem)),
      })
      let isReady = false
      let timer = setTimeout(() => end(failed(`no result within ${start / 1_000} s`)), start)
      if (typeof thread === 'string') end(failed(thread))
    })
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
