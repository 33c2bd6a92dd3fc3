/** Tables and figures as text. */
import { formatDollars } from '../core/money.ts'
import type { Paint } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'
import { cut, padded, textWidth, wrapped } from './text-width.ts'

/** A cell: a text, or a text with a colour and the value by which rows are sorted. */
export type Cell =
  | string
  | { readonly text: string; readonly paint?: (text: string) => string; readonly sort?: number | string }

/** The terminal: its colours, and its width in characters; null: the output has no width. */
export type Look = { readonly paint: Paint; readonly width: number | null }

export const textOf = (cell: Cell | undefined): string => plain(typeof cell === 'string' ? cell : (cell?.text ?? ''))

/** Characters between two columns. */
const GAP = 2
/** Characters that a column keeps in a narrow terminal, and those that are worth showing in a list: a time, a name with an ID. */
const LEAST = { kept: 10, listed: 20 }

const widthOf = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)

/** The widths of the columns of a table: as wide as their widest cell; in a narrow terminal the widest are cut. */
const fitted = (widths: readonly number[], most: number | null): readonly number[] => {
  const fit = [...widths]
  for (let over = widthOf(fit) - (most ?? Number.POSITIVE_INFINITY); over > 0; over--) {
    const widest = fit.indexOf(Math.max(...fit))
    if ((fit[widest] ?? 0) <= LEAST.kept) break
    fit[widest] = (fit[widest] ?? 0) - 1
  }
  return fit
}

/** The lines of a text of a client or a provider in the width of the terminal. */
export const wrappedText = (text: string, { width }: Pick<Look, 'width'>): readonly string[] =>
  width === null ? [plain(text)] : wrapped(plain(text), width)

/**
 * Formats rows as columns below their headings, in the width of the terminal: the last column is wrapped, and others are cut.
 * Texts may come from clients and providers, so control characters are escaped.
 */
export const table = (
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  { paint, width }: Look,
): readonly string[] => {
  const needed = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => textWidth(textOf(row[column])))),
  )
  const widths = fitted(needed, width)
  const last = headings.length - 1
  const indent = ' '.repeat(widthOf(widths.slice(0, -1)) + (last > 0 ? GAP : 0))
  const linesOf = (cells: readonly Cell[], style: (text: string) => string = (text) => text): readonly string[] => {
    const styleOf = (cell: Cell | undefined) => (typeof cell === 'object' && cell.paint ? cell.paint : style)
    const shown = cells.slice(0, -1).map((cell, column) => {
      const size = widths[column] ?? 0
      return styleOf(cell)(padded(cut(textOf(cell), size), size))
    })
    const ends = wrapped(textOf(cells.at(-1)), widths[last] ?? 0)
    return ends.map((end, at) => {
      const text = styleOf(cells.at(-1))(end)
      return (at === 0 ? [...shown, text].join(' '.repeat(GAP)) : indent + text).trimEnd()
    })
  }
  return [...linesOf(headings, paint.dim), ...rows.flatMap((row) => linesOf(row))]
}

/** How many columns fit into the terminal without cutting them short. At least one. */
export const columnsThatFit = (
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  most: number | null,
): number => {
  if (most === null) return headings.length
  const least = headings.map((heading, column) =>
    Math.min(LEAST.listed, Math.max(heading.length, ...rows.map((row) => textWidth(textOf(row[column]))))),
  )
  let count = headings.length
  while (count > 1 && widthOf(least.slice(0, count)) > most) count--
  return count
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
