/** The text of an export: CSV (RFC 4180) or JSON lines. */
import type { ExportPage } from './queries.ts'

export type ExportCell = string | number | null

/** A line without its end. */
export const csvLine = (cells: readonly ExportCell[]): string => cells.map(csvCell).join(',')

/** Columns at the end of each line: the names of team and key, also of those that were deleted. */
const NAME_COLUMNS = ['team_name', 'key_name'] as const

export type NamesById = { readonly [kind in 'team' | 'key']: (id: string) => string | null }

/** A page with names and line ends. */
export const exportText = (format: 'csv' | 'jsonl', { columns, lines }: ExportPage, names: NamesById): string => {
  let result = columns && format === 'csv' ? `${csvLine([...columns, ...NAME_COLUMNS])}\r\n` : ''
  for (const { text, team, key } of lines) {
    const values = [team === null ? null : names.team(team), key === null ? null : names.key(key)]
    const named = NAME_COLUMNS.map((column, at) => `${JSON.stringify(column)}:${JSON.stringify(values[at] ?? null)}`)
    // The text of a row is an object with members.
    result += format === 'csv' ? `${text},${csvLine(values)}\r\n` : `${text.slice(0, -1)},${named.join()}}\n`
  }
  return result
}

/**
 * Spreadsheets evaluate cells that begin with one of these as formulas, also in full width or as small forms. Some of them
 * ignore blanks, control and invisible characters before it (OWASP, CSV injection).
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Cc}\p{Cf}]*[=+\-@\u2212\uFF1D\uFF0B\uFF0D\uFF20\uFE66\uFE62\uFE63\uFE6B])/u

const csvCell = (value: ExportCell): string => {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = FORMULA.test(value) && !AMOUNT.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) || text !== value ? `"${text.replaceAll('"', '""')}"` : text
}

/** A negative amount is a number. */
const AMOUNT = /^-[0-9]+\.[0-9]{9}$/
