/** The cells of a request in the list, and the request as a card. */
import { type ComponentChild, Fragment } from 'preact'
import { clock, compact, count, duration, moment, widestClocks } from '../../format.ts'
import { Middle } from '../../parts/middle.tsx'
import { Amount, Time, Unknown } from '../../parts/states.tsx'
import type { Column } from '../../parts/table.tsx'
import { failureText, TimeBar } from '../../parts/waterfall.tsx'
import { isBeside, isOk, type ListedAttempt, type ListedRequest, resultOf } from '../../request-row.ts'
import { gatewayNow } from '../../store.ts'
import { requests as w } from '../../words/requests.ts'

const TONES = {
  answered: 'ok',
  fell_back: 'warn',
  cached: 'probe',
  refused: 'tone-refused',
  failed: 'tone-failed',
  broke_off: 'tone-failed',
  client_left: 'tone-left',
  unknown: 'dim',
} as const
const SHAPES = {
  answered: '✓',
  fell_back: '↷',
  cached: '◆',
  refused: '⊘',
  failed: '✗',
  broke_off: '⊣',
  client_left: '←',
  unknown: '?',
} as const

/** `fell back`, `failed 503`. */
export const outcomeText = (request: ListedRequest): string => {
  const result = resultOf(request)
  if (result === 'cached' && request.cache === 'shared') return w.shared
  const word = w.results[result]
  return result === 'refused' || result === 'failed' ? w.withStatus(word, request.status) : word
}

/** Shape, word and colour of what became of it. */
export const OutcomeWord = ({ request }: { readonly request: ListedRequest }) => {
  const result = resultOf(request)
  return (
    <span class={`outcome ${TONES[result]}`}>
      <span aria-hidden="true">{SHAPES[result]}</span> {outcomeText(request)}
    </span>
  )
}

const Step = ({ attempt }: { readonly attempt: ListedAttempt }) => {
  const { provider, started_ms, ended_ms } = attempt
  if (isOk(attempt))
    return (
      <span class="step">
        <bdi>{provider}</bdi> <span class="ok">✓</span>
      </span>
    )
  if (isBeside(attempt))
    return (
      <span class="step dim" title={w.sheet.hedgeLost}>
        <bdi>{provider}</bdi>
      </span>
    )
  const why = failureText(attempt)
  return (
    <span class="step" title={w.lost(provider, why)}>
      <bdi>{provider}</bdi>{' '}
      <span class="bad">
        ✗ {why}
        {ended_ms !== null && ended_ms - started_ms >= 1 && ` ${duration(ended_ms - started_ms)}`}
      </span>
    </span>
  )
}

/** The attempts in their order; without any the reason of the refusal. */
export const Path = ({ request }: { readonly request: ListedRequest }) => {
  const { attempts, message, code, cache } = request
  if (attempts.length === 0) {
    const text = message ?? code?.replaceAll('_', ' ') ?? null
    if (text === null || resultOf(request) === 'cached')
      return (
        <span class="dim">
          {cache === 'shared' ? w.shared : resultOf(request) === 'cached' ? w.results.cached : w.noAttempt}
        </span>
      )
    return (
      <span class="path-words dim" title={text}>
        – <bdi>{text}</bdi>
      </span>
    )
  }
  return (
    <span class="path-words">
      {attempts.map((attempt, at) => (
        <span key={attempt.n}>
          {at > 0 &&
            (attempt.hedge ? (
              <span class="dim">
                {' '}
                <span aria-hidden="true">∥</span>
                <span class="sr-only">{w.beside}</span>{' '}
              </span>
            ) : (
              <span class="dim"> → </span>
            ))}
          <Step attempt={attempt} />
        </span>
      ))}
    </span>
  )
}

const dayMs = 86_400_000

/** `10:41:29`, with the date if it was not today. */
const whenText = (at: string): string => {
  const time = Date.parse(at)
  return gatewayNow() - time < dayMs ? clock(time) : moment(time)
}
const When = ({ at }: { readonly at: string }) => <Time at={at}>{whenText(at)}</Time>

