/** Ends of models: from a time on, a provider refuses requests that name the model. */

/** Where the date of an end is from. If several state one, the first of these counts. */
export const RETIREMENT_SOURCES = ['file', 'list', 'answer', 'catalogue'] as const
export type RetirementSource = (typeof RETIREMENT_SOURCES)[number]

/** The known end of a model at a provider. Times in ms since 1970. */
export type Retirement = {
  readonly at: number
  /** Since when the gateway has known it: the start of the process, or the date of the catalogue. */
  readonly known: number
  readonly source: RetirementSource
  /** The model of the same provider that replaces it; absent: none is known. */
  readonly successor?: string
}

/** What the configuration file states of a model. */
export type DeclaredRetirement = Pick<Retirement, 'successor'> & { readonly at?: number }

/** A day, or a time with its zone. Without one the time of another machine would decide. */
const DATE = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/
const TIME = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})$/

/**
 * The time (ms since 1970) of a day such as `2026-12-11`, which begins in UTC, or of a time with its zone such as
 * `2026-12-11T09:00:00-08:00`. Null: it is neither, or does not exist.
 */
export const retirementTime = (written: string): number | null => {
  const isDay = DATE.test(written)
  if (!isDay && !TIME.test(written)) return null
  const day = written.slice(0, 'yyyy-mm-dd'.length)
  const start = Date.parse(`${day}T00:00:00Z`)
  // `Date.parse` takes 30 February as 2 March.
  if (!Number.isFinite(start) || !new Date(start).toISOString().startsWith(day)) return null
  const at = isDay ? start : Date.parse(written)
  return Number.isFinite(at) ? at : null
}
