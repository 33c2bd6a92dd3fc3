/**
 * A table of any length: only the rows near the window are in the document. Rows are reached with j, k and the arrows, opened
 * with Enter or a click, and become cards where there is no room for columns.
 */
import { type Signal, useSignal } from '@preact/signals'
import { type ComponentChild, Fragment } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { bind } from '../shortcuts.ts'
import { density, isNarrow, isTight } from '../store.ts'
import { en } from '../words/en.ts'
import { type Column, Heads, HiddenColumns, type Sorting, useColumns } from './table-columns.tsx'

export type { Column, Sorting } from './table-columns.tsx'

export type TableProps<Row> = {
  /** What the rows are, for screen readers. */
  readonly label: string
  /** The name of the list in the browser's storage, for the widths that a user chose; absent: they cannot be chosen. */
  readonly name?: string
  /** Receives the heads of the columns that have no room; absent: the table names them above its rows. */
  readonly hidden?: Signal<readonly string[]>
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  /** The row as a card, where there is no room for columns. */
  readonly card: (row: Row) => ComponentChild
  /** The number of all rows, if `rows` are only the first; null: it is not known. */
  readonly count?: number | null
  readonly open?: (row: Row) => void
  /** The key of the open row. */
  readonly opened?: string | null
  /** The key of a row whose details were shown instead of the table: it has the focus. */
  readonly left?: string | null
  /** px of a row: comfortable, compact, card. */
  readonly heights?: RowHeights
  /** Rows are cards below this width: 640 px, which is usual, or 1024 px, for tables with many columns. */
  readonly cardsBelow?: 'narrow' | 'tight'
  /** The end of the rows is near. */
  readonly onEnd?: () => void
  readonly sort?: Sorting<Row>
  /** Keys of ticked rows; absent: rows cannot be ticked. */
  readonly ticked?: Signal<ReadonlySet<string>>
}

type RowHeights = { readonly comfortable: number; readonly compact: number; readonly card: number }
const HEIGHTS: RowHeights = { comfortable: 44, compact: 32, card: 76 }
/** Rows outside the window that are in the document. */
const OVERSCAN = 8
/** Rows before the end from which on more are read. */
const NEAR_END = 30
/** px that the sticky bars cover at the top and at the bottom. */
const COVERED = { top: 96, bottom: 72 }

/** The rows that are in the document: those in the window and around it, and `kept`; again when the window moves. */
const useWindow = (count: number, size: number, kept: number) => {
  const body = useRef<HTMLTableSectionElement>(null)
  const range = useSignal({ from: 0, to: 2 * OVERSCAN + Math.ceil(window.innerHeight / size) })
  useLayoutEffect(() => {
    const measure = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0
      // A table outside the window keeps some rows.
      const from = Math.max(0, Math.min(Math.floor(-top / size), count) - OVERSCAN)
      const to = Math.max(Math.ceil((window.innerHeight - top) / size), from) + OVERSCAN
      // Some rows of play, so that not every row that is passed renders all.
      const { from: first, to: last } = range.value
      if (Math.abs(from - first) > OVERSCAN / 2 || Math.abs(to - last) > OVERSCAN / 2 || from === 0)
        if (from !== first || to !== last) range.value = { from, to }
    }
    measure()
    window.addEventListener('scroll', measure, { passive: true })
    window.addEventListener('resize', measure)
    // What is above the table moves it: a notice, a chart, a fold.
    const layout = new ResizeObserver(measure)
    layout.observe(document.body)
    return () => {
      window.removeEventListener('scroll', measure)
      window.removeEventListener('resize', measure)
      layout.disconnect()
    }
  }, [count, size])
  const { from, to } = range.value
  const shown = Array.from({ length: Math.max(0, Math.min(count, to) - from) }, (_, at) => from + at)
  if (kept >= 0 && kept < count && !shown.includes(kept)) shown.push(kept)
  /** Scrolls a row between the bars. */
  const reveal = (index: number) => {
    const top = (body.current?.getBoundingClientRect().top ?? 0) + index * size
    const hidden = top < COVERED.top ? top - COVERED.top : top + size - (window.innerHeight - COVERED.bottom)
    if (top < COVERED.top || hidden > 0) window.scrollBy(0, hidden)
  }
  return { body, shown: shown.sort((a, b) => a - b), last: Math.min(count, to) - 1, reveal }
}

