/** Routes of the configuration file and of teams. */

import type { CacheRules } from './cache-rules.ts'
import type { CanaryRules } from './canary.ts'
import type { Require } from './data-policy.ts'
import type { Strategy } from './settings.ts'
import type { TargetCondition } from './target-condition.ts'
import type { TargetOverride } from './target-override.ts'

/** A name clients may send as `model`. A name with `*` is a glob: exact names come first, then the longest glob. */
export type Route = {
  readonly name: string
  readonly strategy?: Strategy
  readonly targets: readonly RouteTarget[]
  /** Tried in order after the targets. */
  readonly fallback: readonly RouteTarget[]
  /** What later requests of a session stay with; absent: as the strategy has it. */
  readonly stickiness?: Stickiness
  /** Absent: answers are not cached, unless the team or the key has rules. */
  readonly cache?: CacheRules
  /** What targets of its requests must satisfy; absent: nothing. */
  readonly require?: Require
  /** What replaces a target whose model has ended, for chat; absent: nothing. */
  readonly onRetired?: 'successor'
  /** A target that receives a growing share of the sessions; absent: none. */
  readonly canary?: CanaryRules
  /** Where a share of its requests is sent once more, without their clients; absent: nowhere. */
  readonly shadow?: ShadowRules
  /** How its fallbacks are drilled; absent: as the settings have it. */
  readonly drill?: DrillRules
  /** The ID of the team that has made it for its own requests; absent: it is of the file, for all requests. */
  readonly team?: string
}

/** A route of the database. */
export type TeamRoute = Route & { readonly id: string; readonly team: string; readonly managed: 'api' }

/** `provider` is an instance ID. `model` absent: the provider's default model. */
export type RouteTarget = {
  readonly provider: string
  readonly model?: string
  readonly weight: number
  /** What a request must be to reach the target; absent: anything. */
  readonly when?: TargetCondition
  /** What is changed in requests to the target; absent: nothing. */
  readonly override?: TargetOverride
}

/** A target that receives copies of requests, whose answers are compared and never served. */
export type ShadowRules = {
  readonly target: RouteTarget
  /** Of the sessions. */
  readonly percent: number
  /** Copies a minute of each process, at most. */
  readonly perMinute: number
  /** Dollars a day, as written. */
  readonly budget: string
}

/** Percent of the requests of a route that may be lost, unless the route or the command states it. */
export const ALLOWED_LOSS = 1

/**
 * `live`: whether its targets receive live checks; absent: as the setting. `allow`: percent of its requests that may be lost; absent:
 * `ALLOWED_LOSS`.
 */
export type DrillRules = { readonly live?: boolean | undefined; readonly allow?: number | undefined }

/** `key`: the key of each provider; `provider`: also the provider and the model. */
export const STICKINESS = ['off', 'key', 'provider'] as const
export type Stickiness = (typeof STICKINESS)[number]
