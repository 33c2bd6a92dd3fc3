/**
 * Amounts of money as whole nano-dollars (10⁻⁹ US dollars). An integer is exact, and sums do not depend on their order.
 * A `number` holds integers up to 2^53, so one amount is limited to 9,007,199 dollars.
 */
import { fail, good, type Outcome } from './failure.ts'

/** An amount in whole nano-dollars: a safe integer. Negative for credits. */
export type Nano = number

export const NANO_PER_DOLLAR = 1_000_000_000
/** The largest amount in whole dollars, and in nano-dollars. */
const MAX_DOLLARS = 9_007_199
export const MAX_NANO: Nano = MAX_DOLLARS * NANO_PER_DOLLAR

/** The largest cost of one attempt: a million dollars. Larger ones are unknown, because sums of them would overflow. */
export const MAX_COST: Nano = 1e15

/** Digits after the decimal point. */
const DECIMALS = 9

/**
 * Parses an amount in dollars, such as `12`, `2500.00` or `0.000045120`: digits and at most nine decimals, without currency
 * sign, exponent or separators. `sign: 'any'` accepts a minus sign. Fails with `invalid_value`.
 */
export const parseDollars = (text: string, sign: 'positive' | 'any' = 'positive'): Outcome<Nano> => {
  const invalid = (problem: string) => ({ ok: false, failure: fail('invalid_value', problem) }) as const
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
  const [, minus, whole, decimals = ''] = /^(-?)([0-9]+)(?:\.([0-9]+))?$/.exec(text) ?? []
  if (whole === undefined)
    return invalid(`"${shown}" is not an amount in dollars. Write digits and at most one decimal point, such as 25.50.`)
  if (minus === '-' && sign === 'positive')
    return invalid(`The amount ${shown} is negative. Write an amount of 0 or more.`)
  if (decimals.length > DECIMALS)
    return invalid(
      `The amount ${shown} has ${decimals.length} decimals (limit ${DECIMALS}, one nano-dollar). Round the amount.`,
    )
  const digits = whole.replace(/^0+(?=[0-9])/, '')
  // Longer numbers would lose digits when they are converted.
  const nano =
    digits.length > String(MAX_DOLLARS).length
      ? Number.POSITIVE_INFINITY
      : Number(digits) * NANO_PER_DOLLAR + Number(decimals.padEnd(DECIMALS, '0'))
  if (nano > MAX_NANO)
    return invalid(`The amount ${shown} is too large (limit ${MAX_DOLLARS} dollars). Write a smaller amount.`)
  return good(minus === '-' && nano > 0 ? -nano : nano)
}

/** Writes an amount in dollars with nine decimals: `0.000045120`. */
export const formatDollars = (nano: Nano): string => {
  const digits = String(Math.abs(nano)).padStart(DECIMALS + 1, '0')
  return `${nano < 0 ? '-' : ''}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`
}

/** Adds two amounts. A sum beyond the limit stays at the limit, so that it remains an exact integer. */
export const addNano = (one: Nano, other: Nano): Nano => Math.max(-MAX_NANO, Math.min(MAX_NANO, one + other))