/** The row of the shortcuts j and k: focus moves with it, and returns to it. */
const useRows = <Row,>({ rows, keyOf, open, ticked }: TableProps<Row>) => {
  const active = useSignal<string | null>(null)
  const at = rows.findIndex((row) => keyOf(row) === active.value)
  const latest = useRef({ rows, keyOf, open, ticked, at })
  latest.current = { rows, keyOf, open, ticked, at }
  return { active, at, latest }
}

type Rows<Row> = ReturnType<typeof useRows<Row>>
type RowWindow = ReturnType<typeof useWindow>

/** Moves the focus to a row, which may not be in the document yet. */
const focusIn =
  <Row,>({ active, latest }: Rows<Row>, { body, reveal }: RowWindow) =>
  (index: number): void => {
    const { rows, keyOf } = latest.current
    const row = rows[index]
    if (!row) return
    active.value = keyOf(row)
    reveal(index)
    requestAnimationFrame(() =>
      body.current?.querySelector<HTMLElement>(`tr[data-index="${index}"]`)?.focus({ preventScroll: true }),
    )
  }

/** The shortcuts of a list. */
const useKeys = <Row,>({ latest }: Rows<Row>, { body }: RowWindow, focusRow: (index: number) => void): void => {
  useEffect(() => {
    const move = (step: number) => () => {
      const { rows, at } = latest.current
      if (rows.length === 0) return false
      focusRow(at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + step)))
      return true
    }
    const act = (run: (row: Row) => void) => () => {
      const row = latest.current.rows[latest.current.at]
      if (!row || !body.current?.contains(document.activeElement)) return false
      run(row)
      return true
    }
    const openRow = act((row) => latest.current.open?.(row))
    const tickRow = act((row) => {
      const { ticked, keyOf } = latest.current
      if (ticked) tick(ticked, keyOf(row))
    })
    const bound = [bind('next', move(1)), bind('previous', move(-1)), bind('open', openRow), bind('tick', tickRow)]
    return () => {
      for (const unbind of bound) unbind()
    }
  }, [])
}

/** When the details close, the focus returns to the row. */
const useReturn = <Row,>(
  { opened = null, left = null }: TableProps<Row>,
  { latest }: Rows<Row>,
  focusRow: (index: number) => void,
): void => {
  const before = useRef<string | null>(opened ?? left)
  useEffect(() => {
    const was = before.current
    before.current = opened
    if (opened !== null || was === null) return
    const { rows, keyOf } = latest.current
    const index = rows.findIndex((row) => keyOf(row) === was)
    if (index >= 0) focusRow(index)
  }, [opened])
}

type LineProps<Row> = {
  readonly table: TableProps<Row>
  readonly columns: readonly Column<Row>[]
  readonly row: Row
  readonly index: number
  readonly size: number
  readonly isCard: boolean
  /** Reached with Tab. */
  readonly isFirst: boolean
  readonly active: Signal<string | null>
}

const Line = <Row,>({ table, columns, row, index, size, isCard, isFirst, active }: LineProps<Row>) => {
  const { keyOf, card, open, opened = null } = table
  const key = keyOf(row)
  const clicked = (event: MouseEvent) => {
    const target = event.target instanceof Element ? event.target : null
    if (!open || target?.closest('a, button, input, label, summary')) return
    if (event.ctrlKey || event.metaKey || window.getSelection()?.isCollapsed === false) return
    active.value = key
    open(row)
  }
  return (
    <tr
      data-index={index}
      aria-rowindex={index + 2}
      aria-selected={opened === key}
      class={open ? 'openable' : undefined}
      style={{ height: `${size}px` }}
      tabIndex={isFirst ? 0 : -1}
      onFocus={() => {
        active.value = key
      }}
      onClick={clicked}
    >
      {isCard ? (
        <td colSpan={columns.length}>{card(row)}</td>
      ) : (
        columns.map((column) => (
          <td key={column.id} class={column.align}>
            {column.cell(row)}
          </td>
        ))
      )}
    </tr>
  )
}

