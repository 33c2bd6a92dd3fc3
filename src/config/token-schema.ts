/** The list `auth.jwt` of the file: rules by which signed tokens identify clients. */
import { z } from 'zod'
import { TOKEN_ALGORITHMS } from '../core/token-rule.ts'
import { KEY_MEMBERS } from '../records/entities/key.ts'

/** Entries of a list, and characters of a text. */
const MAX = { rules: 50, entries: 200, text: 500 }
const text = z.string().min(1).max(MAX.text)
const list = (about: string) => z.array(text).min(1).max(MAX.entries).describe(about)

/** A claim: a name, or a JSON pointer. */
const claim = text
  .regex(/^\S+$/)
  .meta({ allowed: 'the name of a claim, or a JSON pointer such as /kubernetes.io/namespace' })

const { access, limits, require: dataPolicy, defaultRoute, cache, logBodies, requireSession } = KEY_MEMBERS

const tokenRule = z.strictObject({
  name: text
    .regex(/^[a-z0-9][a-z0-9-]{0,31}$/)
    .describe('name of the rule, for the log and lists')
    .meta({ allowed: 'lower-case letters, digits and -, at most 32' }),
  issuer: text
    .regex(/^\S+$/)
    .describe('`iss` of the tokens, exactly')
    .meta({ allowed: 'the value of `iss`, without spaces' }),
  audience: list('values of `aud`, of which the token must have one'),
  jwks: text.optional().describe('address of the key set; unset: as the issuer states it (OpenID Connect Discovery)'),
  jwksFile: text.optional().describe('file with the key set, instead of an address'),
  tokenFile: text.optional().describe('file with the bearer token for the key set, as a Kubernetes API requires it'),
  caFile: text.optional().describe('file with the certificates (PEM) of the address, instead of the usual ones'),
  algorithms: z
    .array(z.enum(TOKEN_ALGORITHMS))
    .min(1)
    .default(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])
    .describe('accepted signatures'),
  require: z
    .record(text, z.union([text, list('globs')]))
    .default({})
    .describe(
      'claims and the values that they must have: a glob in which case matters, or a list of which one must match. Needed for issuers that sign for everybody',
    ),
  subject: claim.default('sub').describe('claim that names the client'),
  team: z
    .strictObject({
      value: text.optional().describe('name or ID of the team of all tokens'),
      claim: claim.optional().describe('claim that selects the team'),
      map: z.record(text, text).optional().describe('globs of the claim and the teams; the first that matches decides'),
      default: text.optional().describe('team of tokens that match none; unset: refused with 403 team_unknown'),
    })
    .default({ value: 'default' })
    .describe('which team pays'),
  user: claim.optional().describe('claim with the user, for budgets `per: user`; a token without it is refused'),
  tags: z.record(text, claim).default({}).describe('tags and the claims with their values'),
  skew: z.int().min(0).max(300_000).default(30_000).describe('difference of clocks that is accepted (ms)'),
  maxAge: z
    .int()
    .min(60_000)
    .max(31_536_000_000)
    .default(86_400_000)
    .describe('a token that is valid for longer is refused (ms)'),
  access,
  limits,
  dataPolicy,
  defaultRoute,
  cache,
  logBodies,
  requireSession,
})

export const tokenRules = z
  .array(tokenRule)
  .max(MAX.rules)
  .optional()
  .describe('signed tokens (JWT) that identify clients, by issuer (docs/jwt.md)')

export const tokenRuleSchema = tokenRule

export type TokenRuleEntry = z.output<typeof tokenRule>
