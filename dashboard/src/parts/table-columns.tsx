/** The heads and widths of the columns of a table. Widths follow the content, and can be changed with pointer and keyboard. */
import { type Signal, useSignal } from '@preact/signals'
import type { ComponentChild, ComponentChildren, RefObject } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { density, store, stored } from '../store.ts'
import { en } from '../words/en.ts'
import { type ColumnSpace, columnWidths, hiddenColumns } from './column-widths.ts'

export type Column<Row> = {
  readonly id: string
  readonly head: string
  readonly cell: (row: Row) => ComponentChild
  /** `end` for numbers. */
  readonly align?: 'end'
  /** CSS width, the least of a column with `text`; absent: a share of the rest. */
  readonly width?: string
  /** The text by which the column is as wide as its longest one, as far as there is room. */
  readonly text?: (row: Row) => string
  /** Texts that are never cut, such as times. */
  readonly fits?: () => readonly string[]
  /** Columns with the highest number are hidden first where there is no room; absent: never. */
  readonly drop?: number
  /** The value of `sort=` for this column; absent: it cannot be sorted by. */
  readonly sort?: string
  /** The first click sorts ascending. */
  readonly startsUp?: boolean
}

export type Sorting<Row> = {
  /** The present value of `sort=`; `-` is descending, and empty is `unsorted`. */
  readonly by: string
  /** What the order without a value is; absent: there is always a value. */
  readonly unsorted?: string
  readonly change: (by: string) => void
  /** Columns that cards can be sorted by; absent: those of the table. */
  readonly columns?: readonly Column<Row>[]
}

/** px: of a column without a width, beside the text of a cell, the most for a text, and what a user can choose. */
const REST = { least: 140, wanted: 220 }
const PADDING = 18
/** px: both borders of a table, which its columns do not have. */
const BORDERS = 2
const MOST = 340
const CHOSEN = { least: 48, most: 900, step: 16 }

type Widths = Readonly<Record<string, number>>

const storedWidths = (name: string | undefined): Widths => {
  try {
    const value: unknown = JSON.parse((name && stored(`widths.${name}`)) || '{}')
    const entries = Object.entries(Object(value)).filter((entry): entry is [string, number] =>
      Number.isFinite(entry[1]),
    )
    return Object.fromEntries(entries)
  } catch {
    return {}
  }
}

/** A CSS width in px: `7rem`, `60px`, `20%`. */
const pixels = (width: string, room: number): number => {
  const size = Number.parseFloat(width)
  if (width.endsWith('%')) return (size * room) / 100
  return width.endsWith('rem') ? size * Number.parseFloat(getComputedStyle(document.documentElement).fontSize) : size
}

/** The width of the widest of some texts in a table, in px. */
const widest = (frame: HTMLElement, texts: readonly string[]): number => {
  const element = document.createElement('div')
  element.className = 'table-measure'
  element.textContent = texts.join('\n')
  frame.append(element)
  const width = element.getBoundingClientRect().width
  element.remove()
  return Math.ceil(width)
}

type LayoutInput<Row> = {
  readonly columns: readonly Column<Row>[]
  /** Those whose texts are measured. */
  readonly rows: readonly Row[]
  readonly name: string | undefined
  readonly isCards: boolean
}

export type ColumnLayout<Row> = {
  readonly frame: RefObject<HTMLDivElement | null>
  readonly shown: readonly Column<Row>[]
  readonly hidden: readonly Column<Row>[]
  /** px of the shown columns; null: not measured, or the rest of the room. */
  readonly widths: readonly (number | null)[]
  /** px that the user chose; null: the column gets its own width again. Absent: widths cannot be chosen. */
  readonly choose?: (id: string, width: number | null) => void
  readonly isAll: Signal<boolean>
}

