/** When a receiver that fails is not called for a while: its requests fail at once, in place of waiting for its time limit. */

/** `failures`: those in succession. `until`: ms of the monotonic clock. */
export type Pause = { readonly failures: number; readonly until: number }

export const NO_PAUSE: Pause = { failures: 0, until: Number.NEGATIVE_INFINITY }

const FAILURES = 5
const MS = 30_000

/** After a pause, the first failure begins another one. */
export const afterAnswer = ({ failures }: Pause, hasFailed: boolean, now: number): Pause => {
  if (!hasFailed) return NO_PAUSE
  if (failures + 1 < FAILURES) return { failures: failures + 1, until: Number.NEGATIVE_INFINITY }
  return { failures: FAILURES - 1, until: now + MS }
}

export const isPaused = ({ until }: Pause, now: number): boolean => now < until

/** Whether a pause has begun since the last success. */
export const hasPaused = ({ until }: Pause): boolean => until !== NO_PAUSE.until
