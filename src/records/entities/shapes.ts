/** The bodies that create records: what the admin API accepts, what is stored as `doc`, and what a merge patch applies to. */
import { z } from 'zod'
import { accountNameProblem } from '../../policy/accounts/account-name.ts'
import { accessListProblem } from '../../policy/accounts/key-access.ts'
import { BUDGET_BODY } from './budget.ts'
import { PRICE_BODY } from './price.ts'

/** Entries of a list, and characters of a text. */
const LIMITS = { entries: 200, text: 256, zone: 64, tags: 32 }

const NAME = z.string().superRefine((name, context) => {
  const problem = accountNameProblem(name)
  if (problem !== null) context.addIssue({ code: 'custom', message: problem })
})

const TEXT = z.string().min(1).max(LIMITS.text)
const LIST = z.array(TEXT).max(LIMITS.entries).nullable()
const accessList = (dimension: Parameters<typeof accessListProblem>[0]) =>
  LIST.default(null).superRefine((list, context) => {
    const problem = accessListProblem(dimension, list)
    if (problem !== null) context.addIssue({ code: 'custom', message: problem })
  })

const ACCESS = z
  .strictObject({
    models: accessList('models'),
    routes: accessList('routes'),
    providers: accessList('providers'),
    styles: accessList('styles'),
    ips: accessList('ips'),
  })
  .prefault({})
  .describe('lists of globs; null: no restriction, []: nothing')

const LIMIT = z.int().min(0).max(1_000_000_000).nullable().default(null)
const ACCOUNT_LIMITS = z
  .strictObject({ requestsPerMinute: LIMIT, tokensPerMinute: LIMIT, concurrent: LIMIT })
  .prefault({})
  .describe('null: no limit of its own; 0: no request is allowed')

const TAGS = z
  .record(z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/), z.string().max(LIMITS.text))
  .refine((tags) => Object.keys(tags).length <= LIMITS.tags, `At most ${LIMITS.tags} tags are possible.`)
  .prefault({})

const CACHE = z
  .strictObject({
    ttl: z.int().min(0).max(31_536_000).describe('seconds for which an answer is used again; 0: no answer is cached'),
    scope: z.enum(['key', 'team']).default('key'),
    anyTemperature: z.boolean().default(false),
    tools: z.boolean().default(false),
    requestControl: z.boolean().default(false),
  })
  .nullable()
  .default(null)

const TIME = z.iso.datetime({ offset: true }).nullable().default(null)

export const TEAM_BODY = z.strictObject({
  name: NAME,
  access: ACCESS,
  limits: ACCOUNT_LIMITS,
  cache: CACHE,
  tags: TAGS,
})

export const KEY_BODY = z.strictObject({
  name: NAME,
  team: TEXT.default('default').describe('the ID or the name of a team'),
  expires_at: TIME,
  access: ACCESS,
  limits: ACCOUNT_LIMITS,
  defaultRoute: TEXT.nullable().default(null),
  cache: CACHE,
  logBodies: z.boolean().default(false).describe('stores the bodies of its requests, redacted'),
  tags: TAGS,
})

const SECRET = z
  .string()
  .min(20)
  .max(512)
  .regex(/^[\x21-\x7e]+$/, 'Use printable ASCII characters without spaces.')
const DIGEST = z
  .string()
  .regex(/^(?:s1|h1):[0-9a-f]{64}$/, 'Write s1: and the SHA-256 of the key in lower-case hexadecimal.')

/** Members of a create request only. Without them a secret is generated. */
export const KEY_SECRET = z
  .strictObject({ secret: SECRET.optional(), digest: DIGEST.optional(), last4: z.string().max(4).optional() })
  .refine(({ secret, digest }) => secret === undefined || digest === undefined, 'Send `secret` or `digest`, not both.')

export const TOKEN_BODY = z.strictObject({
  name: NAME,
  bindings: z
    .array(z.strictObject({ role: z.enum(['viewer', 'operator', 'admin']), team: TEXT.nullable().default(null) }))
    .min(1)
    .max(LIMITS.entries)
    .describe('a role, for one team or, with null, for all'),
  expires_at: TIME,
})

export type TeamBody = z.infer<typeof TEAM_BODY>
export type KeyBody = z.infer<typeof KEY_BODY>
export type TokenBody = z.infer<typeof TOKEN_BODY>

/** The schema of each kind of record. */
export const BODIES = {
  team: TEAM_BODY,
  key: KEY_BODY,
  budget: BUDGET_BODY,
  price: PRICE_BODY,
  token: TOKEN_BODY,
} as const
export type RecordKind = keyof typeof BODIES
