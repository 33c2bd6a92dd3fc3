/** Where and how providers keep the data of requests, and what requests may require of it. Plain JSON data. */

/** What the operator declares of a provider. An absent fact is unknown, and satisfies no requirement. */
export type DataFacts = {
  /** A label with parts, the widest first: `eu`, `eu-de`, `local`. */
  readonly region?: string | undefined
  /** Days for which prompts or answers are kept; 0: not at all. */
  readonly retention?: number | undefined
  /** Models are trained with prompts or answers. */
  readonly training?: boolean | undefined
}

/** The facts of a provider. `models`: those that differ, by names or globs of models. */
export type DeclaredFacts = DataFacts & { readonly models?: { readonly [glob: string]: DataFacts } | undefined }

/** What a target must satisfy to receive a request; null: not required. */
export type Require = {
  /** Regions of which one must contain that of the target. `[]`: none is allowed. */
  readonly region: readonly string[] | null
  /** Most days of retention. */
  readonly retention: number | null
  readonly training: false | null
}

export type FactName = keyof Require

/** Nothing is required. */
export const NO_REQUIRE: Require = { region: null, retention: null, training: null }

/** The form of a region. */
export const REGION = /^[a-z0-9]{1,20}(?:-[a-z0-9]{1,20}){0,4}$/

/** Most regions of one requirement, and most days. */
export const MAX_REQUIRE = { regions: 20, days: 36_500 }

/** The header with the requirement of one request. */
export const REQUIRE_HEADER = 'x-headgate-require'
