/** Lists as tables: their order, their columns, and what fits into the terminal. */
import type { Command } from 'commander'
import { nearest } from '../core/nearest.ts'
import { type Cli, CliError, EXIT } from './cli.ts'
import { type Cell, columnsThatFit, table, textOf, wrappedText } from './table.ts'

/** The day of an ISO time, for a table. */
export const dayOf = (time: string | null | undefined): string => time?.slice(0, 10) ?? '–'

/** An ISO time without fractions of a second, for a table; undefined if there is none. */
export const secondOf = (time: string | null | undefined): string | undefined => time?.replace(/\.\d+Z$/, 'Z')

/** The options of a verb that prints a list. */
export type ListingOptions = { readonly sort?: string; readonly columns?: string }

/** Adds the options of a list. */
export const withListing = (command: Command): Command =>
  command
    .option('--sort <column>', 'order by a column: numbers from the largest, texts from A; with a minus sign reversed')
    .option('--columns <names>', 'columns of the table, comma list')

export type Listing<Row> = {
  readonly headings: readonly string[]
  readonly rows: readonly Row[]
  readonly cells: (row: Row) => readonly Cell[]
  /** The last line, whatever the order. */
  readonly total?: readonly Cell[] | undefined
  /** The line in place of an empty table. */
  readonly none?: string
  /** Lines below the table, unless columns are chosen. */
  readonly notes?: readonly string[]
}

/** The name of a column in options: its words in capitals. `LAST USED` is `last-used`, `PRICE in / out` is `price`. */
const nameOf = (heading: string): string =>
  (/^[A-Z#/ ]+/.exec(heading)?.[0] ?? heading)
    .trim()
    .toLowerCase()
    .replace(/[ /_-]/g, '-')

const columnOf = (option: string, given: string, headings: readonly string[]): number => {
  const names = headings.map(nameOf)
  const at = names.indexOf(nameOf(given.trim().toUpperCase()))
  if (at >= 0) return at
  const [near] = nearest(given.trim(), names)
  const hint = near === undefined ? '' : ` Did you mean ${near}?`
  throw new CliError(
    EXIT.usage,
    `${option}: there is no column "${given.trim()}".${hint} Columns: ${names.join(', ')}.`,
  )
}

/** A number in a table: digits in groups, dollars, a percentage. */
const FIGURE = /^-?\$?[0-9][0-9,]*(?:\.[0-9]+)?(?: %)?$/

const sortValue = (cell: Cell | undefined): number | string => {
  if (typeof cell === 'object' && cell.sort !== undefined) return cell.sort
  const text = textOf(cell)
  return FIGURE.test(text) ? Number(text.replace(/[$,%\s]/g, '')) : text
}

/** Numbers descend, texts ascend, and what has no value is last. */
const compare = (a: number | string, b: number | string): number => {
  if (typeof a === 'number' && typeof b === 'number') return b - a
  if (typeof a === 'number') return -1
  if (typeof b === 'number') return 1
  return a.localeCompare(b, 'en', { numeric: true })
}

const isEmpty = (value: number | string): boolean => value === '–' || value === ''

const sorted = <Row>({ headings, rows, cells }: Listing<Row>, sort: string | undefined): readonly Row[] => {
  if (sort === undefined) return rows
  const isReversed = sort.startsWith('-')
  const column = columnOf('--sort', isReversed ? sort.slice(1) : sort, headings)
  return rows
    .map((row) => ({ row, value: sortValue(cells(row)[column]) }))
    .toSorted((a, b) => {
      if (isEmpty(a.value) || isEmpty(b.value)) return Number(isEmpty(a.value)) - Number(isEmpty(b.value))
      return isReversed ? compare(b.value, a.value) : compare(a.value, b.value)
    })
    .map(({ row }) => row)
}

/** A list as `--json` prints it. */
const listed = <Row>(data: readonly Row[]): unknown => ({ object: 'list', data })

/**
 * Prints rows as a table. `value`: what `--json` prints of the sorted rows, if it is more than the list. Throws `CliError` for an
 * unknown column.
 */
export const answerList = <Row>(
  cli: Cli,
  { sort, columns }: ListingOptions,
  listing: Listing<Row>,
  value: (rows: readonly Row[]) => unknown = listed,
): void => {
  const { headings, cells, total, none, notes = [] } = listing
  const chosen = columns?.split(',').map((name) => columnOf('--columns', name, headings))
  const rows = sorted(listing, sort)
  cli.answer(value(rows), () => {
    if (rows.length === 0 && none !== undefined) return [none]
    const all = [...rows.map(cells), ...(total ? [total] : [])]
    const count = columnsThatFit(headings, all, cli.width)
    const shown = chosen ?? headings.map((_, at) => at).slice(0, count)
    const hidden = chosen ? [] : headings.slice(count)
    return [
      ...table(
        shown.map((at) => headings[at] ?? ''),
        all.map((row) => shown.map((at) => row[at] ?? '')),
        cli,
      ),
      ...(hidden.length === 0
        ? []
        : wrappedText(`not shown, see --columns: ${hidden.map(nameOf).join(', ')}`, cli).map(cli.paint.dim)),
      ...(chosen ? [] : notes),
    ]
  })
}
