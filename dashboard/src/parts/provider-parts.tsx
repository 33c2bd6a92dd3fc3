import type { Range } from '../address.ts'
import { age, clock, minute } from '../format.ts'
import type { ProviderRow, ProviderStateName, StripCell, Waiting } from '../provider-row.ts'
import { now } from '../store.ts'
import { changeWords, kindText, providerWords as words } from '../words/providers.ts'

const SHAPES: { readonly [name in ProviderStateName]: readonly [shape: string, tone: string] } = {
  closed: ['●', 'ok'],
  open: ['◆', 'bad'],
  half_open: ['◐', 'probe'],
  resting: ['◌', 'warn'],
  keyless: ['✗', 'bad'],
}

/** `41 s`, counted down each second; empty: the time is not known or over. */
export const countdown = (until: number | null): string =>
  until === null || until <= now.value ? '' : age(until - now.value)

/** Shape, word, colour and countdown. */
export const ProviderState = ({ row }: { readonly row: ProviderRow }) => {
  const [shape, tone] = SHAPES[row.state]
  const { here, of } = row.processes
  return (
    <span class={`provider-state ${tone}`}>
      <span aria-hidden="true">{shape}</span> {words.stateFor(words.states[row.state], countdown(row.until)).trim()}
      {here < of && <span class="badge warn">{words.inProcesses(here, of)}</span>}
    </span>
  )
}

/** The errors of a row as text: `timeout ×4 · HTTP 503 ×1`. */
export const errorsText = ({ activity }: ProviderRow, most = 3): string =>
  (activity?.errors ?? [])
    .slice(0, most)
    .map(({ kind, status, count }) => words.times(kindText(kind, status), count))
    .join(' · ')

/** Why a provider is not in its usual state; empty: it is, or nothing is known. */
export const whyText = (row: ProviderRow): string => {
  if (row.state === 'closed') return ''
  if (row.state === 'resting') return row.restReason ?? ''
  const { activity } = row
  if (activity && activity.failed > 0) return `${words.why(activity.failed, activity.attempts)}: ${errorsText(row)}`
  return row.lastError?.message ?? ''
}

const waitText = ({ key, model, status, until }: Waiting): string => {
  const time = countdown(until)
  const name = [...(key === null ? [] : [changeWords.key(key)]), ...(model === null ? [] : [model])].join(' · ')
  const word = status === 'open' || status === 'half_open' ? words.states[status] : kindText(status, null)
  return words.waits(word, time, name)
}

/** The next event of a provider as text; empty: none. */
export const nextText = (row: ProviderRow): string => {
  const { state, until, waiting } = row
  if (state === 'half_open') return words.probing
  if (state === 'resting') return until === null ? '' : words.restEnds(clock(until))
  if (state === 'open') return until === null || until <= now.value ? words.retrySoon : words.retry(clock(until))
  const [first] = waiting.toSorted((a, b) => (a.until ?? 0) - (b.until ?? 0))
  return first ? waitText(first) : ''
}

/** All of a row that waits, for the details. */
export const waitingTexts = (row: ProviderRow): readonly string[] => row.waiting.map(waitText)

const TONES: { readonly [fill in StripCell['fill']]: string } = {
  answered: 'ok',
  slow: 'warn',
  limited: 'refused',
  failed: 'failed',
  open: 'failed',
  none: 'text-3',
}

const stripText = (cells: readonly StripCell[]): string => {
  const attempts = cells.reduce((sum, cell) => sum + cell.attempts, 0)
  const failed = cells.reduce((sum, cell) => sum + cell.failed, 0)
  const open = cells.filter(({ fill }) => fill === 'open').length
  return [words.stripSum(attempts, failed), ...(open > 0 ? [words.stripOpen(open)] : [])].join(', ')
}

const CELL = { width: 6, height: 20 }
/** Units below which a bar, and the failures at its top, would not be seen. */
const LEAST = { bar: 4, part: 1.5 }

