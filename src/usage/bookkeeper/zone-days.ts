const QUARTER = 900_000

/** Returns a function that gives the date of a time (`2026-11-22`) in an IANA zone. */
export const daysIn = (timeZone: string): ((at: number) => string) => {
  // Swedish dates are ISO 8601.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' })
  let last = { quarter: Number.NaN, day: '' }
  return (at) => {
    // No zone's offset changes within a quarter of an hour.
    const quarter = Math.floor(at / QUARTER)
    if (quarter !== last.quarter) last = { quarter, day: format.format(quarter * QUARTER) }
    return last.day
  }
}
