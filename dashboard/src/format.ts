/** Numbers, times and money as text, in the locale of the browser. Pure but for the locale. */

const locale = typeof navigator === 'undefined' ? 'en' : navigator.language

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 })
const digits = (most: number, least = 0) =>
  new Intl.NumberFormat(locale, { maximumFractionDigits: most, minimumFractionDigits: least })
const oneDigit = digits(1)
const twoDigits = digits(2)
const oneFixed = digits(1, 1)
const twoFixed = digits(2, 2)
const percents = (least: number) =>
  new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1, minimumFractionDigits: least })
const share = percents(0)
const shareFixed = percents(1)

/** `1,284`. */
export const count = (value: number): string => whole.format(value)

/** At most four characters and a unit: `402`, `9.6k`, `38k`, `1.2M`. */
export const compact = (value: number): string => {
  for (const [unit, size] of [
    ['B', 1e9],
    ['M', 1e6],
    ['k', 1e3],
  ] as const)
    if (value >= size) return `${(value / size < 10 ? oneDigit : whole).format(value / size)}${unit}`
  return whole.format(value)
}

/** `99.4%`, `38.0%`, and `80%` if it is exact. A share that is not whole never becomes 100 % or 0 %. */
export const percent = (value: number): string => {
  if (value > 0.9995 && value < 1) return share.format(0.999)
  if (value > 0 && value < 0.0005) return `< ${share.format(0.001)}`
  const hundredths = value * 100
  return (Math.abs(hundredths - Math.round(hundredths)) < 1e-9 ? share : shareFixed).format(value)
}

/**
 * A duration: `0.7 ms`, `412 ms`, `3.40 s`, `2 min`, `5 h`, `3 d`. Measured seconds keep their zeros, so that a column is even;
 * those of an axis or a setting, which are round, have none: `2 s`.
 */
export const duration = (ms: number): string => {
  if (ms < 10) return `${oneDigit.format(ms)} ms`
  if (ms < 1_000) return `${whole.format(ms)} ms`
  if (ms < 10_000) return `${(ms % 100 === 0 ? oneDigit : twoFixed).format(ms / 1_000)} s`
  if (ms < 60_000) return `${(ms % 1_000 === 0 ? oneDigit : oneFixed).format(ms / 1_000)} s`
  if (ms < 3_600_000) {
    const minutes = Math.floor(ms / 60_000)
    const seconds = Math.round((ms % 60_000) / 1_000)
    return minutes < 10 && seconds > 0 ? `${minutes} min ${seconds} s` : `${minutes} min`
  }
  if (ms < 86_400_000) return `${oneDigit.format(ms / 3_600_000)} h`
  return `${oneDigit.format(ms / 86_400_000)} d`
}

/** A duration in whole units, for countdowns and ages: `41 s`, `3 min`. */
export const age = (ms: number): string => {
  if (ms < 60_000) return `${Math.max(0, Math.round(ms / 1_000))} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

const NANO = 1_000_000_000n

/** Nano-dollars of the API's decimal text. */
export const nanoOf = (text: string): bigint => {
  const [, sign, units = '0', fraction = ''] = /^(-?)([0-9]+)(?:\.([0-9]+))?$/.exec(text) ?? []
  const size = BigInt(units) * NANO + BigInt(fraction.padEnd(9, '0').slice(0, 9))
  return sign === '-' ? -size : size
}
const sizeOf = (value: bigint): bigint => (value < 0n ? -value : value)
const point = twoDigits.formatToParts(0.5).find(({ type }) => type === 'decimal')?.value ?? '.'

/**
 * An amount in dollars from the API's decimal text: `$0.0121`, `$1.84`, `$41.20`. Amounts below a dollar keep two digits that
 * are not zero, so that a positive amount is never shown as zero.
 */
export const money = (text: string): string => {
  const nano = nanoOf(text)
  const size = sizeOf(nano)
  const sign = nano < 0n ? '-' : ''
  if (size === 0n) return '$0'
  const zeros = size >= NANO ? 0 : 9 - String(size).length
  const decimals = Math.min(9, zeros + 2)
  const step = 10n ** BigInt(9 - decimals)
  const rounded = (size + step / 2n) / step
  const digit = 10n ** BigInt(decimals)
  const fraction = String(rounded % digit)
    .padStart(decimals, '0')
    .replace(/(?<=..)0+$/, '')
  return `${sign}$${(rounded / digit).toLocaleString(locale)}${point}${fraction}`
}

/** The decimal text of nano-dollars, as the API writes it. */
export const dollarsOf = (nano: bigint): string => {
  const size = sizeOf(nano)
  return `${nano < 0n ? '-' : ''}${size / NANO}.${String(size % NANO).padStart(9, '0')}`
}

/** Adds amounts exactly. */
export const addDollars = (amounts: readonly string[]): string =>
  dollarsOf(amounts.reduce((sum, text) => sum + nanoOf(text), 0n))

/** How much of an amount another is: 0.5 is half; 0 of nothing. For bars and percentages, not for further sums. */
export const shareOf = (part: string, whole: string): number => {
  const all = nanoOf(whole)
  return all === 0n ? 0 : Number((nanoOf(part) * 1_000_000n) / all) / 1_000_000
}

const clockFormat = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const minuteFormat = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' })
const dayFormat = new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric' })
const fullFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'long' })
const momentFormat = new Intl.DateTimeFormat(locale, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
})

/** `10:41:29`. */
export const clock = (at: number): string => clockFormat.format(at)
/** Times of all hours: one of them is as wide as any time can be in this locale. */
export const widestClocks = (): readonly string[] =>
  Array.from({ length: 24 }, (_, hour) => clock(new Date(2026, 0, 1, hour, 28, 28).getTime()))
/** `10:41`. */
export const minute = (at: number): string => minuteFormat.format(at)
/** `Nov 23`. */
export const day = (at: number): string => dayFormat.format(at)

const dateFormat = new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric', timeZone: 'UTC' })

/** A date that is stated without a time, by its midnight in UTC: the gateway decides when its days begin. */
export const date = (at: number): string => dateFormat.format(at)
/** `Nov 23, 10:41`. */
export const moment = (at: number): string => momentFormat.format(at)
/** With date, seconds and zone. */
export const fullTime = (at: number): string => fullFormat.format(at)

/** `412 KB`. */
export const bytes = (value: number): string => {
  if (value < 1_000) return `${whole.format(value)} B`
  if (value < 1_000_000) return `${(value < 10_000 ? oneDigit : whole).format(value / 1_000)} KB`
  return `${oneDigit.format(value / 1_000_000)} MB`
}

/** The beginning of a text that a spreadsheet evaluates as a formula. */
const FORMULA = /^(?=[\s\p{Cc}\p{Cf}]*[=+\-@\u2212\uFF1D\uFF0B\uFF0D\uFF20\uFE66\uFE62\uFE63\uFE6B]|[\t\r\n])/u

/** Rows as CSV. A text that a spreadsheet would run begins with an apostrophe. */
export const csvOf = (rows: readonly (readonly (string | number)[])[]): string =>
  rows
    .map((cells) =>
      cells
        .map((cell) => (typeof cell === 'number' ? cell : `"${cell.replace(FORMULA, "'").replaceAll('"', '""')}"`))
        .join(','),
    )
    .join('\n')
