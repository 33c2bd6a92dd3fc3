import type { TurnScheduler } from '../../core/steps.ts'

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
 * A queue that runs each piece of heavy work in its own turn of the event loop. After a piece the loop is free for half as
 * long as the piece took: a small request takes several turns, and would otherwise wait for a piece in each of them.
 * Pieces run in the order of the calls, those that continue earlier work before those that begin.
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
    // First, so that a piece that throws does not hold up the others. What a piece left to promises is included.
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
