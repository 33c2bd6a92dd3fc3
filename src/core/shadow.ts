/** Shadows of routes: what is compared of the answer that a client has received and of that to its copy. No texts. */
import type { Nano } from './money.ts'

/** Why a request that was drawn has no copy. */
export const LEFT_OUT = {
  effects: 'a tool of the provider acts, the answer is stored, or several answers are asked for',
  stored: 'the request continues a stored conversation or response',
  files: 'the request refers to files that a provider keeps',
  large: 'the body is above 1 MiB',
  unanswered: 'the client has no complete answer',
  busy: 'too many copies wait, or too many bytes',
  rate: '`perMinute` is reached',
  forbidden:
    'the access or the data policy of the client, its team or the route excludes the target, or its `when` is not met',
  unavailable: 'the provider has no key that may be used now: disabled, limited, or with an open circuit',
  unpriced: 'the cost of the target is not known',
  budget: 'a budget or a limit of the team `shadow` is reached, or the team is blocked',
} as const
export type LeftOut = keyof typeof LEFT_OUT

/** One answer of a pair. Times in ms. */
export type ShadowSide = {
  readonly provider: string | null
  readonly model: string | null
  readonly status: number
  /** The kind of failure; null: it has answered. */
  readonly failure: string | null
  readonly firstContentMs: number | null
  readonly totalMs: number
  readonly inputTokens: number | null
  readonly outputTokens: number | null
  readonly isEstimated: boolean
  /** Null: unknown. */
  readonly cost: Nano | null
  /** Why it ended; null: it has not stated it. */
  readonly finish: string | null
  /** Names of the tools that it calls, in order. */
  readonly tools: readonly string[]
  /** Characters of its text. */
  readonly characters: number
}

/** A request and its copy. `id` and `copy`: their IDs in the ledger. `at`: ms since 1970. */
export type ShadowPair = {
  readonly id: string
  readonly copy: string
  readonly at: number
  readonly style: string
  readonly stream: boolean
  readonly own: ShadowSide
  readonly other: ShadowSide
}

/** Sums of one side. `timed`: those with a time to first content. */
export type SideSums = {
  readonly timed: number
  readonly firstContentMs: number
  readonly totalMs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly characters: number
  readonly cost: Nano
}

/** What a process has seen of the shadow of a route. Plain JSON data. */
export type ShadowCounts = {
  /** Copies that were sent. */
  readonly sent: number
  readonly answered: number
  readonly failed: number
  readonly leftOut: { readonly [reason in LeftOut]?: number }
  /** Pairs of which both have answered; the sums are theirs. */
  readonly sameFinish: number
  readonly sameTools: number
  /** Pairs of which both costs are known: the sums of costs are of these alone. */
  readonly priced: number
  /** Pairs of which both token counts are known: the sums of tokens are of these alone. */
  readonly counted: number
  readonly own: SideSums
  readonly other: SideSums
}

/** `stopped`: why no copies are sent any more; null: they are. `recent`: the latest first. */
export type ShadowState = {
  readonly route: string
  readonly counts: ShadowCounts
  readonly waiting: number
  readonly stopped: string | null
  readonly recent: readonly ShadowPair[]
}
