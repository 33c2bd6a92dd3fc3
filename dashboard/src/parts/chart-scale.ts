/** Ticks of the axes of a chart, and the paths of its lines. Pure. */

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Distances of ticks on the time axis. */
const STEPS = [
  ...[1, 5, 10, 30].map((s) => s * 1_000),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28, 91, 365].map((n) => n * DAY),
] as const

export type TimeTicks = { readonly step: number; readonly at: readonly number[] }

/** Round times of a range, at most `most`. `offset`: ms by which local time is ahead of UTC. */
export const timeTicks = (
  { from, to }: { readonly from: number; readonly to: number },
  most: number,
  offset: number,
): TimeTicks => {
  const step = STEPS.find((one) => Math.ceil((to - from) / one) <= most) ?? to - from + 1
  const first = Math.ceil((from + offset) / step) * step - offset
  return { step, at: Array.from({ length: Math.max(0, Math.ceil((to - first) / step)) }, (_, n) => first + n * step) }
}

/** Steps of round values, the greatest first. */
const ROUND = [5, 4, 2.5, 2, 1] as const

/** Round values from 0 to `greatest`: two or three above 0. `isWhole`: no fractions, as for counts; of 1 there is one. */
export const valueTicks = (greatest: number, isWhole: boolean): readonly number[] => {
  if (greatest <= 0) return [0]
  const ticks = (step: number) => Math.floor(greatest / step + 1e-9)
  const power = 10 ** Math.floor(Math.log10(greatest))
  const steps = [power, power / 10].flatMap((one) => ROUND.map((factor) => factor * one))
  const step = steps.find((one) => ticks(one) >= 2 && !(isWhole && one % 1 !== 0)) ?? 1
  return Array.from({ length: ticks(step) + 1 }, (_, n) => n * step)
}

/** SVG paths of a line with gaps, and of the values between two gaps, which are points. */
export const linePaths = (
  values: readonly (number | null)[],
  x: (at: number) => number,
  y: (value: number) => number,
): { readonly line: string; readonly points: string } => {
  const isGap = (at: number) => (values[at] ?? null) === null
  const paths = { line: '', points: '' }
  for (const [at, value] of values.entries()) {
    if (value === null) continue
    const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`
    if (isGap(at - 1) && isGap(at + 1)) paths.points += `M${place}h0`
    else paths.line += `${isGap(at - 1) ? 'M' : 'L'}${place}`
  }
  return paths
}
