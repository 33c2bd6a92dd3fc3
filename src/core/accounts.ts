/** Teams, client keys and budgets as plain data. Times in ms since 1970, amounts in nano-dollars. */
import type { CacheRules } from './cache-rules.ts'
import type { Require } from './data-policy.ts'
import type { LoopAction } from './loops.ts'
import type { Nano } from './money.ts'
import type { TeamRoute } from './route.ts'
import type { SignedIn } from './sign-in.ts'

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
  /** Calls of a provider's own API: `openai`, `gemini:/v1beta/files`. Unlike the others, null or absent: none. */
  readonly passThrough?: AccessList
}
export type AccessList = readonly string[] | null

/** No restriction in any dimension, and no pass-through. */
export const FULL_ACCESS: Access = {
  models: null,
  routes: null,
  providers: null,
  styles: null,
  ips: null,
  passThrough: null,
}

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
  /** A deleted team is kept for its name: usage mentions it. It has no keys that work. */
  readonly status: 'active' | 'blocked' | 'deleted'
  readonly access: Access
  readonly limits: AccountLimits
  /** What targets of its requests must satisfy. */
  readonly require: Require
  /** What is done when agents repeat themselves, if that is stricter than for all; absent or null: nothing more. */
  readonly loops?: LoopAction | null | undefined
  /** Null: as the route. */
  readonly cache: CacheRules | null
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
  /** What targets of its requests must satisfy, beside what its team requires. */
  readonly require: Require
  /** Replaces the default route for `auto` and unknown model names; null: as configured for all. */
  readonly defaultRoute: string | null
  /** Null: as the team. */
  readonly cache: CacheRules | null
  /** Stores the bodies of its requests, redacted. */
  readonly logBodies: boolean
  /** As of its team; the stricter one applies. */
  readonly loops?: LoopAction | null | undefined
  /** Refuses its requests that name no session; absent: false. */
  readonly requireSession?: boolean | undefined
  readonly tags: Tags
  readonly managed: ManagedBy
}

/** A client after authentication. Admission uses it, whatever produced it: a key or a signed token. */
export type Client = {
  /** The ID of the key, or of the subject of a token. */
  readonly id: string
  /** The owner of its stored responses and shared answers; empty if no key is required. Never shown. */
  readonly owner: string
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
  /** Of the key, otherwise of the team; null: as the route. */
  readonly cache: CacheRules | null
  /** What targets must satisfy for the team and for the key; absent: nothing. */
  readonly require?: Require
  /** Stores the bodies of its requests, redacted. */
  readonly logBodies?: true
  /** Refuses its requests that name no session. */
  readonly requireSession?: true
  /** The person who signed in; absent: the client is a key or a program. */
  readonly person?: ClientPerson
  /** The stricter one of the team and of the key; absent: off. */
  readonly loops?: LoopAction
}

/** A person as the issuer stated it, for the time of one access token. */
export type ClientPerson = Pick<SignedIn, 'provider' | 'email' | 'groups'>

/** The team of keys without a team, of `auth.keys` and of requests without a key. It always exists. */
export const DEFAULT_TEAM = { id: 'team_default', name: 'default' } as const

/** The client of requests without a key. */
export const ANONYMOUS: Client = {
  id: '',
  owner: '',
  name: '',
  team: DEFAULT_TEAM,
  user: null,
  access: [],
  limits: [],
  tags: {},
  defaultRoute: null,
  cache: null,
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
  readonly per: 'all' | 'team' | 'key' | 'user' | 'end_user' | 'session'
  /** `hard` refuses, `soft` only reports. */
  readonly mode: 'hard' | 'soft'
  /** Which length of an answer is reserved. */
  readonly reserve: 'typical' | 'max'
  /** What happens to a stream that exceeds its reservation when the budget has no room. */
  readonly onOverrun: 'finish' | 'cut'
  /**
   * What happens with `WORKERS` while the process that counts does not answer: `fast` continues with a share of what was
   * left, `strict` refuses. `soft` budgets are `fast`.
   */
  readonly enforcement: 'fast' | 'strict'
  /** What counts in the period in which the budget is created: requests from then on, or all of the period. */
  readonly countFrom: 'creation' | 'period'
  readonly createdAt: number
  /** Percentages of the amount that send an alert. */
  readonly alerts: readonly number[]
  readonly managed: ManagedBy
}

/** How token counts are known: `exact` if the upstream counted them or none were used. */
export type UsageSource = 'exact' | 'estimated'

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

