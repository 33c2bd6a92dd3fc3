/**
 * Swim lanes: attempts as bars with failures and rate limits as their share, and states, all on one time axis. On a narrow
 * screen one lane at a time. All of it is also a table.
 */
import { useSignal } from '@preact/signals'
import type { Range } from '../address.ts'
import { clock, minute } from '../format.ts'
import { type LaneSpan, percentAt } from '../provider-row.ts'
import { isNarrow } from '../store.ts'
import { en } from '../words/en.ts'
import { kindText, providerWords as words } from '../words/providers.ts'
import { AxisTimes, partsOf } from './provider-parts.tsx'

/** Attempts of an interval that begins at `at`, in ms since 1970. */
export type LaneDot = {
  readonly at: number
  readonly attempts: number
  readonly failed: number
  readonly limited: number
}

export type ShownLane = {
  readonly id: string
  readonly label: string
  readonly dots: readonly LaneDot[]
  readonly spans: readonly LaneSpan[]
  readonly failures: readonly {
    readonly at: number
    readonly kind: string | null
    readonly status: number | null
    readonly request: string
  }[]
}

export type LanesProps = {
  readonly title: string
  readonly summary: string
  readonly range: Range
  /** ms of an interval. */
  readonly width: number
  readonly lanes: readonly ShownLane[]
}

const HEIGHT = 28
const MIDDLE = HEIGHT / 2
/** Share of the axis, in percent, below which a bar has no room for its word. */
const ROOM = 9

const TONES: { readonly [state: string]: string } = { open: 'failed', half_open: 'probe', rate_limited: 'refused' }

const stateText = (state: string): string =>
  state === 'open' ? words.states.open : state === 'half_open' ? words.states.half_open : kindText(state, null)

type LaneBarProps = {
  readonly dot: LaneDot
  /** Attempts of the fullest interval. */
  readonly most: number
  /** In percent of the axis. */
  readonly x: number
  readonly width: number
}

/** The attempts of an interval: answers, rate limits and failures have the part of the bar that they have of the attempts. */
const LaneBar = ({ dot, most, x, width }: LaneBarProps) => {
  const { at, attempts, failed, limited } = dot
  let bottom = HEIGHT - 4
  return (
    <g class="lane-bar">
      <title>{`${words.cell(minute(at), attempts, failed)}${limited > 0 ? `, ${limited} ${words.fills.limited}` : ''}`}</title>
      {partsOf({ attempts, failed, limited, fill: 'answered', height: attempts / most }).map(({ tone, size }) => {
        bottom -= size
        return (
          size > 0 && (
            <rect
              key={tone}
              class={tone === 'failed' ? 'tone-failed lane-failed' : `tone-${tone}`}
              x={`${x}%`}
              y={bottom}
              width={`${width}%`}
              height={size}
              fill="currentColor"
            />
          )
        )
      })}
    </g>
  )
}

const LaneDrawing = ({
  lane,
  range,
  width,
}: {
  readonly lane: ShownLane
  readonly range: Range
  readonly width: number
}) => (
  <svg class="lane-drawing" height={HEIGHT} role="img" aria-label={laneText(lane)}>
    <line class="lane-axis" x1="0" x2="100%" y1={MIDDLE} y2={MIDDLE} />
    {lane.dots.map((dot) => (
      <LaneBar
        key={dot.at}
        dot={dot}
        most={Math.max(...lane.dots.map(({ attempts }) => attempts))}
        x={percentAt(dot.at, range)}
        width={Math.max(0.2, percentAt(dot.at + width, range) - percentAt(dot.at, range) - 0.1)}
      />
    ))}
    {lane.spans.map(({ from, to, state, why }) => {
      const x = percentAt(from, range)
      const size = percentAt(to, range) - x
      return (
        <g key={`${from} ${state}`} class={`lane-span tone-${TONES[state] ?? 'warn'}`}>
          <rect x={`${x}%`} y="4" width={`${Math.max(0.4, size)}%`} height={HEIGHT - 8} rx="2">
            <title>{`${clock(from)} – ${clock(to)}: ${stateText(state)}${why === null ? '' : ` (${kindText(why, null)})`}`}</title>
          </rect>
          {size >= ROOM && (
            <text x={`${x + size / 2}%`} y={MIDDLE + 4} text-anchor="middle">
              {stateText(state)}
            </text>
          )}
        </g>
      )
    })}
  </svg>
)

