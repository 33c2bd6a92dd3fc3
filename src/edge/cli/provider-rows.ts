/** The providers of `/providers/status` as a table. */
import { isObject, type Json, list, number, object, text } from '../../core/json.ts'
import type { Paint } from '../observe/colour.ts'
import { type Cell, table } from './table.ts'

const ms = (value: Json | undefined): string => (typeof value === 'number' ? `${value}` : '–')

/** One row for each provider. */
export const providerRows = (rows: readonly Json[], paint: Paint): readonly string[] => {
  const cells = rows.filter(isObject).map((row): readonly Cell[] => {
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
      `${active}/${keys.length}`,
      String(keys.reduce((sum, key) => sum + (number(key?.in_flight) ?? 0), 0)),
      `${ms(latency?.first_content_p50)} / ${ms(latency?.first_content_p95)}`,
      error ? `${text(error.at) ?? ''} ${text(error.code) ?? ''}` : '–',
    ]
  })
  return table(['PROVIDER', 'STATUS', 'CIRCUIT', 'KEYS', 'IN FLIGHT', 'FIRST MS p50/p95', 'LAST ERROR'], cells, paint)
}
