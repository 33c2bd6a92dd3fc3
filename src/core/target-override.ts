/** What an operator changes in requests to one target of a route. Plain JSON data. */
import type { Effort } from './chat.ts'
import type { JsonObject } from './json-value.ts'

/** Settings by their canonical names, with the type of their values. */
export type SettingValues = {
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  /** Tokens of the answer, with reasoning. */
  readonly maxOutputTokens: number
  readonly stop: readonly string[]
  readonly seed: number
  readonly effort: Effort
  /** Tokens; 0: no reasoning. */
  readonly thinkingBudget: number
  readonly verbosity: string
  readonly serviceTier: string
  readonly parallelToolCalls: boolean
  readonly store: boolean
  readonly user: string
}
export type OverrideName = keyof SettingValues

/** Bounds of the client's own value. */
export type Bounds<T> = { readonly min?: T | undefined; readonly max?: T | undefined }

export type TargetOverride = {
  /** Values in place of those of the client, or bounds for them. */
  readonly set?: { readonly [name in OverrideName]?: SettingValues[name] | Bounds<SettingValues[name]> | undefined }
  /** Values for what the client does not state. */
  readonly default?: { readonly [name in OverrideName]?: SettingValues[name] | undefined }
  /** Settings of the client that are left out. */
  readonly remove?: readonly OverrideName[]
  /** Members of the body, if the target has the client's format. */
  readonly extra?: JsonObject
  /** In ms; absent: as for all targets. `request`: of one attempt. */
  readonly timeout?: {
    readonly firstByte?: number | undefined
    readonly firstContent?: number | undefined
    readonly idle?: number | undefined
    readonly request?: number | undefined
  }
  /** Further attempts at the target after failures that are usually short; absent: as `retry.sameModelWait` has it. */
  readonly retries?: number
  /** Headers of each request to it, by lower-case name. */
  readonly headers?: { readonly [name: string]: string }
  /** Beta features that are added to or left out of those that the client requests. */
  readonly betas?: { readonly add?: readonly string[] | undefined; readonly drop?: readonly string[] | undefined }
  /** `auto`: cache breakpoints are added to requests that have none. */
  readonly cacheBreakpoints?: 'auto'
}

/** The header by which a request has or refuses cache breakpoints: `auto`, `off`. */
export const BREAKPOINTS_HEADER = 'x-headgate-cache-breakpoints'
