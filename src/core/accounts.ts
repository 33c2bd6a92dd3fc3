/** Teams, client keys and budgets as plain data. Times in ms since 1970, amounts in nano-dollars. */
import type { Nano } from './money.ts'

/**
 * What a team or a key may use: a list of globs for each dimension. `*` matches any text, a leading `!` denies. `null`: no
 * restriction. `[]`: nothing. A request must be allowed by the team and by the key.
 */
export type Access = {
  readonly models: AccessList
  readonly routes: AccessList
  /** Provider instances. */
  readonly providers: AccessList
  /** API styles: `chat`, `responses`, `messages` … */
  readonly styles: AccessList
  /** Client addresses: single ones or CIDR ranges instead of globs. */
  readonly ips: AccessList
}
export type AccessList = readonly string[] | null

/** No restriction in any dimension. */
export const FULL_ACCESS: Access = { models: null, routes: null, providers: null, styles: null, ips: null }

/** Limits of a team or a key; `null`: no limit of its own. `0`: no request is allowed. */
export type AccountLimits = {
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  /** Requests in progress, from admission to their end. */
  readonly concurrent: number | null
}

/** No limits. */
export const NO_LIMITS: AccountLimits = { requestsPerMinute: null, tokensPerMinute: null, concurrent: null }

/** Names and values that an operator gives to teams and keys, to select them in budgets and reports. */
export type Tags = { readonly [name: string]: string }

/** The owner of a team, key or budget: only this side changes it. */
export type ManagedBy = 'file' | 'api'

/** A group of keys. The team `default` always exists. */
export type Team = {
  /** `team_` and 12 lower-case letters. */
  readonly id: string
  readonly name: string
  readonly status: 'active' | 'blocked'
  readonly access: Access
  readonly limits: AccountLimits
  readonly tags: Tags
  readonly managed: ManagedBy
}

/** One secret of a key. A key has several while it is rotated. */
export type KeySecret = {
  /** `s1:` and SHA-256, or `h1:` and HMAC-SHA-256 with the configured pepper; in hexadecimal. */
  readonly digest: string
  readonly last4: string
  readonly createdAt: number
  /** End of its validity; null: as long as the key. */
  readonly until: number | null
}

/** The key of a client. Expiry is a time, not a status, because it needs no writer. */
export type ClientKey = {
  /** `key_` and 12 lower-case letters. */
  readonly id: string
  readonly name: string
  /** The ID of its team. */
  readonly team: string
  readonly status: 'active' | 'blocked' | 'revoked'
  readonly secrets: readonly KeySecret[]
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly access: Access
  readonly limits: AccountLimits
  /** Replaces the default route for `auto` and unknown model names; null: as configured for all. */
  readonly defaultRoute: string | null
  readonly tags: Tags
  readonly managed: ManagedBy
}

/** The identity of a client after authentication. Admission uses it, whatever produced it: a key or a signed token. */
export type Principal = {
  /** The ID of the key, or of the subject of a token. */
  readonly id: string
  readonly name: string
  readonly team: { readonly id: string; readonly name: string }
  /** The user for budgets per user; null: unknown. */
  readonly user: string | null
  /** Of the team and of the key; a request must be allowed by all. */
  readonly access: readonly Access[]
  /** Of the team and of the key; all apply. */
  readonly limits: readonly { readonly id: string; readonly limits: AccountLimits }[]
  /** Tags of the team, overridden by those of the key. */
  readonly tags: Tags
  readonly defaultRoute: string | null
}

/** The length of a budget's period. Periods follow the calendar in the budget's time zone. */
export type PeriodName = 'hour' | 'day' | 'week' | 'month' | 'quarter' | 'year' | 'total'

/** An amount over a period for the requests that a selector matches. */
export type Budget = {
  /** `bud_` and 12 lower-case letters. */
  readonly id: string
  readonly name: string
  readonly amount: Nano
  readonly period: PeriodName
  /** An IANA time zone, such as `Europe/Berlin`. */
  readonly timezone: string
  /** First day of a week (1 Monday to 7 Sunday) or of a month (1 to 28). Without effect on other periods. */
  readonly startDay: number
  readonly appliesTo: BudgetSelector
  /** One counter for all that match, or one for each. */
  readonly per: 'all' | 'team' | 'key' | 'user' | 'end_user'
  /** `hard` refuses, `soft` only reports. */
  readonly mode: 'hard' | 'soft'
  /** `strict` never exceeds what the authority granted; `fast` may use an overdraft. */
  readonly enforcement: 'fast' | 'strict'
  /** Which length of an answer is reserved. */
  readonly reserve: 'typical' | 'max'
  /** What happens to a stream that exceeds its reservation when the budget has no room. */
  readonly onOverrun: 'finish' | 'cut'
  readonly createdAt: number
  /** `creation`: a first period that has begun before the budget counts from its creation. */
  readonly countFrom: 'creation' | 'period'
  /** Percentages of the amount that send an alert. */
  readonly alerts: readonly number[]
  readonly managed: ManagedBy
}

/** How token counts are known: `exact` if the upstream counted them or none were used. */
export type UsageSource = 'exact' | 'estimated'

/** Where a cost comes from. `upstream`: its own figure. `none`: no price is known, and the cost is null. */
export type PriceSource = 'upstream' | 'override' | 'catalogue' | 'none'

/** Which requests a budget counts: those that match every member; `null`: all. */
export type BudgetSelector = {
  /** IDs of teams. */
  readonly teams: readonly string[] | null
  /** IDs of keys. */
  readonly keys: readonly string[] | null
  /** Every tag must have this value. */
  readonly tags: Tags | null
  /** Globs, as in `Access`. */
  readonly models: AccessList
  /** Globs of provider instances, as in `Access`. */
  readonly providers: AccessList
}
