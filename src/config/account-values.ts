/** Reads times and amounts of money of the accounts in the file. */
import { parseDollars } from '../core/money.ts'
import { PRICE_RANGE } from '../records/entities/price.ts'
import type { AccountReport, Path } from './account-report.ts'
import { quote } from './problem.ts'

const NANO_PER_DOLLAR = 1_000_000_000
const TOKENS = 1_000_000
const AMOUNT = 'dollars with at most nine decimals, such as "2500.00", at most 9007199'
const INSTANT = 'a date such as 2026-12-01 (midnight in UTC), or a time such as 2026-12-01T09:30:00Z'

/** Every value that is not valid is refused in the report. */
export class AccountValues {
  readonly #report: AccountReport

  constructor(report: AccountReport) {
    this.#report = report
  }

  /** ms since 1970; null: not given, or not valid. */
  instant(written: string | undefined, path: Path): number | null {
    if (written === undefined) return null
    const at = instantOf(written)
    if (at === undefined) this.#report.refuse(path, quote(written), INSTANT)
    return at ?? null
  }

  dollars(value: string | number, path: Path): number {
    const text = this.#decimal(value, path)
    const amount = parseDollars(text)
    if (amount.ok) return amount.value
    this.#report.refuse(path, quote(text), AMOUNT)
    return 0
  }

  perToken(value: string | number | undefined, path: Path): number | undefined {
    if (value === undefined) return undefined
    const text = this.#decimal(value, path)
    const amount = parseDollars(text)
    const nano = amount.ok ? amount.value / TOKENS : Number.NaN
    const { least, most } = PRICE_RANGE
    const nanoOf = (dollars: number) => (dollars * NANO_PER_DOLLAR) / TOKENS
    const isAllowed = nano === 0 || (nano >= nanoOf(least) && nano <= nanoOf(most))
    if (!isAllowed)
      this.#report.refuse(path, quote(text), `dollars per million tokens: 0, or a number from ${least} to ${most}`)
    return nano
  }

  /** The source text of a number, since parsing it as a binary fraction could lose digits. */
  #decimal(value: string | number, path: Path): string {
    if (typeof value === 'string') return value
    return this.#report.placeOf(path).written
  }
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/

/** ms since 1970 of a date or a time with its offset; undefined: neither. */
const instantOf = (text: string): number | undefined => {
  const [, year, month, day] = DATE.exec(text) ?? []
  const at = Date.parse(text)
  // `Date` accepts 31 April as 1 May.
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)))
  return Number.isNaN(at) || date.getUTCDate() !== Number(day) ? undefined : at
}
