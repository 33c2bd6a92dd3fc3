/**
 * Charts over time as inline SVG: `Bars` are counts, stacked and patterned, and `Lines` are levels. Both have a sentence that
 * sums them up, take arrow keys, share the time pointed at with all charts of the page, and can be shown as a table. A click, a
 * drag, or Enter makes the range of the page that of an interval or of several.
 */
import { signal, useSignal } from '@preact/signals'
import type { ComponentChild, TargetedPointerEvent } from 'preact'
import { clock, csvOf, date, day, minute, moment } from '../format.ts'
import type { ChartBand } from '../incidents.ts'
import type { ChartMark } from '../marks.ts'
import { current, go, isNarrow, isPrinted } from '../store.ts'
import { en } from '../words/en.ts'
import { linePaths, timeTicks, valueTicks } from './chart-scale.ts'
import { copyText } from './states.tsx'
import { useId } from './use-id.ts'

/** One series. `tone`: a token of tokens.css, such as `ok` or `series-2`. */
export type ChartSeries = {
  readonly id: string
  readonly label: string
  readonly tone: string
  /** One value for each time; null is a gap. */
  readonly values: readonly (number | null)[]
  /** Differs in every series of a chart, so that colour is not needed. */
  readonly pattern: 'plain' | 'lines' | 'back' | 'rows' | 'dots' | 'cross' | 'empty'
}

export type ChartProps = {
  readonly title: string
  /** What the chart shows in one sentence. */
  readonly summary: string
  /** Starts of the intervals, in ms since 1970. */
  readonly times: readonly number[]
  /** ms of an interval. By default that between the first two. */
  readonly interval?: number
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
  readonly marks?: readonly ChartMark[]
  readonly bands?: readonly ChartBand[]
  /** Each interval is a date: so is the range of those that are chosen. */
  readonly areDays?: boolean
  readonly height?: number
}

const DAY = 86_400_000

const timeText = ({ times, areDays }: Pick<ChartProps, 'times' | 'areDays'>, at: number): string => {
  if (areDays) return date(at)
  const [first = 0, second = first] = times
  const span = (times.at(-1) ?? first) - first
  if (second - first >= DAY) return day(at)
  return span > 2 * DAY ? moment(at) : span > 3_600_000 ? minute(at) : clock(at)
}

const valuesText = (chart: ChartProps, at: number, interval: number): string => {
  const { times, series, format, bands = [] } = chart
  const time = times[at]
  if (time === undefined) return ''
  const during = bands.filter(({ from, to }) => from < time + interval && to >= time).map(({ text }) => text)
  const values = series.flatMap(({ label, values: all }) => {
    const value = all[at]
    return value === null || value === undefined ? [] : `${label} ${format(value)}`
  })
  return [timeText(chart, time), ...values, ...during].join(' · ')
}

const cellsOf = ({ times, series }: ChartProps) => [
  ['time', ...series.map(({ label }) => label)],
  ...times.map((time, at) => [new Date(time).toISOString(), ...series.map(({ values }) => values[at] ?? '')]),
]