/** Prices in nano-dollars per token, which may be fractions: 37.5 is $0.0375 per million tokens. */
export type TokenPrices = {
  readonly input?: number | undefined
  readonly output?: number | undefined
  /** Absent: as other input. So for all prices of parts of the input. */
  readonly cacheRead?: number | undefined
  /** Cache writes that are kept for five minutes, Anthropic's default. */
  readonly cacheWrite?: number | undefined
  /** Cache writes that are kept for an hour. Absent: as other cache writes. */
  readonly cacheWrite1h?: number | undefined
  readonly audioInput?: number | undefined
  readonly imageInput?: number | undefined
  readonly videoInput?: number | undefined
  /** Absent: as other output. So for all prices of parts of the output. */
  readonly reasoning?: number | undefined
  readonly audioOutput?: number | undefined
  readonly imageOutput?: number | undefined
  readonly videoOutput?: number | undefined
}

/** How a request is served, where that changes its price: the tier, Anthropic's speed, the region of the model. */
export type Service = {
  readonly serviceTier?: string | undefined
  readonly speed?: string | undefined
  readonly region?: string | undefined
}

/** All prices of a model at a provider. */
export type PriceList = TokenPrices & {
  /** Prices for requests with more than `above` input tokens. They apply to all tokens of the request. */
  readonly tiers?: readonly (TokenPrices & { readonly above: number })[] | undefined
  /**
   * Factors of the prices of tokens by service tier, speed and region: `{ batch: 0.5, priority: 2, fast: 6, us: 1.1 }`. They
   * multiply each other. One that is absent is 1.
   */
  readonly service?: { readonly [tier: string]: number } | undefined
  /**
   * Nano-dollars per call of a tool that the provider runs, by its name: `{ web_search: 10_000_000 }`. `web_search_prompt`: per
   * answer that made such calls, however many.
   */
  readonly tools?: { readonly [name: string]: number } | undefined
  /**
   * Nano-dollars per second of audio, character, query and image, in place of the prices of tokens: `{ seconds: 100_000 }`. Images may
   * have a price by size and by quality: `{ 'images/1024x1024/hd': 80_000_000 }`.
   */
  readonly perUnit?: { readonly [unit: string]: number } | undefined
}

/** Prices that an operator sets for a provider instance and a model. They replace those of the catalogue one by one. */
export type PriceOverride = PriceList & {
  /** Multiplies the whole cost: 0.85 for a discount of 15 %. */
  readonly factor?: number | undefined
}

/** The requests to which price overrides apply. */
export type PriceRule = {
  /** `prc_` and 12 lower-case letters. */
  readonly id: string
  /** A glob of provider instances. */
  readonly provider: string
  /** A glob of the provider's models. */
  readonly model: string
  /** Applies to requests received from then on. 0: always. */
  readonly effectiveFrom: number
  readonly prices: PriceOverride
  readonly managed: ManagedBy
}

/** Teams, keys, budgets, prices and routes of teams of one owner: of headgate.yaml, or of the database. Plain JSON data. */
export type AccountRecords = {
  readonly teams: readonly Team[]
  readonly keys: readonly ClientKey[]
  readonly budgets: readonly Budget[]
  readonly prices: readonly PriceRule[]
  /** Only the database has them: the routes of the file are for all teams. */
  readonly routes: readonly TeamRoute[]
}

/**
 * The records of headgate.yaml. Unlike in `Directory`, `team` of a key and `teams` and `keys` of a budget are names or IDs,
 * because they may name records of the database. A team named `default` has the ID of `DEFAULT_TEAM`.
 */
export type FileAccounts = AccountRecords & {
  /** Where each record is written, by ID: `headgate.yaml:41`. */
  readonly places: { readonly [id: string]: string }
}

/** No records. */
export const NO_ACCOUNTS: FileAccounts = { teams: [], keys: [], budgets: [], prices: [], routes: [], places: {} }

/** All teams, keys, budgets, prices and routes of teams at one time, by ID. Immutable: a change produces another directory. */
export type Directory = {
  /** Contains `DEFAULT_TEAM` and the team of every key. */
  readonly teams: ReadonlyMap<string, Team>
  /** Contains revoked and expired keys too. */
  readonly keys: ReadonlyMap<string, ClientKey>
  readonly budgets: ReadonlyMap<string, Budget>
  readonly prices: readonly PriceRule[]
  /** The same object until one of them changes, because others are computed from it. */
  readonly routes: ReadonlyMap<string, TeamRoute>
}
