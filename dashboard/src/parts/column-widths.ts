/** The widths of the columns of a table: by their content, as far as there is room. Pure. */

/** All in px. */
export type ColumnSpace = {
  /** The width below which the column is of no use. */
  readonly least: number
  /** The width of its longest text. */
  readonly wanted: number
  /** It keeps its wanted width. */
  readonly isFixed: boolean
  /** Columns with the highest number are hidden first where there is no room; 0: never. */
  readonly drop: number
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const leastOf = ({ isFixed, least, wanted }: ColumnSpace): number => (isFixed ? wanted : least)

/** The indices of the columns that have no room. */
export const hiddenColumns = (columns: readonly ColumnSpace[], room: number): ReadonlySet<number> => {
  const hidden = new Set<number>()
  const order = columns
    .flatMap(({ drop }, at) => (drop > 0 ? [{ drop, at }] : []))
    .toSorted((a, b) => b.drop - a.drop || b.at - a.at)
  let needed = sum(columns.map(leastOf))
  for (const { at } of order) {
    if (needed <= room) break
    const column = columns[at]
    if (column) needed -= leastOf(column)
    hidden.add(at)
  }
  return hidden
}

/** The width of each column. If not all get what they want, those that are not fixed become smaller in proportion. */
export const columnWidths = (columns: readonly ColumnSpace[], room: number): readonly number[] => {
  const over = sum(columns.map(({ wanted }) => wanted)) - room
  if (over <= 0) return columns.map(({ wanted }) => wanted)
  const spare = sum(columns.map((column) => column.wanted - leastOf(column)))
  if (spare >= over) return columns.map((column) => column.wanted - (over * (column.wanted - leastOf(column))) / spare)
  const fixed = sum(columns.map(({ isFixed, wanted }) => (isFixed ? wanted : 0)))
  const share = Math.max(0, room - fixed) / Math.max(1, sum(columns.map(leastOf)) - fixed)
  return columns.map((column) => (column.isFixed ? column.wanted : column.least * share))
}
