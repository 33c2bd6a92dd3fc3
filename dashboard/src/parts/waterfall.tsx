/** The time of a request: as a bar in a row of a list, and with an axis and a lane for each attempt. */
import { duration } from '../format.ts'
import {
  barOf,
  besideOf,
  isBeside,
  isOk,
  type ListedAttempt,
  type ListedRequest,
  type Segment,
  segmentsOf,
  spanOf,
  ticksOf,
} from '../request-row.ts'
import { requests as w } from '../words/requests.ts'

const percentOf = (share: number): string => `${(share * 100).toFixed(3)}%`

/** What a bar shows, in words. */
const barText = (request: ListedRequest): string => {
  const span = spanOf(request)
  const parts = segmentsOf(request).map(({ kind, attempt, from, to }) => {
    const name = request.attempts[attempt]?.provider ?? ''
    const ms = duration((to - from) * span)
    return w.bar[kind](name, ms)
  })
  return w.barText(parts.join(', '))
}

const Phase = ({ segment }: { readonly segment: Segment }) => (
  <span
    class={`phase ${segment.kind}`}
    style={{ insetInlineStart: percentOf(segment.from), inlineSize: percentOf(segment.to - segment.from) }}
  />
)

/** The row's own time on one line, 4 px high. */
export const TimeBar = ({ request }: { readonly request: ListedRequest }) => (
  <span class="time-bar" role="img" aria-label={barText(request)}>
    {[...barOf(request), ...besideOf(request)].map((segment) => (
      <Phase key={`${segment.attempt} ${segment.kind} ${segment.from}`} segment={segment} />
    ))}
  </span>
)

/** Why an attempt failed, shortly: its kind, or its status. */
export const failureText = (attempt: ListedAttempt): string => {
  const { kind, status } = attempt
  if (isBeside(attempt)) return w.sheet.hedgeLost
  if (kind === null) return status === null ? w.sheet.pending : String(status)
  return kind === 'status' && status !== null ? String(status) : kind.replaceAll('_', ' ')
}

type LaneProps = {
  readonly attempt: ListedAttempt
  readonly segments: readonly Segment[]
  readonly span: number
  readonly note: string
}

const Lane = ({ attempt, segments, span, note }: LaneProps) => {
  const last = segments.at(-1)
  const length = last && segments[0] ? (last.to - segments[0].from) * span : 0
  return (
    <li class="lane">
      <div class="lane-head">
        <span class="lane-name">
          <span class="lane-number">{attempt.n + 1}</span> <bdi>{attempt.provider}</bdi>
          <span class="dim">
            {' '}
            <bdi>{attempt.model}</bdi>
          </span>
        </span>
        <span class={isOk(attempt) ? 'lane-end ok' : isBeside(attempt) ? 'lane-end dim' : 'lane-end bad'}>
          {isOk(attempt) ? '✓' : isBeside(attempt) ? '∥' : '✗'}{' '}
          {isOk(attempt) ? (attempt.status ?? '') : failureText(attempt)} · {duration(length)}
        </span>
      </div>
      <div class="lane-bar" aria-hidden="true">
        {segments.map((segment) => (
          <Phase key={segment.kind} segment={segment} />
        ))}
      </div>
      {note !== '' && <p class="lane-note">{note}</p>}
      {attempt.message != null && attempt.message !== '' && (
        <p class="lane-message">
          <bdi>{attempt.message}</bdi>
        </p>
      )}
    </li>
  )
}

export type WaterfallProps = {
  readonly request: ListedRequest
  /** What is known of an attempt: first content, tokens, credential. */
  readonly noteOf: (attempt: ListedAttempt) => string
}

export const Waterfall = ({ request, noteOf }: WaterfallProps) => {
  const span = spanOf(request)
  const segments = segmentsOf(request)
  const ticks = ticksOf(span)
  const kinds = new Set(segments.map(({ kind }) => kind))
  return (
    <div class="waterfall" style={{ '--tick': percentOf((ticks[1] ?? span) / span) }}>
      <div class="axis-ticks num" aria-hidden="true">
        {ticks.map((tick) => (
          <span key={tick} style={{ insetInlineStart: percentOf(tick / span) }}>
            {tick === 0 ? '0' : duration(tick)}
          </span>
        ))}
      </div>
      <ol class="lanes">
        {request.attempts.map((attempt, at) => (
          <Lane
            key={attempt.n}
            attempt={attempt}
            segments={segments.filter((segment) => segment.attempt === at)}
            span={span}
            note={noteOf(attempt)}
          />
        ))}
      </ol>
      <p class="lane-legend" aria-hidden="true">
        {(['lost', 'waiting', 'answer', 'beside'] as const).map(
          (kind) =>
            kinds.has(kind) && (
              <span key={kind}>
                <span class="lane-bar">
                  <span class={`phase ${kind}`} />
                </span>
                {w.phases[kind]}
              </span>
            ),
        )}
      </p>
    </div>
  )
}
