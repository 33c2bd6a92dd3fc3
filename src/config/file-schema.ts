/**
 * The schema of the configuration file: all settings, and what only the file can express. The published JSON Schema is
 * generated from `fileSchema`.
 */
import { z } from 'zod'
import { settingsSchema } from '../core/settings.ts'
import { MAX_CLAIM, parseClaim } from '../policy/prove/claim.ts'
import { BUDGET_ENTRY } from '../records/entities/budget.ts'
import { KEY_ENTRY } from '../records/entities/key.ts'
import { PRICE_ENTRY } from '../records/entities/price.ts'
import { REQUIRE, REQUIRE_USE } from '../records/entities/restrictions.ts'
import { ROUTE_ENTRY, WEIGHT } from '../records/entities/route.ts'
import { TEAM_ENTRY } from '../records/entities/team.ts'
import { WHEN } from '../records/entities/when.ts'
import { alertsSchema } from './alerts-schema.ts'
import { claudeSchema } from './claude-schema.ts'
import { styleNames } from './definition.ts'
import { facts } from './facts-schema.ts'
import { guardSchema } from './guards-schema.ts'
import { PASS_THROUGH } from './pass-schema.ts'
import { retirementSchema } from './retirements.ts'
import { ssoSchema } from './sso-schema.ts'
import { tokenRules } from './token-schema.ts'

const text = z.string().min(1)

const keySchema = z.union([
  text,
  z.strictObject({
    value: text,
    weight: WEIGHT,
    cacheScope: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
      .optional()
      .describe('a name for the prompt cache that it shares with other keys, such as that of their workspace')
      .meta({ allowed: 'a name of letters, digits, ".", "_" and "-", at most 64 characters' }),
  }),
])
const tokens = z.int().min(1).max(1_000_000_000).optional()
const modelSchema = z.union([
  text,
  z.strictObject({
    id: text,
    contextWindow: tokens.describe('context window in tokens, instead of the one in the catalogue'),
    maxOutputTokens: tokens.describe('most output tokens of an answer, instead of those in the catalogue'),
  }),
])

export const providerSchema = z.strictObject({
  kind: text
    .optional()
    .describe("a known provider's name, or openai-compatible; required unless the name is a known one"),
  baseUrl: text.optional().describe('base URL instead of the default one, with the version segment'),
  keys: z
    .array(keySchema)
    .optional()
    .describe(`keys, as "\${NAME}" or with a weight; keys from the environment are added`),
  models: z.array(modelSchema).optional().describe('models, as names or with their limits; the first is the default'),
  styles: z
    .array(z.enum(Object.values(styleNames)))
    .min(1)
    .optional()
    .describe('API styles to use with it'),
  aggregate: z
    .boolean()
    .optional()
    .describe('request a stream also for whole answers, so that an interrupted one can be retried on another target'),
  headers: z
    .record(z.string(), text)
    .optional()
    .describe(`headers of every request to it, such as "\${GATE_TOKEN}"; clients cannot replace them`),
  forwardHeaders: z
    .array(text)
    .optional()
    .describe('names of client headers that are forwarded, instead of those that it is known to read; [] for none'),
  proxy: text.optional().describe('proxy that leads to it: its address, `env` or `none`, instead of `network.proxy`'),
  ca: z
    .union([text, z.array(text)])
    .optional()
    .describe('files with certificates (PEM) that are trusted for it, beside those of `network.ca`'),
  caOnly: z.boolean().optional().describe('trust only the certificates of its own `ca`'),
  clientCert: z
    .strictObject({ cert: text, key: text })
    .optional()
    .describe('files (PEM) with the certificate that the gateway shows it, and the key of that'),
  serverName: text.optional().describe('name in its certificate, if it is not that of the base URL'),
  passThrough: PASS_THROUGH.optional().describe(
    'its own API at `/NAME/…`, for clients with `access.passThrough`; access to models does not apply there',
  ),
  variables: z.record(z.string(), text).optional().describe('further values it needs, such as apiVersion for Azure'),
  facts: z
    .strictObject({
      ...facts,
      models: z
        .record(text, z.strictObject(facts))
        .optional()
        .describe('facts of models that differ, by names or globs (`gpt-5-zdr*`); the longest that matches counts'),
    })
    .optional()
    .describe('where and how it keeps data, for `require`. What is left out is unknown, and satisfies nothing'),
})

/** A route in place of the default route. */
export const ruleSchema = z.strictObject({ when: WHEN, route: text.describe('the name of a route') })

/** Rules in one file. */
const MAX_RULES = 100

/** Claims in one file. */
const MAX_CLAIMS = 200

/** As `headgate prove` takes it. */
export const claimSchema = z
  .string()
  .max(MAX_CLAIM)
  .superRefine((text, context) => {
    const parsed = parseClaim(text)
    if (!parsed.ok) context.addIssue({ code: 'custom', message: parsed.failure.message })
  })

/** The sections that only the file has. */
const sections = {
  providers: z.record(z.string(), providerSchema).optional().describe('providers by name; tried in this order'),
  require: REQUIRE.optional().describe(`${REQUIRE_USE}, for all requests`),
  claims: z
    .array(claimSchema)
    .max(MAX_CLAIMS)
    .optional()
    .describe('what must hold of the data policy (`team=health: region in eu; retention=0`): proved at each load'),
  guards: z
    .record(z.string().min(1), guardSchema)
    .optional()
    .describe('rules for the texts of requests and answers, by name'),
  routes: z
    .record(z.string().min(1), ROUTE_ENTRY)
    .optional()
    .describe('names that clients can send as `model`; `*` in a name matches any text, exact names come first'),
  models: z
    .record(z.string().min(1), retirementSchema)
    .optional()
    .describe('ends of models, by `provider/model` as the provider names it'),
  rules: z
    .array(ruleSchema)
    .max(MAX_RULES)
    .optional()
    .describe(
      'routes for `auto` and names that are no known model, in place of the default route; the first that matches',
    ),
  teams: z.record(z.string().min(1), TEAM_ENTRY).optional().describe('teams by name: groups of client keys'),
  keys: z.record(z.string().min(1), KEY_ENTRY).optional().describe('client keys by name'),
  budgets: z.record(z.string().min(1), BUDGET_ENTRY).optional().describe('budgets by name'),
  prices: z.array(PRICE_ENTRY).optional().describe('prices that differ from the catalogue'),
  alerts: alertsSchema.optional().describe('webhook that receives alerts'),
  sso: ssoSchema.optional().describe('single sign-on with OpenID Connect'),
  claude: claudeSchema.optional().describe('the gateway protocol of Claude Code'),
}

/** Keys and tokens of clients: the settings, and what only the file can express. */
const auth = z.strictObject({ ...settingsSchema.shape.auth.unwrap().shape, jwt: tokenRules }).prefault({})

export const fileSchema = z.strictObject({ ...settingsSchema.shape, auth, ...sections })

export type ProviderEntry = z.output<typeof providerSchema>
export type RuleEntry = z.output<typeof ruleSchema>