const laneText = ({ label, dots, spans }: ShownLane): string => {
  const sum = (name: 'attempts' | 'failed') => dots.reduce((total, dot) => total + dot[name], 0)
  const states = spans.map(({ from, to, state }) => `${stateText(state)} ${clock(from)} – ${clock(to)}`)
  return [label, words.stripSum(sum('attempts'), sum('failed')), ...states].join('; ')
}

type LaneLine = { readonly at: number; readonly lane: string; readonly text: string }

/** All lanes as lines of text, the newest first. */
const linesOf = (lanes: readonly ShownLane[]): readonly LaneLine[] =>
  lanes
    .flatMap(({ label: lane, dots, spans, failures }) => [
      ...dots.map(({ at, attempts, failed, limited }) => ({
        at,
        lane,
        text: `${words.stripSum(attempts, failed)}${limited > 0 ? `, ${limited} ${words.detail.limited}` : ''}`,
      })),
      ...spans.map(({ from, to, state, why }) => ({
        at: from,
        lane,
        text: `${stateText(state)} – ${clock(to)}${why === null ? '' : ` (${kindText(why, null)})`}`,
      })),
      ...failures.map(({ at, kind, status }) => ({ at, lane, text: kindText(kind ?? 'interrupted', status) })),
    ])
    .toSorted((a, b) => b.at - a.at)

const LanesTable = ({ lanes, title }: Pick<LanesProps, 'lanes' | 'title'>) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard
  <section class="scroll-x" tabIndex={0} aria-label={title}>
    <table class="data-table lanes-table">
      <thead>
        <tr>
          <th scope="col">{en.chart.time}</th>
          <th scope="col">{words.detail.lane}</th>
          <th scope="col">{words.state}</th>
        </tr>
      </thead>
      <tbody>
        {linesOf(lanes).map(({ at, lane, text }, index) => (
          <tr key={`${at} ${lane} ${index}`}>
            <td>{clock(at)}</td>
            <td>{lane}</td>
            <td>{text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

/** Where something happened: the lane with the most failures, then attempts. */
const busiest = (lanes: readonly ShownLane[]): ShownLane | undefined =>
  lanes.toSorted((a, b) => b.failures.length - a.failures.length || b.dots.length - a.dots.length)[0]

export const Lanes = ({ title, summary, range, width, lanes }: LanesProps) => {
  const isTable = useSignal(false)
  const chosen = useSignal<string | null>(null)
  const one = lanes.find(({ id }) => id === chosen.value) ?? busiest(lanes)
  const shown = isNarrow.value && one ? [one] : lanes
  return (
    <section class="chart lanes" aria-label={title}>
      <div class="chart-head">
        <h3>{title}</h3>
        <button
          type="button"
          class="button quiet small"
          onClick={() => {
            isTable.value = !isTable.value
          }}
        >
          {isTable.value ? en.actions.showChart : en.actions.showTable}
        </button>
      </div>
      {isNarrow.value && lanes.length > 1 && (
        <label class="field">
          <span class="small dim">{words.detail.pick}</span>
          <select
            value={one?.id}
            onChange={({ currentTarget }) => {
              chosen.value = currentTarget.value
            }}
          >
            {lanes.map(({ id, label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </select>
        </label>
      )}
      {isTable.value ? (
        <LanesTable lanes={shown} title={title} />
      ) : (
        <div class="lane-grid">
          {shown.map((lane) => (
            <div key={lane.id} class="lane">
              <span class="lane-label small" title={lane.label}>
                {lane.label}
              </span>
              <LaneDrawing lane={lane} range={range} width={width} />
            </div>
          ))}
          <div class="lane">
            <span />
            <AxisTimes range={range} />
          </div>
        </div>
      )}
      <p class="small dim">{summary}</p>
    </section>
  )
}
