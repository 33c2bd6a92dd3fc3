/** The providers of `/providers/status` as rows of a table. */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import { secondOf } from './listing.ts'
import { type Cell, type Look, table, wrappedText } from './table.ts'

const ms = (value: Json | undefined): string => (typeof value === 'number' ? `${value}` : '–')

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
export const providerCells = (row: JsonObject, { paint }: Look): readonly Cell[] => {
  const keys = list(row.keys).map(object)
  const active = keys.filter((key) => key?.status === 'active').length
  const status = text(row.status) ?? ''
  const style = status === 'available' ? paint.good : status === 'degraded' ? paint.warn : paint.bad
  const latency = object(row.latency_ms)
  const error = object(row.last_error)
  return [
    text(row.id) ?? '',
    { text: status, paint: style },
    text(object(row.circuit)?.state) ?? '',
    { text: `${active}/${keys.length}`, sort: active },
    String(keys.reduce((sum, key) => sum + (number(key?.in_flight) ?? 0), 0)),
    {
      text: `${ms(latency?.first_content_p50)} / ${ms(latency?.first_content_p95)}`,
      sort: number(latency?.first_content_p50) ?? '–',
    },
    error ? `${text(error.at) ?? ''} ${text(error.code) ?? ''}` : '–',
  ]
}

const untilText = (value: Json | undefined, reason: string | undefined): string => {
  const until = secondOf(value)
  return `${until === undefined ? '' : ` until ${until}`}${reason ? `: ${reason}` : ''}`
}

/** An open or half-open circuit and the failure that opened it; empty: it is closed. */
const circuitReason = (place: JsonObject, error: string | undefined): readonly string[] => {
  const circuit = object(place.circuit)
  const state = text(circuit?.state) ?? 'closed'
  return state === 'closed' ? [] : [`circuit ${state.replace('_', '-')}${untilText(circuit?.retry_at, error)}`]
}

/** The keys that are not used: disabled by an operator, or limited by the provider. */
const keyReasons = (keys: Json | undefined): readonly string[] =>
  list(keys)
    .filter(isObject)
    .filter(({ status }) => status !== 'active')
    .map(({ id, status, until, reason }) => {
      return `key ${text(id)} ${text(status)?.replace('_', ' ')}${untilText(until, text(reason))}`
    })

/** Why requests are not sent to a provider, to some of its models or keys, and until when. */
const reasonsOf = (row: JsonObject): readonly string[] => {
  const error = text(object(row.last_error)?.code)
  const resting = object(row.resting)
  const ofProvider = circuitReason(row, error)
  const ofModels = list(row.models)
    .filter(isObject)
    .flatMap((model) =>
      [...(ofProvider.length > 0 ? [] : circuitReason(model, error)), ...keyReasons(model.keys)].map(
        (reason) => `${text(model.id)} ${reason}`,
      ),
    )
  return [
    ...(resting ? [`rests${untilText(resting.until, text(resting.reason))}`] : []),
    ...ofProvider,
    ...keyReasons(row.keys),
    ...ofModels,
  ]
}

/** Reasons of one provider that are printed. */
const MOST_REASONS = 20

/** One line for each reason why a provider is not or not wholly used. */
export const providerReasons = (rows: readonly JsonObject[], look: Look): readonly string[] =>
  rows.flatMap((row) => {
    const reasons = reasonsOf(row)
    const more = reasons.length - MOST_REASONS
    return [...reasons.slice(0, MOST_REASONS), ...(more > 0 ? [`and ${more} more`] : [])].flatMap((reason) =>
      wrappedText(`${text(row.id)}: ${reason}`, look).map(look.paint.warn),
    )
  })

/** The whole table, and the reasons below it. */
export const providerTable = (rows: readonly JsonObject[], look: Look): readonly string[] => [
  ...table(
    PROVIDER_HEADINGS,
    rows.map((row) => providerCells(row, look)),
    look,
  ),
  ...providerReasons(rows, look),
]
