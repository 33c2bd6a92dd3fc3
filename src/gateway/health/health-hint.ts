import type { CooldownReason } from '../../policy/health/cooldown.ts'
import type { CanaryCounts } from '../../policy/routing/canary.ts'
import type { StickyTarget } from '../../policy/routing/stickiness.ts'
import type { KeptPrompt } from './prompt-caches.ts'

/**
 * What a gateway has found about an upstream, for the others. Times are durations, since clocks differ. Plain JSON data.
 */
export type HealthHint =
  /** A circuit has opened for `ms`, or has closed (0). */
  | { readonly kind: 'circuit'; readonly id: string; readonly ms: number }
  /** A key or a model rests for `ms`. `fromUpstream`: the provider has stated that time. */
  | {
      readonly kind: 'cooldown'
      readonly id: string
      readonly ms: number
      readonly why: CooldownReason
      readonly fromUpstream: boolean
    }
  /** What the process `from` has counted of the canary of the route `id` since the state that began at `since`. */
  | {
      readonly kind: 'canary'
      readonly id: string
      readonly from: string
      readonly since: number
      readonly counts: CanaryCounts
    }
  /** A target has the prompt of a conversation in its cache for `ms`. `kept`: absent from gateways that do not report switches. */
  | {
      readonly kind: 'sticky'
      readonly id: string
      readonly ms: number
      readonly target: StickyTarget
      readonly kept?: KeptPrompt
    }
