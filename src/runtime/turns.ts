import type { TurnScheduler } from '../core/steps.ts'

/** The longest pause between two pieces (ms). */
const LONGEST_PAUSE = 50

/** Bounded pieces (2 ms) need no pause, and a timer's inaccuracy would double their time. */
const SHORTEST_PAUSE = 5

/** The clock and the turns of the event loop. */
export type TurnTimers = {
  /** ms, monotonic. */
  readonly now: () => number
  /** Runs after the event loop has looked for input and output. */
  readonly soon: (run: () => void) => void
  readonly later: (ms: number, run: () => void) => void
}

const TIMERS: TurnTimers = {
  now: () => performance.now(),
  soon: (run) => void setImmediate(run),
  later: (ms, run) => void setTimeout(run, ms),
}

/**
 * A queue that runs each piece of heavy work in its own turn of the event loop. After each piece the loop stays free
 * for half the piece's duration, because a small request takes several turns and would otherwise wait for a piece in
 * each. Order: pieces of work in progress, then new work, each in the order of the calls.
 */
export const pieceQueue = ({ now, soon, later }: TurnTimers = TIMERS): TurnScheduler => {
  const continuing: (() => void)[] = []
  const beginning: (() => void)[] = []
  let active = false

  const next = (): void => {
    const run = continuing.shift() ?? beginning.shift()
    if (!run) {
      active = false
      return
    }
    const begun = now()
    // Scheduled before the piece runs, so that a piece that throws does not block the others. The measured time
    // includes promise callbacks of the piece.
    soon(() => {
      const pause = Math.min((now() - begun) / 2, LONGEST_PAUSE)
      if (pause < SHORTEST_PAUSE) next()
      else later(pause, next)
    })
    run()
  }

  return (run, continues = false) => {
    ;(continues ? continuing : beginning).push(run)
    if (active) return
    active = true
    soon(next)
  }
}

/** The one queue of the process. */
export const turn: TurnScheduler = pieceQueue()
