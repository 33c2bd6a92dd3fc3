/** Decides by least squares whether a sampled value grows. */

export type Sample = { readonly at: number; readonly value: number }

export type Trend = {
  /** Change of the value per unit of `at`. */
  readonly slope: number
  /** Standard error of the slope. */
  readonly error: number
  readonly first: number
  readonly last: number
  readonly least: number
  readonly most: number
  readonly mean: number
  readonly samples: number
}

export const trendOf = (samples: readonly Sample[]): Trend => {
  const n = samples.length
  const values = samples.map(({ value }) => value)
  const meanAt = samples.reduce((sum, { at }) => sum + at, 0) / n
  const mean = values.reduce((sum, value) => sum + value, 0) / n
  const spread = samples.reduce((sum, { at }) => sum + (at - meanAt) ** 2, 0)
  const slope =
    spread === 0 ? 0 : samples.reduce((sum, { at, value }) => sum + (at - meanAt) * (value - mean), 0) / spread
  const rest = samples.reduce((sum, { at, value }) => sum + (value - mean - slope * (at - meanAt)) ** 2, 0)
  return {
    slope,
    error: n > 2 && spread > 0 ? Math.sqrt(rest / (n - 2) / spread) : 0,
    first: values[0] ?? 0,
    last: values.at(-1) ?? 0,
    least: Math.min(...values),
    most: Math.max(...values),
    mean,
    samples: n,
  }
}

export type Bound = {
  /** Maximum growth per unit of `at`. */
  readonly rate: number
  /** Growth over the whole run that counts as noise. */
  readonly noise: number
}

/**
 * Whether a value does not grow: its growth over `span` is within the noise, or its slope less two standard errors is within
 * the permitted rate.
 */
export const isFlat = ({ slope, error }: Trend, span: number, { rate, noise }: Bound): boolean =>
  slope * span <= noise || slope - 2 * error <= rate
