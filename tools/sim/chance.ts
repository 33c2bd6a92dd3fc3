/** Seeded random numbers: one stream per part of the simulation, so that an extra draw in one does not shift the others. */

/** Returns a number in [0, 1). */
export type Chance = () => number

/** Mulberry32: 32 bits of state, two multiplications per draw. */
const stream = (seed: number): Chance => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The `n`-th stream of a seed. */
export const fork = (seed: number, n: number): Chance => {
  const chance = stream(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b))
  chance()
  return chance
}

export const between = (chance: Chance, least: number, most: number): number => least + chance() * (most - least)
export const integer = (chance: Chance, least: number, most: number): number =>
  least + Math.floor(chance() * (most - least + 1))
export const pick = <T>(chance: Chance, items: readonly [T, ...T[]]): T =>
  items[Math.floor(chance() * items.length)] ?? items[0]
/** Exponentially distributed with this mean. */
export const exponential = (chance: Chance, mean: number): number => -Math.log(1 - chance()) * mean
/** Log-normal with this median; with a `sigma` of 1, one value in six exceeds 2.7 times the median. */
export const logNormal = (chance: Chance, median: number, sigma: number): number =>
  median * Math.exp(sigma * Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance()))

/** Draws by weight. */
export const drawing = <T>(rows: readonly (readonly [T, number])[]): ((chance: Chance) => T) => {
  const total = rows.reduce((sum, [, weight]) => sum + weight, 0)
  const last = rows.at(-1)
  if (!last) throw new Error('drawing: no rows')
  return (chance) => {
    let at = chance() * total
    for (const [item, weight] of rows) {
      at -= weight
      if (at < 0) return item
    }
    return last[0]
  }
}
