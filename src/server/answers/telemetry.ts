/** What is exported by OTLP. */
import { z } from 'zod'
import { DROP_REASONS, SIGNALS } from '../../observe/otlp/telemetry-options.ts'
import { time } from '../../records/entities/shown.ts'
import { count } from './fields.ts'

const EXPORTED_SIGNAL = z
  .strictObject({
    signal: z.enum(SIGNALS),
    receiver: z.string().describe('its host and port'),
    exported: count.describe('items that the receiver has accepted since the start of the gateway'),
    dropped: z.record(z.enum(DROP_REASONS), count).describe('items that it has not received, by reason'),
    waiting: count.describe('items that wait for it'),
    waiting_bytes: count,
    exported_at: time.nullable().describe('of the last batch that it has accepted'),
    error: z.string().nullable().describe('why it has not accepted the last batch; null: it has'),
    error_at: time.nullable().describe('of the last batch that it has not accepted'),
  })
  .meta({ id: 'ExportedSignal' })

export const TELEMETRY = z
  .strictObject({
    object: z.literal('telemetry'),
    data: z.array(EXPORTED_SIGNAL).describe('one for each signal; empty: nothing is exported'),
  })
  .meta({ id: 'Telemetry' })
