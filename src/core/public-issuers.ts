/**
 * Issuers that sign tokens for everybody, with an audience that the caller chooses. Their audience authorizes nothing, so a rule for
 * them must state whose tokens are accepted.
 */
import type { TokenRule } from './token-rule.ts'

/** With the claim that names the organisation, for the message. Pages of the issuers, read 2026-11-27. */
const PUBLIC: readonly (readonly [issuer: RegExp, claim: string])[] = [
  [/^https:\/\/token\.actions\.githubusercontent\.com(?:\/|$)/, 'repository_owner_id'],
  [/^https:\/\/gitlab\.com\/?$/, 'namespace_id'],
  [/^https:\/\/accounts\.google\.com\/?$/, 'hd, or email'],
  [/^https:\/\/agent\.buildkite\.com\/?$/, 'organization_id'],
  [/^https:\/\/app\.terraform\.io\/?$/, 'terraform_organization_id'],
  [/^https:\/\/oidc\.vercel\.com\/?$/, 'owner_id'],
  [/^https:\/\/oauth2\.sigstore\.dev\/auth\/?$/, 'email'],
  [/^https:\/\/appleid\.apple\.com\/?$/, 'sub'],
]

/** The claim that a rule for a public issuer should require; null: the rule has a requirement, or the issuer is not public. */
export const missingRequirement = ({
  keys: { issuer },
  require,
}: Pick<TokenRule, 'require'> & { readonly keys: Pick<TokenRule['keys'], 'issuer'> }): string | null => {
  const found = PUBLIC.find(([pattern]) => pattern.test(issuer))
  // The audience is what the caller chooses, and `*` requires nothing.
  const requires = require.some(([claim, globs]) => !CHOSEN.has(claim) && globs.every((glob) => /[^*]/.test(glob)))
  return found && !requires ? found[1] : null
}

const CHOSEN: ReadonlySet<string> = new Set(['iss', 'aud', '/iss', '/aud'])
