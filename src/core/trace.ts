/** Events of one request in order. The log line, the metrics, the trail header and the cost are computed from them. */
import type { Usage } from './chat.ts'
import type { Failure } from './failure.ts'
import type { RuleVerdict } from './guard-verdict.ts'
import type { FoundLoop, LoopAction } from './loops.ts'
import type { LeftOut, ShadowPair } from './shadow.ts'
import type { SkippedTarget } from './skipped-target.ts'
import type { Switch } from './switch.ts'

export type TraceEvent =
  | {
      readonly type: 'received'
      readonly at: number
      /** The same time in ms since 1970, as in the ledger. */
      readonly date: number
      /** The kind of client, from its User-Agent. */
      readonly family: string
      readonly id: string
      /** The gateway's own ID, where `id` is the client's. */
      readonly ownId?: string | undefined
      readonly style: string
      readonly model: string
      readonly stream: boolean
      /** The id of the client's key, where there is one. */
      readonly client?: string
      /** The name of its team. */
      readonly team?: string
    }
  | {
      readonly type: 'attempt'
      readonly at: number
      readonly provider: string
      readonly model: string
      readonly key: string
      /** Client paths of the members omitted for this target. */
      readonly dropped?: readonly string[]
      /** Started as a hedge while an earlier attempt was still running. */
      readonly hedge?: true
    }
  /** Attempt number `attempt` (from 0) failed before any content. */
  | { readonly type: 'failed'; readonly at: number; readonly attempt: number; readonly failure: Failure }
  /** Attempt `attempt` delivered its first content or its whole answer and was selected. */
  | { readonly type: 'committed'; readonly at: number; readonly attempt: number; readonly status: number }
  /** Attempt `attempt` was cancelled because another was selected. Its usage is unknown and may be charged. */
  | { readonly type: 'abandoned'; readonly at: number; readonly attempt: number }
  /** Targets skipped without an attempt, in plan order, once per reason. `more`: number not listed. */
  | { readonly type: 'skipped'; readonly targets: readonly SkippedTarget[]; readonly more: number }
  /** Attempt `attempt` failed after content; the next attempt continues its answer. */
  | { readonly type: 'continued'; readonly at: number; readonly attempt: number; readonly failure: Failure }
  /** The session has changed its target because of a failure, or has come back. */
  | { readonly type: 'switch'; readonly switched: Switch }
  | { readonly type: 'dropped'; readonly paths: readonly string[] }
  /** Number of malformed events that were dropped from the answer. */
  | { readonly type: 'dropped_events'; readonly count: number }
  /** `estimated`: the upstream reported no usage, or the answer was not received completely. */
  | { readonly type: 'usage'; readonly usage: Usage; readonly estimated?: true }
  /**
   * The answer came from another request (`with`: its ID): one with the same `Idempotency-Key` in progress (`joined`) or
   * complete (`stored`), an equal one in progress (`coalesced`), or an equal earlier one (`cache`). `left`: the request's
   * own answer, completed after its client left. `saved`: the usage that an answer from the cache did not need again.
   */
  | { readonly type: 'shared'; readonly how: SharedBy; readonly with: string; readonly saved?: SavedUsage }
  /** The verdict of a rule of the operator, once for each rule, phase and action. */
  | { readonly type: 'guard'; readonly verdict: RuleVerdict }
  /** The response cache was looked up, or not used (`why`). Absent: it is off for the client and its route. */
  | { readonly type: 'cache'; readonly result: CacheOutcome; readonly why?: string }
  /** The end of the request, once. `status`: the HTTP status sent to the client. */
  | {
      readonly type: 'ended'
      readonly at: number
      readonly how: 'answered' | 'refused' | 'interrupted' | 'client_gone'
      readonly status: number
      readonly failure?: Failure
      /** The cost of all attempts in nano-dollars; absent: unknown, or there was none. */
      readonly cost?: number
      /** A part of the cost is at a price that is not known: the dearest ones of the provider. */
      readonly isPriceAssumed?: true
    }

/** The outcome of a request. */
export type EndedEvent = Extract<TraceEvent, { type: 'ended' }>

export type SharedBy = 'joined' | 'stored' | 'coalesced' | 'cache' | 'left'

/** The usage of a stored answer and the target that produced it. */
export type SavedUsage = {
  readonly provider: string
  readonly model: string
  readonly usage: Usage
  readonly estimated?: true
  /** In nano-dollars; null: no price is known. */
  readonly cost: number | null
}

export type CacheOutcome = 'hit' | 'miss' | 'bypass'

export type Trace = readonly TraceEvent[]

/** Events for the log and the metrics. */
export type GatewayEvent =
  | { readonly event: 'request'; readonly trace: Trace }
  | {
      readonly event: 'fallback'
      readonly id: string
      /** The id of the client's key, where there is one. */
      readonly client?: string
      readonly from: string
      readonly to: string
      readonly kind: string
      readonly detail: string
    }
  | {
      readonly event: 'circuit'
      /** `provider`: an operator rests it, whatever its circuits are. */
      readonly what: 'deployment' | 'model' | 'endpoint' | 'proxy' | 'answers' | 'provider'
      readonly name: string
      readonly from: string
      readonly to: string
      readonly why: string
      /** The ID of the request that caused it, if it was a failure. */
      readonly request?: string
    }
  | {
      readonly event: 'key'
      readonly provider: string
      readonly key: string
      readonly from: string
      readonly to: string
      readonly until: string | null
      /** `operator`: an operator has decided it. */
      readonly why?: string
      /** The ID of the request that caused it, if it was a failure. */
      readonly request?: string
    }
  /** A target was about to receive a request whose data policy it does not satisfy: a bug in the gateway. Nothing was sent. */
  | {
      readonly event: 'policy_breach'
      readonly id: string
      readonly provider: string
      readonly model: string
      readonly lack: string
    }
  /** The service of a guard has not checked a request. `reason`: neither an address, a credential nor a text. */
  | { readonly event: 'guard_error'; readonly id: string; readonly guard: string; readonly reason: string }
  /** The token of `auth.admin` was used although people sign in: the first use from an address in ten minutes. */
  | { readonly event: 'break_glass'; readonly id: string; readonly address: string }
  /** An agent repeats itself. `session`: null: the request names none. `isStopped`: the request was refused. */
  | {
      readonly event: 'loop'
      readonly id: string
      readonly client?: string
      readonly team: string
      readonly session: string | null
      readonly found: FoundLoop
      readonly action: LoopAction
      readonly isStopped: boolean
    }
  /** A copy of a request for the shadow of its route. `result`: its end, or why none was sent. `pair`: of one that was sent. */
  | {
      readonly event: 'shadow'
      readonly route: string
      readonly result: 'answered' | 'failed' | LeftOut
      readonly pair?: ShadowPair
    }
  /** An unexpected exception: a bug in the gateway. */
  | { readonly event: 'error'; readonly id?: string; readonly error: unknown }