/** The widths of all columns before they share the room. A column's longest text so far counts. */
const useSpaces = <Row,>({ columns, rows, isCards }: LayoutInput<Row>, frame: RefObject<HTMLDivElement | null>) => {
  const measured = useSignal<Widths>({})
  const before = useRef<{ readonly key: string; readonly texts: Map<string, string> }>({ key: '', texts: new Map() })
  useLayoutEffect(() => {
    const element = frame.current
    if (!element || isCards) return
    const key = `${density.value} ${columns.map(({ id }) => id)}`
    const known = before.current.key === key ? before.current.texts : new Map<string, string>()
    before.current = { key, texts: known }
    const changed = columns.flatMap(({ id, head, sort, text, fits }) => {
      if (!text && !fits) return []
      const texts = [
        sort === undefined ? head : `${head} ▼`,
        ...(fits?.() ?? []),
        ...rows.map((row) => text?.(row) ?? ''),
      ]
      const all = [...new Set(texts)].join('\n')
      if (known.get(id) === all) return []
      const isNew = !known.has(id)
      known.set(id, all)
      const width = widest(element, [all]) + PADDING
      return isNew || width > (measured.peek()[id] ?? 0) ? [[id, width] as const] : []
    })
    if (changed.length > 0) measured.value = { ...measured.peek(), ...Object.fromEntries(changed) }
  })
  return measured
}