export const Table = <Row,>(props: TableProps<Row>) => {
  const { label, rows, keyOf, count = rows.length, heights = HEIGHTS, cardsBelow } = props
  const isCards = (cardsBelow === 'tight' ? isTight : isNarrow).value
  const size = isCards ? heights.card : heights[density.value]
  const present = useRows(props)
  const { active, at } = present
  const inWindow = useWindow(rows.length, size, at)
  const layout = useColumns({
    columns: props.columns,
    rows: rows.filter((_, index) => inWindow.shown.includes(index)),
    name: props.name,
    isCards,
  })
  const columns = layout.shown
  const heads = layout.hidden.map(({ head }) => head).join('\n')
  useEffect(() => {
    if (props.hidden) props.hidden.value = heads === '' ? [] : heads.split('\n')
  }, [heads])
  const focusRow = focusIn(present, inWindow)
  useKeys(present, inWindow, focusRow)
  useReturn(props, present, focusRow)
  const isNearEnd = rows.length > 0 && inWindow.last >= rows.length - NEAR_END
  useEffect(() => {
    if (isNearEnd) props.onEnd?.()
  }, [isNearEnd, rows.length])

  let end = 0
  const lines = inWindow.shown.flatMap((index) => {
    const row = rows[index]
    if (!row) return []
    const key = keyOf(row)
    const gap = index - end
    end = index + 1
    const isFirst = active.value === key || (at < 0 && index === 0)
    const line = (
      <Line key={key} table={props} columns={columns} isCard={isCards} {...{ row, index, size, isFirst, active }} />
    )
    return gap > 0 ? [<Spacer key={`before-${index}`} height={gap * size} columns={columns.length} />, line] : [line]
  })
  const rest = (rows.length - end) * size
  return (
    <div class="table-room" ref={layout.frame}>
      {!props.hidden && <HiddenColumns layout={layout} />}
      {isCards && props.sort && <SortMenu columns={columns} sort={props.sort} />}
      <table
        class="table"
        data-columns={isCards ? undefined : (cardsBelow ?? 'narrow')}
        aria-label={label}
        aria-rowcount={count === null ? -1 : count + 1}
      >
        <Heads layout={layout} sort={props.sort} isCards={isCards} />
        <tbody ref={inWindow.body}>
          {lines}
          {rest > 0 && <Spacer key="after" height={rest} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  )
}

/** Sorts cards, which have no heads. */
const SortMenu = <Row,>({
  columns,
  sort,
}: {
  readonly columns: readonly Column<Row>[]
  readonly sort: Sorting<Row>
}) => (
  <label class="table-sort">
    {en.table.sort}
    <select value={sort.by} onChange={({ currentTarget }) => sort.change(currentTarget.value)}>
      {sort.unsorted !== undefined && <option value="">{sort.unsorted}</option>}
      {(sort.columns ?? columns).map(
        ({ head, sort: by }) =>
          by !== undefined && (
            <Fragment key={by}>
              <option value={`-${by}`}>{en.table.descending(head)}</option>
              <option value={by}>{en.table.ascending(head)}</option>
            </Fragment>
          ),
      )}
    </select>
  </label>
)

const tick = (ticked: Signal<ReadonlySet<string>>, key: string): void => {
  const next = new Set(ticked.value)
  if (!next.delete(key)) next.add(key)
  ticked.value = next
}

const Spacer = ({ height, columns }: { readonly height: number; readonly columns: number }) => (
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row is not focusable
  <tr class="spacer" aria-hidden="true">
    <td colSpan={columns} style={{ height: `${height}px` }} />
  </tr>
)

/** The button for rows that wait while the list is not at its top. */
export const NewRows = ({ count, show }: { readonly count: number; readonly show: () => void }) =>
  count === 0 ? null : (
    <button type="button" class="button new-rows" onClick={show}>
      ↑ {en.table.newRows(count)}
    </button>
  )
