/** Alerts and their rules. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { count, listOf } from './fields.ts'

const ALERT = z
  .strictObject({
    rule: z.string().describe('As in `alerts.rules` of headgate.yaml'),
    type: z.string().describe('As the webhook has it, such as `budget.threshold`'),
    severity: z.enum(['warning', 'critical']),
    object: z.strictObject({ kind: z.string(), id: z.string(), name: z.string() }),
    threshold: z.string().nullable(),
    value: z.number().nullable(),
    limit: z.number().nullable(),
    message: z.string(),
    since: time,
    sent_at: time,
  })
  .meta({ id: 'Alert' })

const RULE = z
  .strictObject({
    rule: z.string(),
    about: z.string(),
    value: z.unknown().describe('Its limit now: percentages, ms, days, a count, or whether it is on'),
    default: z.unknown(),
    on: z.boolean(),
    last_at: time.nullable().describe('When an alert of it was last due; null: no one is known'),
  })
  .meta({ id: 'AlertRule' })

/** The alerts with their receiver and rules. */
export const ALERTS = z
  .strictObject({
    ...listOf(ALERT).shape,
    configured: z.boolean().describe('Whether `alerts` is in headgate.yaml; false: none are sent'),
    receiver: z
      .strictObject({
        url: z.string().describe('Without its path, which may be a credential'),
        format: z.enum(['generic', 'slack']),
        signed: z.boolean(),
      })
      .nullable(),
    rules: z.array(RULE).describe('As configured; without `alerts` as they would be with the defaults'),
    past: z
      .array(z.strictObject({ ...ALERT.shape, ended_at: time }))
      .describe('The last 100 alerts that are over, newest first'),
    waiting: count.describe('Alerts that the receiver has not confirmed yet'),
    undelivered: count.describe('Alerts that were dropped or given up; the next alert states their number'),
    last: z
      .strictObject({
        at: time,
        rule: z.string(),
        result: z.enum(['sent', 'failed']),
        reason: z.string().nullable(),
      })
      .nullable()
      .describe('The last delivery that succeeded or was given up; null: none since the start'),
  })
  .meta({ id: 'Alerts' })
