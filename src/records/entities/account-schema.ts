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

export const budgetSchema = z.strictObject({
  id: id('bud'),
  amount: z
    .union([text, z.number()])
    .describe('amount in dollars for each period')
    .meta({ allowed: 'an amount in dollars, such as "2500.00"' }),
  currency: z.enum(['USD']).default('USD').describe('currency of the amount'),
  period: z.enum(['hour', 'day', 'week', 'month', 'quarter', 'year', 'total']).describe('period, by the calendar'),
  timezone: text.default('UTC').describe('time zone of the calendar, such as Europe/Berlin'),
  startDay: z
    .int()
    .default(1)
    .describe('first day of a week (1 Monday to 7 Sunday) or of a month (1 to 28)')
    .meta({ allowed: 'a whole number from 1 to 7 for a week, from 1 to 28 for a month' }),
  appliesTo: z
    .strictObject({
      teams: accessList('teams, by name or ID'),
      keys: accessList('keys, by name or ID'),
      tags: z
        .record(z.string(), z.string().max(MAX.text))
        .nullish()
        .describe('tags that the key or its team must have'),
      models: accessList('models, by names or globs'),
      providers: accessList('providers, by names or globs'),
    })
    .optional()
    .describe('requests that count; unset: all'),
  per: z
    .enum(['all', 'team', 'key', 'user', 'end_user'])
    .default('all')
    .describe('one amount for all requests that count, or the whole amount for each team, key, user or end user'),
  mode: z
    .enum(['hard', 'soft'])
    .default('hard')
    .describe('`hard`: requests above the amount are refused; `soft`: only reported'),
  reserve: z
    .enum(['typical', 'max'])
    .default('typical')
    .describe('the length of an answer that is reserved: as recent answers, or the longest possible'),
  enforcement: z
    .enum(['fast', 'strict'])
    .default('fast')
    .describe(
      'while the counters that `WORKERS` or several gateways share do not answer: `fast` continues with a share of what was left, `strict` refuses with 503 after 50 ms',
    ),
  countFrom: z
    .enum(['creation', 'period'])
    .default('creation')
    .describe('what counts in the period in which the budget is added: requests from then on, or all of the period'),
  onOverrun: z
    .enum(['finish', 'cut'])
    .default('finish')
    .describe('a stream that becomes more expensive than reserved, when the amount is used up: finish it, or end it'),
  alerts: z
    .array(z.number().positive().max(1_000))
    .max(MAX.alerts)
    .default([])
    .describe('percentages that send an alert; none: those of `alerts.rules.budget`')
    .meta({ allowed: 'a list of at most 10 percentages above 0' }),
  createdAt: instant('creation, for reports'),
})

const dollars = (about: string) =>
  z.union([text, z.number()]).optional().describe(about).meta({ allowed: 'dollars per million tokens, such as 1.25' })

const perMillion = z
  .strictObject({
    input: dollars('input'),
    output: dollars('output'),
    cacheRead: dollars('cached input; unset: as other input, and so for all parts of the input'),
    cacheWrite: dollars('input that is written to a cache'),
    cacheWrite1h: dollars('input that is written to a cache for an hour'),
    audioInput: dollars('audio input'),
    imageInput: dollars('image input'),
    videoInput: dollars('video input'),
    reasoning: dollars('reasoning; unset: as other output, and so for all parts of the output'),
    audioOutput: dollars('audio output'),
    imageOutput: dollars('image output'),
    videoOutput: dollars('video output'),
  })
  .optional()
  .describe('prices in dollars per million tokens; they replace those of the catalogue one by one')

const factor = z.number().positive().max(1_000)

export const priceSchema = z.strictObject({
  id: id('prc'),
  provider: text.describe('provider'),
  model: text.describe('models of the provider, by name or glob'),
  effectiveFrom: instant('applies to requests received from then on; unset: always'),
  factor: factor.optional().describe('multiplies the whole cost: 0.85 for a discount of 15 %'),
  perMillion,
  tiers: z
    .array(z.strictObject({ above: z.int().positive(), perMillion }))
    .max(MAX.alerts)
    .optional()
    .describe('other prices for requests with more than `above` input tokens'),
  service: z
    .record(z.string(), factor)
    .optional()
    .describe(
      'factors of the prices of tokens by service tier, speed and region, such as { batch: 0.5, fast: 6, us: 1.1 }; they multiply each other',
    ),
  perCall: z
    .record(z.string(), z.union([text, z.number()]).meta({ allowed: 'dollars per call, such as 0.01' }))
    .optional()
    .describe(
      'dollars per call of a tool that the provider runs, such as { web_search: 0.01 }; with `_prompt` (web_search_prompt) per answer with such calls',
    ),
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
export type BudgetEntry = z.output<typeof budgetSchema>
export type PriceEntry = z.output<typeof priceSchema>
export type AlertsEntry = z.output<typeof alertsSchema>