const useRoom = (frame: RefObject<HTMLDivElement | null>): Signal<number> => {
  const room = useSignal(0)
  useLayoutEffect(() => {
    const element = frame.current
    if (!element) return
    const measure = () => {
      room.value = Math.max(0, element.clientWidth - BORDERS)
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return room
}

/** Which columns there is room for, and how wide they are. */
export const useColumns = <Row,>(input: LayoutInput<Row>): ColumnLayout<Row> => {
  const { columns, name, isCards } = input
  const frame = useRef<HTMLDivElement>(null)
  const room = useRoom(frame).value
  const measured = useSpaces(input, frame).value
  const chosen = useSignal<Widths>(useMemo(() => storedWidths(name), [name]))
  const isAll = useSignal(false)
  const spaceOf = ({ id, width, text, fits, drop = 0 }: Column<Row>): ColumnSpace => {
    const own = chosen.value[id]
    if (own !== undefined) return { least: own, wanted: own, isFixed: false, drop }
    const least = width === undefined ? REST.least : pixels(width, room)
    if (fits) return { least, wanted: measured[id] ?? least, isFixed: true, drop }
    if (!text) return { least, wanted: width === undefined ? REST.wanted : least, isFixed: false, drop }
    const wanted = Math.min(MOST, measured[id] ?? least)
    return { least: Math.min(least, wanted), wanted, isFixed: false, drop }
  }
  const spaces = columns.map(spaceOf)
  const dropped = room === 0 || isCards || isAll.value ? new Set<number>() : hiddenColumns(spaces, room)
  const shown = columns.filter((_, at) => !dropped.has(at))
  const widths = columnWidths(
    spaces.filter((_, at) => !dropped.has(at)),
    room,
  )
  const choose = (id: string, width: number | null) => {
    const { [id]: _before, ...others } = chosen.value
    const next = width === null ? others : { ...others, [id]: width }
    chosen.value = next
    store(`widths.${name}`, Object.keys(next).length === 0 ? null : JSON.stringify(next))
  }
  const isRest = ({ id, width, text }: Column<Row>) => width === undefined && !text && chosen.value[id] === undefined
  return {
    frame,
    shown,
    hidden: columns.filter((_, at) => dropped.has(at)),
    widths: shown.map((column, at) => (room === 0 || isRest(column) ? null : (widths[at] ?? null))),
    ...(name !== undefined && { choose }),
    isAll,
  }
}

type HeadsProps<Row> = {
  readonly layout: ColumnLayout<Row>
  readonly sort: Sorting<Row> | undefined
  readonly isCards: boolean
}

/** The heads and widths of the columns; of cards for screen readers only. */
export const Heads = <Row,>({ layout: { shown, widths, choose }, sort, isCards }: HeadsProps<Row>) => (
  <>
    {!isCards && (
      <colgroup>
        {shown.map(({ id, width }, at) => {
          const px = widths[at]
          return <col key={id} style={px != null ? { width: `${px}px` } : width === undefined ? {} : { width }} />
        })}
      </colgroup>
    )}
    <thead class={isCards ? 'sr-only' : undefined}>
      <tr aria-rowindex={1}>
        {shown.map((column, at) => (
          <Head key={column.id} column={column} sort={isCards ? undefined : sort} order={shown.length - at}>
            {!isCards && choose && at < shown.length - 1 && (
              <Separator column={column} choose={(width) => choose(column.id, width)} />
            )}
          </Head>
        ))}
      </tr>
    </thead>
  </>
)

type ColumnHeadProps<Row> = {
  readonly column: Column<Row>
  readonly sort: Sorting<Row> | undefined
  /** Earlier heads are above later ones: a separator is on both sides of its line. */
  readonly order: number
  readonly children: ComponentChildren
}

const Head = <Row,>({ column, sort, order, children }: ColumnHeadProps<Row>) => {
  const { head, align, sort: by } = column
  const style = { zIndex: order }
  if (by === undefined || !sort)
    return (
      <th scope="col" class={align} style={style}>
        <span class="head-text">{head}</span>
        {children}
      </th>
    )
  const direction = sort.by === by ? 'ascending' : sort.by === `-${by}` ? 'descending' : 'none'
  return (
    <th scope="col" class={align} aria-sort={direction} style={style}>
      <button
        type="button"
        class="head-button"
        onClick={() =>
          sort.change((direction === 'none' ? column.startsUp : direction === 'descending') ? by : `-${by}`)
        }
      >
        {head}
        <span aria-hidden="true">{direction === 'ascending' ? ' ▲' : direction === 'descending' ? ' ▼' : ''}</span>
      </button>
      {children}
    </th>
  )
}

type SeparatorProps<Row> = { readonly column: Column<Row>; readonly choose: (width: number | null) => void }

const bounded = (width: number): number => Math.round(Math.max(CHOSEN.least, Math.min(CHOSEN.most, width)))

/** Changes the width of a column: dragged, or with the arrows; Enter and a double click give it its own width again. */
const Separator = <Row,>({ column, choose }: SeparatorProps<Row>) => {
  const element = useRef<HTMLSpanElement>(null)
  const width = useSignal(CHOSEN.least)
  const start = useRef({ x: 0, width: 0 })
  /** 1, or -1 where text runs from right to left. */
  const side = () => (element.current?.matches(':dir(rtl)') ? -1 : 1)
  const measure = () => {
    width.value = bounded(element.current?.closest('th')?.offsetWidth ?? 0)
    return width.value
  }
  const keyed = (event: KeyboardEvent) => {
    const now = measure()
    const next = {
      ArrowRight: now + CHOSEN.step * side(),
      ArrowLeft: now - CHOSEN.step * side(),
      Home: CHOSEN.least,
      End: CHOSEN.most,
      Enter: null,
    }[event.key]
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    event.stopPropagation()
    choose(next === null ? null : bounded(next))
    requestAnimationFrame(measure)
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: a line that moves is no hr
    <span
      ref={element}
      role="separator"
      class="head-separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={en.table.width(column.head)}
      title={en.table.widthAbout}
      aria-valuenow={width.value}
      aria-valuemin={CHOSEN.least}
      aria-valuemax={CHOSEN.most}
      onFocus={measure}
      onKeyDown={keyed}
      onDblClick={() => choose(null)}
      onPointerDown={(event) => {
        if (event.button !== 0) return
        event.currentTarget.setPointerCapture(event.pointerId)
        start.current = { x: event.clientX, width: measure() }
      }}
      onPointerMove={(event) => {
        if (!event.currentTarget.hasPointerCapture(event.pointerId)) return
        const moved = (event.clientX - start.current.x) * side()
        if (moved === 0) return
        width.value = bounded(start.current.width + moved)
        choose(width.value)
      }}
    />
  )
}

/** Which columns are hidden, with a button that shows them. */
export const HiddenColumns = <Row,>({ layout: { hidden, isAll } }: { readonly layout: ColumnLayout<Row> }) =>
  hidden.length === 0 && !isAll.value ? null : (
    <p class="table-hidden dim small">
      {isAll.value
        ? en.table.squeezed
        : `${en.table.hidden(hidden.length)}: ${hidden.map(({ head }) => head).join(', ')}`}{' '}
      <button
        type="button"
        class="button quiet small"
        onClick={() => {
          isAll.value = !isAll.value
        }}
      >
        {isAll.value ? en.table.hideAgain : en.table.showHidden}
      </button>
    </p>
  )