/** Diagonal lines over a bar: without colour, failures are the hatched part. */
const hatch = (x: number, top: number, bottom: number): string => {
  let lines = ''
  for (let y = bottom; y - 3 >= top; y -= 4) lines += `M${x} ${y}l${CELL.width - 1} -3`
  return lines
}

/** The parts of a bar from the bottom to the top, in units: answers, rate limits, failures. */
export const partsOf = ({ attempts, failed, limited, fill, height }: Omit<StripCell, 'start' | 'end'>) => {
  const size = Math.max(LEAST.bar, height * CELL.height)
  const part = (n: number) => (n === 0 ? 0 : Math.max(Math.min(LEAST.part, size), (size * n) / attempts))
  const failures = part(failed)
  const limits = Math.min(size - failures, part(limited))
  return [
    { tone: fill === 'slow' ? TONES.slow : TONES.answered, size: size - failures - limits },
    { tone: TONES.limited, size: limits },
    { tone: TONES.failed, size: failures },
  ]
}

const StripBar = ({ cell, x }: { readonly cell: StripCell; readonly x: number }) => {
  const { start, attempts, failed, fill } = cell
  let bottom = CELL.height
  return (
    <g>
      <title>{`${words.cell(minute(start), attempts, failed)} (${words.fills[fill]})`}</title>
      {partsOf(cell).map(({ tone, size }) => {
        if (size <= 0) return null
        const top = bottom - size
        const drawn = (
          <g key={tone} class={`tone-${tone}`}>
            <rect x={x} y={top} width={CELL.width - 1} height={size} fill="currentColor" />
            {tone === TONES.failed && <path class="strip-hatch" d={hatch(x, top, bottom)} />}
          </g>
        )
        bottom = top
        return drawn
      })}
    </g>
  )
}

/** One bar a minute: its height is the number of attempts, with rate limits and failures at the top. */
export const Strip = ({ cells }: { readonly cells: readonly StripCell[] }) => (
  <svg
    class="strip"
    viewBox={`0 0 ${Math.max(1, cells.length) * CELL.width} ${CELL.height}`}
    preserveAspectRatio="none"
    role="img"
    aria-label={stripText(cells)}
  >
    <path class="strip-base" d={`M0 ${CELL.height - 0.5}H${cells.length * CELL.width}`} />
    {cells.map((cell, at) => {
      const { start, fill } = cell
      const x = at * CELL.width
      if (fill === 'none') return null
      if (fill === 'open')
        return (
          <path key={start} class="strip-open" d={`M${x} ${CELL.height / 2}h${CELL.width}`}>
            <title>{`${minute(start)}: ${words.fills.open}`}</title>
          </path>
        )
      return <StripBar key={start} cell={cell} x={x} />
    })}
  </svg>
)

/** What the fills of strips mean. */
export const StripLegend = () => (
  <p class="strip-legend small dim" role="note" aria-label={words.legend}>
    {(['answered', 'slow', 'limited', 'failed', 'open'] as const).map((fill) => (
      <span key={fill}>
        <svg viewBox="0 0 10 10" aria-hidden="true" class={`tone-${TONES[fill]}`}>
          {fill === 'open' ? (
            <path class="strip-open" d="M0 5H10" />
          ) : (
            <rect width="10" height="10" fill="currentColor" />
          )}
          {fill === 'failed' && <path class="strip-hatch" d="M0 10l10 -5M0 5l10 -5" />}
        </svg>
        {words.fills[fill]}
      </span>
    ))}
  </p>
)

/** A time of a range, such as the axis of lanes: its start, middle and end. */
export const AxisTimes = ({ range }: { readonly range: Range }) => (
  <div class="axis-times" aria-hidden="true">
    <span>{minute(range.from)}</span>
    <span>{minute((range.from + range.to) / 2)}</span>
    <span>{minute(range.to)}</span>
  </div>
)