const DataTable = (props: ChartProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard
  <section class="scroll-x" tabIndex={0} aria-label={props.title}>
    <table class="data-table">
      <caption class="sr-only">{props.summary}</caption>
      <thead>
        <tr>
          <th scope="col">{en.chart.time}</th>
          {props.series.map(({ id, label }) => (
            <th key={id} scope="col">
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {props.times.map((time, at) => (
          <tr key={time}>
            <td>{timeText(props, time)}</td>
            {props.series.map(({ id, values }) => {
              const value = values[at]
              return <td key={id}>{value === null || value === undefined ? '–' : props.format(value)}</td>
            })}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

/** The pattern of a series, as the content of an SVG pattern of 6 × 6 px. */
const PATTERNS: { readonly [name in ChartSeries['pattern']]: ComponentChild } = {
  plain: <rect width="6" height="6" fill="currentColor" />,
  lines: <path d="M-1 1 1 -1M0 6 6 0M5 7 7 5" stroke="currentColor" stroke-width="2" />,
  back: <path d="M-1 5 1 7M0 0 6 6M5 -1 7 1" stroke="currentColor" stroke-width="2" />,
  rows: <path d="M0 1.5H6M0 4.5H6" stroke="currentColor" stroke-width="1.4" />,
  dots: <circle cx="3" cy="3" r="1.6" fill="currentColor" />,
  cross: <path d="M0 0 6 6M6 0 0 6" stroke="currentColor" stroke-width="1.4" />,
  empty: <rect width="6" height="6" fill="currentColor" opacity="0.25" />,
}

const DASHES: { readonly [name in ChartSeries['pattern']]: string } = {
  plain: '',
  lines: '8 4',
  back: '12 4',
  rows: '1 2',
  dots: '2 3',
  cross: '10 3 2 3',
  empty: '4 4',
}

/** Width of the drawing in its own units. */
const WIDTH = 1_000

type Scale = {
  /** Width of an interval. */
  readonly step: number
  readonly height: number
  readonly y: (value: number) => number
}

/** What differs between bars and lines. `id` is the prefix of the patterns. */
type Kind = {
  /** px above the greatest value: bars have its text there. */
  readonly room: number
  readonly greatest: (chart: Pick<ChartProps, 'times' | 'series'>) => number
  readonly swatch: (series: ChartSeries, id: string) => ComponentChild
  readonly draw: (chart: ChartProps, scale: Scale, id: string) => ComponentChild
}

const stackOf = ({ series }: ChartProps, { step, y, height }: Scale, id: string, index: number): ComponentChild => {
  let top = height
  return series.map(({ id: name, tone, values }) => {
    const value = values[index] ?? 0
    if (value <= 0) return null
    const size = Math.max(1.5, height - y(value))
    top -= size
    return (
      <rect
        key={name}
        class={`tone-${tone}`}
        x={index * step + 0.5}
        y={Math.max(0, top)}
        width={Math.max(1, step - 1.5)}
        height={size}
        fill={`url(#${id}-${name})`}
      />
    )
  })
}

const BARS: Kind = {
  room: 16,
  greatest: ({ times, series }) =>
    Math.max(0, ...times.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))),
  swatch: ({ id: name, tone }, id) => (
    <svg class={`tone-${tone}`} viewBox="0 0 18 10" aria-hidden="true">
      <rect width="18" height="10" fill={`url(#${id}-${name})`} stroke="currentColor" />
    </svg>
  ),
  draw: (chart, scale, id) => (
    <>
      <defs>
        {chart.series.map(({ id: name, tone, pattern }) => (
          <pattern
            key={name}
            id={`${id}-${name}`}
            class={`tone-${tone}`}
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
          >
            {PATTERNS[pattern]}
          </pattern>
        ))}
      </defs>
      {chart.times.map((_, index) => stackOf(chart, scale, id, index))}
    </>
  ),
}

const LINES: Kind = {
  room: 4,
  greatest: ({ series }) => Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))),
  swatch: ({ tone, pattern }) => (
    <svg class={`tone-${tone}`} viewBox="0 0 18 10" aria-hidden="true">
      <path d="M0 5H18" stroke="currentColor" stroke-width="2" stroke-dasharray={DASHES[pattern]} />
    </svg>
  ),
  draw: ({ series }, { step, y }) =>
    series.map(({ id, tone, pattern, values }) => {
      const { line, points } = linePaths(values, (at) => (at + 0.5) * step, y)
      return (
        <g key={id} class={`line tone-${tone}`}>
          <path stroke-dasharray={DASHES[pattern]} d={line} />
          <path class="points" d={points} />
        </g>
      )
    }),
}

/** Arrow keys, Home and End move over the points. */
const moved = (key: string, at: number, count: number): number | null => {
  const last = count - 1
  switch (key) {
    case 'ArrowLeft':
      return Math.max(0, at < 0 ? last : at - 1)
    case 'ArrowRight':
      return Math.min(last, at + 1)
    case 'Home':
      return 0
    case 'End':
      return last
    case 'Escape':
      return -1
    default:
      return null
  }
}

/** The time pointed at in one chart of the page, ms since 1970. */
const pointed = signal<{ readonly time: number; readonly chart: string } | null>(null)

const tickText = (step: number, time: number): string => {
  if (step < 60_000) return clock(time)
  const at = new Date(time)
  return at.getHours() === 0 && at.getMinutes() === 0 ? day(time) : minute(time)
}

type TimeAxisProps = { readonly from: number; readonly to: number; readonly areDays: boolean }

const TimeAxis = ({ from, to, areDays }: TimeAxisProps) => {
  const offset = areDays ? 0 : -60_000 * new Date(from).getTimezoneOffset()
  const { step, at } = timeTicks({ from, to }, isNarrow.value ? 3 : 6, offset)
  return (
    <div class="plot-times" aria-hidden="true">
      {at.map((time) => (
        <span key={time} style={{ left: `${(100 * (time - from)) / (to - from)}%` }}>
          {areDays ? date(time) : tickText(step, time)}
        </span>
      ))}
    </div>
  )
}

/** Where times and values are drawn. */
const geometryOf = (chart: ChartProps, kind: Kind) => {
  const { times, series, format, height = 64 } = chart
  const count = Math.max(1, times.length)
  const step = WIDTH / count
  const [first = 0, second = first + 60_000] = times
  const interval = chart.interval ?? second - first
  const greatest = kind.greatest({ times, series })
  const y = (value: number) => height - (value / (greatest || 1)) * (height - kind.room)
  const isWhole = series.every(({ values }) => values.every((value) => Number.isInteger(value ?? 0)))
  const ticks = valueTicks(greatest, isWhole).map((value) => ({
    top: y(value),
    text: format(value),
  }))
  return { step, height, y, ticks, first, interval, last: first + interval * count, greatest }
}

type Geometry = ReturnType<typeof geometryOf>

/** The interval that is pointed at in this or another chart; -1: none of this one. */
const pointedAt = ({ first, last, interval }: Geometry): number => {
  const time = pointed.value?.time ?? -1
  return time < first || time >= last ? -1 : Math.floor((time - first) / interval)
}

/** Intervals that are chosen with the pointer or with Shift and the arrow keys: where the choice began, and where it is. */
const useBrush = ({ first, interval }: Geometry, areDays: boolean) => {
  const brush = useSignal<readonly [number, number] | null>(null)
  return {
    brush,
    /** Makes the range of the page that of the chosen intervals. */
    zoom() {
      const [from, to] = sortedBrush(brush.value)
      brush.value = null
      if (to < 0) return
      const isoAt = (index: number) => new Date(first + index * interval).toISOString()
      // A range of dates ends with its last one.
      const dateAt = (index: number) => isoAt(index).slice(0, 10)
      const range = areDays ? { from: dateAt(from), to: dateAt(to) } : { from: isoAt(from), to: isoAt(to + 1) }
      go({ ...current.value, ...range })
    },
  }
}

type Brush = ReturnType<typeof useBrush>

const sortedBrush = (brush: readonly [number, number] | null): readonly [number, number] =>
  brush ? [Math.min(...brush), Math.max(...brush)] : [0, -1]

type DrawingProps = {
  readonly chart: ChartProps
  readonly kind: Kind
  readonly geometry: Geometry
  readonly id: string
}

/** Times at which something lasted or changed, behind the values. */
const Times = ({ chart: { bands = [], marks = [] }, geometry }: Pick<DrawingProps, 'chart' | 'geometry'>) => {
  const { step, height, first, last, interval } = geometry
  const xAt = (time: number) => ((Math.max(first, Math.min(last, time)) - first) / interval) * step
  return (
    <>
      {bands
        .filter(({ from, to }) => from < last && to >= first)
        .map(({ from, to, text }) => (
          <g key={text} class="band">
            <title>{text}</title>
            <rect x={xAt(from)} y="0" width={Math.max(4, xAt(to) - xAt(from))} height={height} />
            <path d={`M${xAt(from)} 1.5h${Math.max(4, xAt(to) - xAt(from))}`} />
          </g>
        ))}
      {marks.map(({ at: time, text }) => (
        <path key={`${time} ${text}`} class="mark" d={`M${xAt(time)} 0V${height}`}>
          <title>{text}</title>
        </path>
      ))}
    </>
  )
}

/** What the keys do: arrows move over the points, with Shift they choose, and Enter makes it the range of the page. */
const keyHandler =
  (at: number, count: number, { brush, zoom }: Brush, point: (next: number) => void) =>
  (event: KeyboardEvent): void => {
    const next = event.key === 'Enter' ? at : moved(event.key, at, count)
    if (next === null || (event.key === 'Enter' && at < 0)) return
    event.preventDefault()
    event.stopPropagation()
    if (event.key === 'Enter') {
      brush.value ??= [at, at]
      zoom()
      return
    }
    brush.value = event.shiftKey && next >= 0 ? [brush.value?.[0] ?? Math.max(0, at), next] : null
    point(next)
  }

/** The text above the greatest bar. */
const Peak = ({ chart, geometry }: Pick<DrawingProps, 'chart' | 'geometry'>) => {
  const { greatest, y } = geometry
  if (greatest <= 0) return null
  const sums = chart.times.map((_, at) => chart.series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const share = (sums.indexOf(greatest) + 0.5) / sums.length
  // At an edge it would be outside.
  const side = share < 0.1 ? 'start' : share > 0.9 ? 'end' : 'middle'
  return (
    <span
      class={`plot-peak ${side}`}
      aria-hidden="true"
      style={{ left: `${100 * share}%`, top: `${Math.max(0, y(greatest) - 16)}px` }}
    >
      {chart.format(greatest)}
    </span>
  )
}

const Drawing = ({ chart, kind, geometry, id }: DrawingProps) => {
  const { times, summary, bands = [], areDays = false } = chart
  const { step, height, ticks, first, interval, last } = geometry
  const choice = useBrush(geometry, areDays)
  const { brush, zoom } = choice
  const at = pointedAt(geometry)
  const point = (next: number) => {
    pointed.value = next < 0 ? null : { time: first + (next + 0.5) * interval, chart: id }
  }
  const indexOf = ({ currentTarget, clientX }: TargetedPointerEvent<SVGSVGElement>): number => {
    const { left, width } = currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(times.length - 1, Math.floor(((clientX - left) / width) * times.length)))
  }
  const [from, to] = sortedBrush(brush.value)
  return (
    <div class="plot">
      <Ticks ticks={ticks} />
      <div class="plot-area">
        <svg
          class="bars"
          viewBox={`0 0 ${WIDTH} ${height}`}
          height={height}
          preserveAspectRatio="none"
          role="img"
          aria-label={[summary, ...bands.slice(0, 5).map(({ text }) => `${text}.`), en.chart.moveHint].join(' ')}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move over the points
          tabIndex={0}
          onKeyDown={keyHandler(at, times.length, choice, point)}
          onBlur={() => point(-1)}
          onPointerDown={(event) => {
            if (event.button !== 0 || times.length === 0) return
            event.currentTarget.setPointerCapture(event.pointerId)
            brush.value = [indexOf(event), indexOf(event)]
          }}
          onPointerMove={(event) => {
            point(indexOf(event))
            if (brush.value) brush.value = [brush.value[0], indexOf(event)]
          }}
          onPointerUp={({ pointerType }) => {
            // A tap shows the values of an interval.
            if (pointerType === 'touch' && from === to) brush.value = null
            else zoom()
          }}
          // The page is scrolled.
          onPointerCancel={() => {
            brush.value = null
          }}
          onPointerLeave={() => {
            if (!brush.value) point(-1)
          }}
        >
          {ticks.map(({ top }) => (
            <path key={top} class={top === height ? 'axis' : 'grid'} d={`M0 ${top}H${WIDTH}`} />
          ))}
          {at >= 0 && <rect class="brush" x={at * step} y="0" width={step} height={height} />}
          <Times chart={chart} geometry={geometry} />
          {kind.draw(chart, geometry, id)}
          {to > from && <rect class="brush" x={from * step} y="0" width={(to + 1 - from) * step} height={height} />}
        </svg>
        {kind === BARS && <Peak chart={chart} geometry={geometry} />}
      </div>
      <TimeAxis from={first} to={last} areDays={areDays} />
    </div>
  )
}

/** The values of the grid. */
const Ticks = ({ ticks }: Pick<Geometry, 'ticks'>) => (
  <div
    class="plot-values"
    aria-hidden="true"
    style={{ width: `${Math.max(...ticks.map(({ text }) => text.length))}ch` }}
  >
    {ticks.map(({ top, text }) => (
      <span key={top} style={{ top: `${top}px` }}>
        {text}
      </span>
    ))}
  </div>
)

/** Title, legend, actions and the spoken value around a drawing. */
const Chart = ({ chart, kind }: { readonly chart: ChartProps; readonly kind: Kind }) => {
  const { title, summary, series } = chart
  const id = useId()
  const isTable = useSignal(false)
  const isText = isTable.value || isPrinted.value
  const geometry = geometryOf(chart, kind)
  const at = pointedAt(geometry)
  return (
    <section class="chart" aria-label={title}>
      <div class="chart-head">
        <h3>{title}</h3>
        {!isText && (
          <div class="legend">
            {series.map((one) => (
              <span key={one.id}>
                {kind.swatch(one, id)}
                {one.label}
              </span>
            ))}
          </div>
        )}
        <button
          type="button"
          class="button quiet small"
          aria-label={isTable.value ? en.actions.showChart : en.actions.showTable}
          onClick={() => {
            isTable.value = !isTable.value
          }}
        >
          {isTable.value ? en.actions.chart : en.actions.table}
        </button>
        {isTable.value && (
          <button type="button" class="button quiet small" onClick={() => void copyText(csvOf(cellsOf(chart)))}>
            {en.actions.copyCsv}
          </button>
        )}
      </div>
      {isText ? (
        <DataTable {...chart} />
      ) : (
        <>
          <Drawing chart={chart} kind={kind} geometry={geometry} id={id} />
          <p class="plot-value" aria-live={pointed.value?.chart === id ? 'polite' : 'off'}>
            {at >= 0 ? valuesText(chart, at, geometry.interval) : summary}
          </p>
        </>
      )}
    </section>
  )
}

export const Bars = (chart: ChartProps) => <Chart chart={chart} kind={BARS} />
export const Lines = (chart: ChartProps) => <Chart chart={chart} kind={LINES} />
