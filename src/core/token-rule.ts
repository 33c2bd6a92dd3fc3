/** Rules by which signed tokens (JWT, RFC 7519) of an issuer identify clients. Plain data, of headgate.yaml. */
import type { Access, AccountLimits, Tags } from './accounts.ts'
import type { CacheRules } from './cache-rules.ts'
import type { Require } from './data-policy.ts'

/** Signature algorithms of tokens: asymmetric ones only (RFC 8725, section 3.1). */
export const TOKEN_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const
export type TokenAlgorithm = (typeof TOKEN_ALGORITHMS)[number]

/** Where the public keys of an issuer are. Without `url` and `file` they are found by OpenID Connect Discovery. */
export type KeySetPlace = {
  readonly issuer: string
  /** The address of the key set. */
  readonly url: string | null
  /** A file with the key set. */
  readonly file: string | null
  /** A file with the bearer token of the fetch, read for each one. */
  readonly tokenFile: string | null
  /** A file with certificates (PEM) trusted instead of the default ones. */
  readonly caFile: string | null
}

/** Which team pays. The first glob that matches a value of the claim decides. Names or IDs of teams. */
export type TokenTeam =
  | { readonly kind: 'value'; readonly team: string }
  | {
      readonly kind: 'claim'
      readonly claim: string
      readonly map: readonly (readonly [glob: string, team: string])[]
      readonly fallback: string | null
    }

/** One rule. A claim is a name, or a JSON pointer that begins with a slash (RFC 6901), since names may contain dots. */
export type TokenRule = {
  readonly name: string
  readonly keys: KeySetPlace
  /** The token must be for one of them. */
  readonly audience: readonly string[]
  readonly algorithms: readonly TokenAlgorithm[]
  /** Claims and the globs of which one must match. */
  readonly require: readonly (readonly [claim: string, globs: readonly string[]])[]
  /** The claim that names the client. */
  readonly subject: string
  readonly team: TokenTeam
  /** The claim with the user for budgets per user. */
  readonly user: string | null
  /** Tags, and the claims with their values. */
  readonly tags: readonly (readonly [tag: string, claim: string])[]
  /** ms by which the clock of the issuer may differ. */
  readonly skew: number
  /** ms: a token that is valid for longer is refused. */
  readonly maxAge: number
  // As of a key that the subject names.
  readonly access: Access
  readonly limits: AccountLimits
  /** `require` of a key: here that is the name for claims. */
  readonly dataPolicy: Require
  readonly defaultRoute: string | null
  readonly cache: CacheRules | null
  readonly logBodies: boolean
  /** Absent: false. */
  readonly requireSession?: boolean | undefined
}

/** A client as a token identifies it: the subject of an issuer. */
export type TokenIdentity = {
  readonly rule: TokenRule
  readonly subject: string
  /** The name or ID of its team. */
  readonly team: string
  readonly user: string | null
  readonly tags: Tags
  /** End of the token, in ms since 1970, with the skew. */
  readonly until: number
}
