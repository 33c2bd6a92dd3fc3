/** How long to wait before another attempt. Pure: randomness is an argument. */

/**
 * Exponential backoff with equal jitter, in ms: a random value between half of the delay and all of it. For failures that
 * an early retry would repeat. `attempt` counts from 0; `first` and `most` are the first and the longest delay.
 */
export const equalJitter = (attempt: number, first: number, most: number, random: () => number): number => {
  const whole = doubled(attempt, first, most)
  return whole / 2 + (random() * whole) / 2
}

/** Exponential backoff without jitter, in ms: `first`, doubled for each attempt, at most `most`. */
export const doubled = (attempt: number, first: number, most: number): number =>
  Math.min(most, first * 2 ** Math.min(Math.max(attempt, 0), 40))
