import type { Turn } from '../core/steps.ts'

const waiting: (() => void)[] = []
let scheduled = false

/**
 * Runs each piece of heavy work in its own turn of the event loop, in the order of the calls. There is one queue for the
 * process: pieces of different requests never share a turn, and sockets and timers are served between two of them.
 */
export const turn: Turn = (run) => {
  waiting.push(run)
  if (!scheduled) schedule()
}

const schedule = (): void => {
  scheduled = true
  setImmediate(runFirst)
}

const runFirst = (): void => {
  scheduled = false
  const run = waiting.shift()
  // First, so that a piece that throws does not hold up the others. It runs in the next turn.
  if (waiting.length > 0) schedule()
  run?.()
}