const ms = (value: number | null, why: string): ComponentChild =>
  value === null ? <Unknown why={why} /> : duration(value)

const Tokens = ({ request: { usage, attempts } }: { readonly request: ListedRequest }) => {
  const { input, output, source } = usage
  const isNothing = input === null && output === null
  if (isNothing || (input === 0 && output === 0 && !attempts.some(isOk)))
    return <Unknown why={attempts.length === 0 ? w.noAttempt : w.noUsage} />
  const shown = (value: number | null) => (value === null ? '–' : compact(value))
  return (
    <span title={source === 'estimated' ? w.estimated : `${count(input ?? 0)} → ${count(output ?? 0)}`}>
      {source === 'estimated' && '~'}
      {shown(input)} → {shown(output)}
    </span>
  )
}

const Cost = ({ request: { cost, attempts } }: { readonly request: ListedRequest }) =>
  cost !== null ? <Amount text={cost} /> : <Unknown why={attempts.length === 0 ? w.noAttempt : w.noCost} />

const keyName = ({ key }: ListedRequest): string => (key === null ? w.noKey : (key.name ?? key.id))
const teamName = ({ team }: ListedRequest): string => (team === null ? '' : (team.name ?? team.id))
const tagText = ({ tags = {} }: ListedRequest): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}:${value}`)
    .join(' ')

/** The name of the client's key. */
const KeyName = ({ request }: { readonly request: ListedRequest }) =>
  request.key === null ? <span class="dim">{w.noKey}</span> : <Middle text={keyName(request)} />

const Text = ({ text }: { readonly text: string }) =>
  text === '' ? <span class="dim">–</span> : <Middle text={text} />

const isDemo = ({ attempts }: ListedRequest): boolean => attempts.some(({ provider }) => provider === 'demo')

/** Marks requests of the built-in demo, which calls no model. */
const DemoMark = ({ request }: { readonly request: ListedRequest }) =>
  isDemo(request) ? (
    <>
      <span class="badge probe" title={w.demoAbout}>
        {w.demo}
      </span>{' '}
    </>
  ) : null

/** Marks requests whose bodies can be read. */
const KeptMark = ({ request: { bodies } }: { readonly request: ListedRequest }) =>
  bodies === true ? (
    <span class="kept-mark" title={w.keptBodies}>
      <span aria-hidden="true">¶</span>
      <span class="sr-only">{w.keptBodies}</span>
    </span>
  ) : null

const speedOf = ({ usage, total_ms, first_content_ms }: ListedRequest): string | null => {
  if (usage.output === null || total_ms === null || first_content_ms === null || total_ms - first_content_ms < 10)
    return null
  return count((usage.output / (total_ms - first_content_ms)) * 1_000)
}

type ListColumn = Column<ListedRequest>

/** A column of a name, which is as wide as the longest one. */
const named = (
  id: keyof typeof w.columns,
  text: (request: ListedRequest) => string | null | undefined,
  more: Pick<ListColumn, 'drop'> = {},
): ListColumn => ({
  id,
  head: w.columns[id],
  width: '6rem',
  text: (request) => text(request) ?? '',
  cell: (request) => <Text text={text(request) ?? ''} />,
  ...more,
})

export const COLUMNS: readonly ListColumn[] = [
  {
    id: 'time',
    head: w.columns.time,
    sort: 'time',
    fits: widestClocks,
    text: ({ received_at }) => whenText(received_at),
    cell: ({ received_at }) => <When at={received_at} />,
  },
  named('client', ({ client }) => client, { drop: 7 }),
  named('team', teamName, { drop: 6 }),
  { ...named('key', keyName, { drop: 3 }), cell: (request) => <KeyName request={request} /> },
  named('end_user', ({ end_user }) => end_user),
  {
    id: 'asked',
    head: w.columns.asked,
    width: '7rem',
    text: (request) => `${isDemo(request) ? `${w.demo} – ` : ''}${request.asked}${request.bodies ? ' ¶ ' : ''}`,
    cell: (request) => (
      <span class="asked">
        <DemoMark request={request} />
        <Text text={request.asked} />
        <KeptMark request={request} />
      </span>
    ),
  },
  {
    id: 'path',
    head: w.columns.path,
    cell: (request) => (
      <div class="path-cell">
        <Path request={request} />
        {request.attempts.length > 0 && <TimeBar request={request} />}
      </div>
    ),
  },
  {
    id: 'outcome',
    head: w.columns.outcome,
    width: '7rem',
    text: (request) => `✓ ${outcomeText(request)}`,
    cell: (request) => <OutcomeWord request={request} />,
  },
  named('code', ({ code }) => code),
  {
    id: 'first',
    head: w.columns.first,
    width: '4.5rem',
    align: 'end',
    sort: 'first',
    drop: 4,
    cell: (one) => ms(one.first_content_ms, w.noContent),
  },
  {
    id: 'total',
    head: w.columns.total,
    width: '4.75rem',
    align: 'end',
    sort: 'total',
    cell: (one) => ms(one.total_ms, w.noTotal),
  },
  {
    id: 'tokens',
    head: w.columns.tokens,
    width: '7rem',
    align: 'end',
    drop: 5,
    cell: (one) => <Tokens request={one} />,
  },
  {
    id: 'cost',
    head: w.columns.cost,
    width: '6.25rem',
    align: 'end',
    sort: 'cost',
    drop: 2,
    cell: (one) => <Cost request={one} />,
  },
  named('route', ({ route }) => route),
  named('model', ({ model }) => model),
  named('style', ({ style }) => style),
  {
    id: 'stream',
    head: w.columns.stream,
    width: '5rem',
    cell: ({ stream }) => (stream ? w.sheet.facts.streamed : w.sheet.facts.whole),
  },
  {
    id: 'cached',
    head: w.columns.cached,
    width: '5.5rem',
    align: 'end',
    cell: ({ usage }) => (usage.cache_read === null ? <Unknown why={w.noUsage} /> : compact(usage.cache_read)),
  },
  {
    id: 'speed',
    head: w.columns.speed,
    width: '5rem',
    align: 'end',
    cell: (one) => speedOf(one) ?? <Unknown why={w.noUsage} />,
  },
  named('tags', tagText),
  { id: 'id', head: w.columns.id, width: '13rem', cell: ({ id }) => <span class="mono small">{id}</span> },
  {
    id: 'us',
    head: w.columns.us,
    width: '6.5rem',
    align: 'end',
    cell: ({ overhead_us }) => (overhead_us === null ? <Unknown why={w.noTotal} /> : duration(overhead_us / 1_000)),
  },
]

/** Those that are shown without a choice, as far as there is room. */
export const DEFAULT_COLUMNS = [
  'time',
  'client',
  'team',
  'key',
  'asked',
  'path',
  'outcome',
  'first',
  'total',
  'tokens',
  'cost',
] as const

export const Card = (request: ListedRequest) => {
  const { received_at, asked, provider, model, total_ms } = request
  return (
    <div class="request-card">
      <div class="card-title">
        <span class="cut">
          <When at={received_at} /> · <OutcomeWord request={request} />
        </span>
        <span class="num">
          <Cost request={request} />
        </span>
      </div>
      <div class="card-title">
        <span class="cut">
          <DemoMark request={request} />
          <bdi>{asked}</bdi> <KeptMark request={request} />
          {provider !== null && asked !== `${provider}/${model ?? ''}` && (
            <span class="dim">
              {' → '}
              <bdi>{`${provider}/${model ?? ''}`}</bdi>
            </span>
          )}
        </span>
        <span class="num">{ms(total_ms, w.noTotal)}</span>
      </div>
      <div class="dim cut">
        {[keyName(request), teamName(request)]
          .filter((name) => name !== '')
          .map((name, at) => (
            <Fragment key={at}>
              {at > 0 && ' · '}
              <Middle text={name} />
            </Fragment>
          ))}
      </div>
      <div class="card-path">
        <Path request={request} />
        {request.attempts.length > 0 && <TimeBar request={request} />}
      </div>
    </div>
  )
}
