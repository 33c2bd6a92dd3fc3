/** Where the days of a zone begin. */

export const HOUR = 3_600_000
export const DAY = 24 * HOUR

/** The date of a time, as `daysIn` gives it. */
export type DayOf = (at: number) => string
export type StartOf = (at: number) => number

/** When the day of a time begins. */
export const dayStarts =
  (dayOf: DayOf): StartOf =>
  (at) => {
    const step = HOUR / 4
    const day = dayOf(at)
    let start = Math.floor(at / step) * step
    while (dayOf(start - 1) === day) start -= step
    return start
  }

/** When the next day begins. A day has at most 25 hours. */
export const dayAfter = (startOfDay: StartOf, at: number): number => startOfDay(startOfDay(at) + 26 * HOUR)
