/** The settings of single sign-on, and what is known of a person who signs in. */
import type { Secret } from './secret.ts'

/** An issuer of OpenID Connect. */
export type IdentityProvider = {
  /** Its name in the file. */
  readonly name: string
  /** As its discovery document states it. */
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client, which PKCE protects alone. */
  readonly clientSecret: Secret | null
  readonly scopes: readonly string[]
  /** The claim with the groups: a name, or a JSON pointer that begins with `/`. */
  readonly groups: string
  /** Domains of verified e-mail addresses that may sign in; empty: all people of the issuer. */
  readonly domains: readonly string[]
  /** Further parameters of the authorization request. */
  readonly parameters: Readonly<Record<string, string>>
}

/** The people of a rule. `group` null: everyone. `provider` null: people of every issuer. */
type GroupRule = { readonly group: string | null; readonly provider: string | null }

/** `team`: the name or the ID of a team; null: all teams. */
export type RoleRule = GroupRule & { readonly role: 'viewer' | 'operator' | 'admin'; readonly team: string | null }
export type TeamRule = GroupRule & { readonly team: string }

/** How long a session lasts, in ms. */
export type SessionRules = {
  /** After its last use. */
  readonly idle: number
  /** After the sign-in. */
  readonly max: number
  /** Between two checks at the issuer whether the person still has access. */
  readonly recheck: number
}

export type SignInSettings = {
  /** The address at which people reach the gateway, without a slash at its end. */
  readonly publicUrl: string
  /** The first encrypts and signs; all are accepted. At least one. */
  readonly secrets: readonly Secret[]
  readonly providers: readonly IdentityProvider[]
  /** All that match give their role. */
  readonly roles: readonly RoleRule[]
  /** The first that matches pays for model calls. */
  readonly teams: readonly TeamRule[]
  readonly session: SessionRules
}

/** An identity as its issuer stated it. Issuer and subject identify a person; an e-mail address never does. */
export type SignedIn = {
  readonly issuer: string
  readonly subject: string
  /** The name of the identity provider in the file. */
  readonly provider: string
  readonly email: string | null
  readonly name: string | null
  readonly groups: readonly string[]
}
