/** The section `alerts` of the file. */
import { z } from 'zod'

const text = z.string().min(1).max(256)
/** Entries of a list. */
const MAX = { alerts: 10 }
const percent = z.number().positive().max(1_000)
const ms = (fallback: number, about: string) =>
  z.int().min(0).max(2_147_483_647).default(fallback).describe(`${about} (ms); 0 is off`)

export const alertsSchema = z.strictObject({
  url: text.describe('address of a webhook'),
  secret: text.optional().describe('signs the requests, as specified by Standard Webhooks'),
  format: z.enum(['generic', 'slack']).default('generic').describe('format of the message'),
  rules: z
    .strictObject({
      budget: z
        .array(percent)
        .max(MAX.alerts)
        .default([80, 100])
        .describe('percentages of a budget, unless it has its own'),
      circuitOpen: ms(60_000, 'a provider has no closed circuit, or a route no usable target, for this time'),
      failedShare: z
        .int()
        .min(0)
        .max(100)
        .default(20)
        .describe(
          'percentage of requests that fail (5xx, or an answer that breaks off) within `failedWindow`; 0 is off',
        ),
      failedWindow: z.int().min(10_000).max(3_600_000).default(300_000).describe('the window of `failedShare` (ms)'),
      failedLeast: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(20)
        .describe('requests in the window below which `failedShare` sends nothing'),
      keyDead: z.boolean().default(true).describe('a provider refuses a key'),
      breakGlass: z
        .boolean()
        .default(true)
        .describe('the token of `auth.admin` is used although people sign in (`sso`)'),
      loop: z
        .boolean()
        .default(true)
        .describe('an agent repeats itself in a session, where `loops` is `alert` or `block`'),
      guardErrors: z
        .int()
        .min(0)
        .max(1_000_000)
        .default(5)
        .describe('requests in ten minutes that the service of a guard has not checked; 0 is off'),
      policyBreach: z
        .boolean()
        .default(true)
        .describe('a target was planned that does not satisfy the data policy of a request (a bug; nothing is sent)'),
      storeDown: ms(60_000, 'a database does not respond for this time'),
      ledgerLag: ms(60_000, 'recorded usage reaches the database this late'),
      estimatedShare: z
        .int()
        .min(0)
        .max(100)
        .default(20)
        .describe('percentage of requests whose usage is estimated; 0 is off'),
      keyExpiry: z
        .array(z.int().positive().max(365))
        .max(MAX.alerts)
        .default([7, 1])
        .describe('days before a client key expires'),
      canaryStopped: z.boolean().default(true).describe('the canary of a route was stopped because it does worse'),
      modelRetires: z
        .array(z.int().positive().max(365))
        .max(MAX.alerts)
        .default([30, 7, 1])
        .describe('days before the end of a model that the configuration names, or that was used'),
      drillLost: z
        .int()
        .min(0)
        .max(100)
        .default(1)
        .describe(
          'percentage of the requests of a route that it would lose if a provider failed (`drill.shapes`); 0 is off',
        ),
      certExpiry: z
        .array(z.int().positive().max(365))
        .max(MAX.alerts)
        .default([30, 7, 1])
        .describe('days before the end of a certificate of the port (`tls.cert`); empty: also not when it has ended'),
    })
    .prefault({}),
})

export type AlertsEntry = z.output<typeof alertsSchema>
