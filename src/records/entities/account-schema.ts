/** The sections of the file with teams, client keys, budgets, prices and alerts. Loaded only if there is a file. */
import { z } from 'zod'

const MAX = { entries: 200, text: 256, tags: 32, secrets: 3, alerts: 10 }

const text = z.string().min(1).max(MAX.text)

/** Null: no restriction, `[]`: nothing. */
const accessList = (about: string) =>
  z
    .array(text)
    .max(MAX.entries)
    .nullish()
    .describe(`${about}; unset: no restriction, []: nothing`)
    .meta({ allowed: 'a list of strings' })

const access = z
  .strictObject({
    models: accessList(
      'models, by names or globs (`openai/*`, `!*opus*`) of the requested name, `provider/model` or the model',
    ),
    routes: accessList('routes'),
    providers: accessList('providers'),
    styles: accessList('API styles, such as chat, responses, messages'),
    ips: accessList('IP addresses or CIDR ranges of clients'),
  })
  .optional()
  .describe('what may be used; * matches any text, a leading ! denies')

const limit = (about: string) =>
  z
    .int()
    .min(0)
    .max(1_000_000_000)
    .nullish()
    .describe(`${about}; unset: no limit, 0: none`)
    .meta({ allowed: 'a whole number from 0 to 1000000000' })

const limits = z
  .strictObject({
    requestsPerMinute: limit('requests per minute'),
    tokensPerMinute: limit('tokens per minute, input and output'),
    concurrent: limit('requests in progress'),
  })
  .optional()
  .describe('limits of its own; those of the team and of the key both apply')

const tags = z
  .record(z.string(), z.string().max(MAX.text))
  .optional()
  .describe('names and values, for budgets and reports')

export const cacheSchema = z
  .strictObject({
    ttl: z
      .int()
      .min(0)
      .max(86_400)
      .default(300)
      .describe('time for which an answer is used again (s); 0: answers are not cached'),
    scope: z
      .enum(['key', 'team'])
      .default('key')
      .describe('who shares an answer: requests of one key, or of the whole team'),
    anyTemperature: z
      .boolean()
      .default(false)
      .describe('cache answers also if the temperature is above 0 and the request has no seed'),
    tools: z
      .boolean()
      .default(false)
      .describe('cache answers also if the request declares tools; answers that call one are never cached'),
    requestControl: z.boolean().default(true).describe('apply `Cache-Control` of requests'),
  })
  .optional()
  .describe('cache of answers; unset: off for a route, as the route for a team, as the team for a key')

const id = (prefix: string) =>
  z
    .string()
    .regex(new RegExp(`^${prefix}_[a-z]{12}$`))
    .optional()
    .describe('ID; unset: derived from the name, so that a renamed entry needs its ID to keep its history')
    .meta({ allowed: `${prefix}_ and 12 lower-case letters` })

const instant = (about: string) =>
  text
    .optional()
    .describe(about)
    .meta({ allowed: 'a date such as 2026-12-01 (midnight in UTC), or a time such as 2026-12-01T09:30:00Z' })

const teamId = z
  .string()
  .regex(/^team_(?:[a-z]{12}|default)$/)
  .optional()
  .describe('ID; unset: derived from the name, so that a renamed entry needs its ID to keep its history')
  .meta({ allowed: 'team_ and 12 lower-case letters' })

export const teamSchema = z.strictObject({
  id: teamId,
  status: z.enum(['active', 'blocked']).default('active').describe('`blocked`: its keys are refused'),
  access,
  limits,
  cache: cacheSchema,
  tags,
})

const DIGEST = /^(?:s1|h1):[0-9a-f]{64}$/
const digest = z.string().regex(DIGEST).meta({ allowed: 's1: or h1: and 64 hexadecimal digits' })

export const clientKeySchema = z.strictObject({
  id: id('key'),
  team: text.default('default').describe('name or ID of its team'),
  status: z.enum(['active', 'blocked']).default('active').describe('`blocked`: the key is refused'),
  digest: digest
    .optional()
    .describe(
      'digest of the key: `s1:` and its SHA-256, or `h1:` and its HMAC-SHA-256 with `auth.pepper`, in hexadecimal',
    ),
  secret: text.optional().describe(`the key itself, as "\${NAME}" or "\${file:/path}"`),
  secrets: z
    .array(
      z.strictObject({
        digest,
        last4: text.max(4).optional(),
        createdAt: instant('creation'),
        until: instant('end of its validity'),
      }),
    )
    .min(1)
    .max(MAX.secrets)
    .optional()
    .describe('several digests instead of one, while a key is replaced'),
  createdAt: instant('creation, for reports'),
  expiresAt: instant('end of its validity'),
  access,
  limits,
  defaultRoute: text.optional().describe('route for `auto` and for unknown model names'),
  cache: cacheSchema,
  logBodies: z.boolean().default(false).describe('store the bodies of its requests, redacted'),
  tags,
})

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
    })
    .prefault({}),
})

export type TeamEntry = z.output<typeof teamSchema>
export type KeyEntry = z.output<typeof clientKeySchema>
export type AlertsEntry = z.output<typeof alertsSchema>
