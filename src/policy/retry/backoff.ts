/** How long to wait before trying again, and nothing about whether to. Chance comes in as an argument. */

/** From half of it to all of it: where coming back too soon is itself the fault. `attempt` counts from 0. */
export const equalJitter = (attempt: number, first: number, most: number, random: () => number): number => {
  const whole = doubled(attempt, first, most)
  return whole / 2 + (random() * whole) / 2
}

/** `first`, twice that, and so on, up to `most`. */
export const doubled = (attempt: number, first: number, most: number): number =>
  Math.min(most, first * 2 ** Math.min(Math.max(attempt, 0), 40))
