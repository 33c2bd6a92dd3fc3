/** The providers of `/providers/status` as rows of a table. */
import { type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import { type Cell, type Look, table } from './table.ts'

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

/** The whole table. */
export const providerTable = (rows: readonly JsonObject[], look: Look): readonly string[] =>
  table(
    PROVIDER_HEADINGS,
    rows.map((row) => providerCells(row, look)),
    look,
  )
