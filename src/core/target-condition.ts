/** What a request must be for a target of a route to receive it. Plain JSON data, as the configuration file has it. */
import type { Effort } from './chat.ts'

/** Names or globs with `*`, of which one must match. A leading `!` excludes: without other entries all else matches. */
export type Patterns = string | readonly string[]

export const TOOL_KINDS = ['function', 'custom', 'hosted'] as const
export type ToolKind = (typeof TOOL_KINDS)[number]

export const MEDIA_KINDS = ['image', 'audio', 'file'] as const
export type MediaKind = (typeof MEDIA_KINDS)[number]

/** All facts that are present must hold. */
export type TargetCondition = {
  /** By ID or name. */
  readonly team?: Patterns | undefined
  readonly key?: Patterns | undefined
  /** The user of the key, or the person; not the end user that a body names. */
  readonly user?: Patterns | undefined
  /** The API style of the call. */
  readonly style?: Patterns | undefined
  /** Tags of the team and the key. */
  readonly tag?: { readonly [name: string]: Patterns } | undefined
  /** By lower-case name. */
  readonly header?: { readonly [name: string]: Patterns } | undefined
  /** Estimated. `from` is included, `below` is not. */
  readonly inputTokens?: { readonly from?: number | undefined; readonly below?: number | undefined } | undefined
  /** Whether tools are declared, or kinds of which one must be. */
  readonly tools?: boolean | readonly ToolKind[] | undefined
  /** Kinds of which one must occur; `[]`: none may. */
  readonly media?: readonly MediaKind[] | undefined
  /** Levels of which one must be requested; `none`: also if the request has no level. */
  readonly effort?: readonly Effort[] | undefined
}

export type ConditionFact = keyof TargetCondition
