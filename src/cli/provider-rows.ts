/** The providers of `/providers/status` as rows of a table. */
import type { Shown } from '../records/entities/shown.ts'
import type { PROVIDERS_STATUS } from '../server/answers/health.ts'
import { secondOf } from './listing.ts'
import { type Cell, type Look, table, wrappedText } from './table.ts'

type ProviderRow = Shown<typeof PROVIDERS_STATUS>['data'][number]

const ms = (value: number | null): string => (value === null ? '–' : `${value}`)

export const PROVIDER_HEADINGS = [
  'PROVIDER',
  'STATUS',
  'CIRCUIT',
  'KEYS',
  'IN FLIGHT',
  'FIRST MS p50/p95',
  'LAST ERROR',
]

/** One row of the table. */
export const providerCells = (row: ProviderRow, { paint }: Look): readonly Cell[] => {
  const { id, keys, status, circuit, latency_ms: latency, last_error: error } = row
  const active = keys.filter((key) => key.status === 'active').length
  const style = status === 'available' ? paint.good : status === 'degraded' ? paint.warn : paint.bad
  return [
    id,
    { text: status, paint: style },
    circuit.state,
    { text: `${active}/${keys.length}`, sort: active },
    String(keys.reduce((sum, key) => sum + key.in_flight, 0)),
    {
      text: `${ms(latency.first_content_p50)} / ${ms(latency.first_content_p95)}`,
      sort: latency.first_content_p50 ?? '–',
    },
    error ? `${error.at} ${error.code}` : '–',
  ]
}

const untilText = (value: string | null, reason: string | undefined): string => {
  const until = secondOf(value)
  return `${until === undefined ? '' : ` until ${until}`}${reason ? `: ${reason}` : ''}`
}

/** An open or half-open circuit and the failure that opened it; empty: it is closed. */
const circuitReason = ({ circuit }: Pick<ProviderRow, 'circuit'>, error: string | undefined): readonly string[] =>
  circuit.state === 'closed' ? [] : [`circuit ${circuit.state.replace('_', '-')}${untilText(circuit.retry_at, error)}`]

type KeyStatus = Pick<ProviderRow['keys'][number], 'id' | 'status' | 'until' | 'reason'>

/** The keys that are not used: disabled by an operator, or limited by the provider. */
const keyReasons = (keys: readonly KeyStatus[]): readonly string[] =>
  keys
    .filter(({ status }) => status !== 'active')
    .map(({ id, status, until, reason }) => `key ${id} ${status.replace('_', ' ')}${untilText(until, reason)}`)

/** Why requests are not sent to a provider, to some of its models or keys, and until when. */
const reasonsOf = (row: ProviderRow): readonly string[] => {
  const error = row.last_error?.code
  const { resting } = row
  const ofProvider = circuitReason(row, error)
  const ofModels = row.models.flatMap((model) =>
    [...(ofProvider.length > 0 ? [] : circuitReason(model, error)), ...keyReasons(model.keys)].map(
      (reason) => `${model.id} ${reason}`,
    ),
  )
  return [
    ...(resting ? [`rests${untilText(resting.until, resting.reason)}`] : []),
    ...ofProvider,
    ...keyReasons(row.keys),
    ...ofModels,
  ]
}

/** Reasons of one provider that are printed. */
const MOST_REASONS = 20

/** One line for each reason why a provider is not or not wholly used. */
export const providerReasons = (rows: readonly ProviderRow[], look: Look): readonly string[] =>
  rows.flatMap((row) => {
    const reasons = reasonsOf(row)
    const more = reasons.length - MOST_REASONS
    return [...reasons.slice(0, MOST_REASONS), ...(more > 0 ? [`and ${more} more`] : [])].flatMap((reason) =>
      wrappedText(`${row.id}: ${reason}`, look).map(look.paint.warn),
    )
  })

/** The whole table, and the reasons below it. */
export const providerTable = (rows: readonly ProviderRow[], look: Look): readonly string[] => [
  ...table(
    PROVIDER_HEADINGS,
    rows.map((row) => providerCells(row, look)),
    look,
  ),
  ...providerReasons(rows, look),
]
