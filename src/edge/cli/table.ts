/** Tables and figures as text. */
import { formatDollars } from '../../core/money.ts'
import type { Paint } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'

/** A cell: a text, or a text with a colour. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string }

const textOf = (cell: Cell): string => plain(typeof cell === 'string' ? cell : cell.text)

/** Formats rows as columns below their headings. Texts may come from clients and providers, so control characters are escaped. */
export const table = (
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): readonly string[] => {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => textOf(row[column] ?? '').length)),
  )
  const line = (cells: readonly Cell[], style: (text: string) => string = (text) => text): string =>
    cells
      .map((cell, column) => {
        const padded = column === cells.length - 1 ? textOf(cell) : textOf(cell).padEnd(widths[column] ?? 0)
        return typeof cell === 'string' ? style(padded) : cell.paint(padded)
      })
      .join('  ')
      .trimEnd()
  return [line(headings, paint.dim), ...rows.map((row) => line(row))]
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const

/** A duration in its two largest units: `3 h 12 min`. */
export const durationText = (ms: number): string => {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  let rest = Math.floor(ms / 1_000)
  const parts: string[] = []
  for (const [unit, seconds] of UNITS) {
    const count = Math.floor(rest / seconds)
    rest -= count * seconds
    if (count > 0 && parts.length < 2) parts.push(`${count} ${unit}`)
  }
  return parts.join(' ')
}

/** Digits in groups of three. */
const grouped = (digits: string): string =>
  digits.length <= 3 ? digits : `${grouped(digits.slice(0, -3))},${digits.slice(-3)}`

/**
 * An amount in dollars for people, rounded half up: cents from one dollar, four decimals below it, and the first two digits
 * that are not 0 below a cent. Zeros at the end stop at cents.
 */
export const moneyText = (dollars: string | number | null | undefined): string => {
  const amount = dollars === null || dollars === undefined ? Number.NaN : Number(dollars)
  if (!Number.isFinite(amount)) return '–'
  // Whole nano-dollars: 1.005 is not exact in binary, and toFixed would round it down.
  const nano = Math.round(Math.abs(amount) * NANO)
  const decimals = nano >= NANO ? 2 : Math.max(4, 11 - String(nano).length)
  const unit = 10 ** Math.max(0, 9 - decimals)
  const rounded = Math.round(nano / unit) * unit
  const [whole = '0', fraction = ''] = formatDollars(rounded).split('.')
  let end = fraction.length
  while (end > 2 && fraction[end - 1] === '0') end--
  return `${amount < 0 ? '-' : ''}$${grouped(whole)}.${fraction.slice(0, end)}`
}

const NANO = 1_000_000_000
