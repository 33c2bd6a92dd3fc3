/** A client key. */
import { z } from 'zod'
import { entryId, instant, memberReader, NAME, TEXT, TIME } from './member.ts'
import { entryStatus, RESTRICTIONS } from './restrictions.ts'
import { dollars, SECRETS, shownAs } from './shown.ts'

const { access, limits, require, loops, cache, tags } = RESTRICTIONS

/** In every form: the body, the file, the row and the answers. */
export const KEY_MEMBERS = {
  access,
  limits,
  require,
  defaultRoute: TEXT.nullable().default(null).describe('route for `auto` and for unknown model names'),
  cache,
  loops,
  logBodies: z.boolean().default(false).describe('store the bodies of its requests, redacted'),
  requireSession: z
    .boolean()
    .default(false)
    .describe('refuse its requests that name no session, so that budgets `per: session` count all of them'),
  tags,
}

const team = TEXT.default('default').describe('name or ID of its team')

const digest = z
  .string()
  .regex(/^(?:s1|h1):[0-9a-f]{64}$/, 'Write s1: and the SHA-256 of the key in lower-case hexadecimal.')
  .meta({ allowed: 's1: or h1: and 64 hexadecimal digits' })
const end = z.string().max(4)

/** Valid secrets of a key at a time: the newest, and those of the rotations before. */
export const MAX_SECRETS = 3

export const KEY_ENTRY = z.strictObject({
  id: entryId(/^key_[a-z]{12}$/, 'key'),
  team,
  status: entryStatus('`blocked`: the key is refused'),
  digest: digest
    .optional()
    .describe(
      'digest of the key: `s1:` and its SHA-256, or `h1:` and its HMAC-SHA-256 with `auth.pepper`, in hexadecimal',
    ),
  secret: TEXT.optional().describe(`the key itself, as "\${NAME}" or "\${file:/path}"`),
  secrets: z
    .array(
      z.strictObject({
        digest,
        last4: end.min(1).optional(),
        createdAt: instant('creation'),
        until: instant('end of its validity'),
      }),
    )
    .min(1)
    .max(MAX_SECRETS)
    .optional()
    .describe('several digests instead of one, while a key is replaced'),
  createdAt: instant('creation, for reports'),
  expiresAt: instant('end of its validity'),
  ...KEY_MEMBERS,
})
export type KeyEntry = z.output<typeof KEY_ENTRY>

export const KEY_BODY = z.strictObject({ name: NAME, team, expires_at: TIME, ...KEY_MEMBERS })

const secret = z
  .string()
  .min(20)
  .max(512)
  .regex(/^[\x21-\x7e]+$/, 'Use printable ASCII characters without spaces.')

/** Members of a create request only. Without them a secret is generated. */
export const KEY_SECRET = z
  .strictObject({ secret: secret.optional(), digest: digest.optional(), last4: end.optional() })
  .refine((given) => given.secret === undefined || given.digest === undefined, 'Send `secret` or `digest`, not both.')

/** The body that creates a key: generated without `secret` and `digest`. */
export const NEW_KEY = z.strictObject({ ...KEY_BODY.shape, ...KEY_SECRET.shape }).meta({ id: 'NewKey' })

export const KEY = shownAs('key', { team, expires_at: TIME, ...KEY_MEMBERS }, SECRETS).meta({ id: 'Key' })

/** A key in a list. */
export const LISTED_KEY = KEY.extend({
  spend: dollars
    .nullable()
    .optional()
    .describe('With `spend=true`: its cost in the range; null: it could not be added up in time'),
  counters: z
    .array(z.strictObject({ budget: z.string(), spent: dollars }))
    .optional()
    .describe('With `counters=true`: what the key, or its team, has spent of budgets `per` key or team'),
})

/** The members of a stored body, of an entry or of a key. */
export const keyMembersOf = memberReader(KEY_MEMBERS)
