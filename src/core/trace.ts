/**
 * What happened while a request was served, in order. The log line, the metrics, the trail header and the price are
 * folds of it: nothing else is written down.
 */
import type { Usage } from './chat.ts'
import type { Failure } from './failure.ts'
import type { Skipped } from './target.ts'

export type TraceEvent =
  | {
      readonly type: 'received'
      readonly at: number
      readonly id: string
      readonly style: string
      readonly model: string
      readonly stream: boolean
      /** The id of the client's key, where there is one. */
      readonly client?: string
    }
  | {
      readonly type: 'attempt'
      readonly at: number
      readonly provider: string
      readonly model: string
      readonly key: string
      /** Client paths of what the request to this target leaves out. */
      readonly dropped?: readonly string[]
      /** It was begun while another kept the client waiting. */
      readonly hedge?: true
    }
  /** The attempt of that number (from 0) failed before any content; `status` is the upstream's. */
  | { readonly type: 'failed'; readonly at: number; readonly attempt: number; readonly failure: Failure }
  /** The attempt of that number gave its first content, or its whole answer; the choice is made. */
  | { readonly type: 'committed'; readonly at: number; readonly attempt: number; readonly status: number }
  /** The attempt of that number was let go, because another had opened: nobody knows what it used, and it may cost all the same. */
  | { readonly type: 'abandoned'; readonly at: number; readonly attempt: number }
  /** Targets passed over without an attempt, in the plan's order, each once per reason. `more`: how many are not listed. */
  | { readonly type: 'skipped'; readonly targets: readonly SkippedTarget[]; readonly more: number }
  /** The attempt of that number broke off after content, and the one after it goes on from there. */
  | { readonly type: 'continued'; readonly at: number; readonly attempt: number; readonly failure: Failure }
  | { readonly type: 'dropped'; readonly paths: readonly string[] }
  /** Events of the answer that could not be read and were left out: the text around them went on. */
  | { readonly type: 'dropped_events'; readonly count: number }
  /** `estimated`: the upstream did not count, or the answer was not heard to its end. */
  | { readonly type: 'usage'; readonly usage: Usage; readonly estimated?: true }
  /**
   * The answer is that of another request, by its id: one with the same `Idempotency-Key` that is under way (`joined`)
   * or over (`stored`), or one that says the same (`coalesced`). `left`: it is its own, and went on without its client.
   */
  | { readonly type: 'shared'; readonly how: SharedBy; readonly with: string }
  /** The end, once, whichever way it came. `status` is what the client was told. */
  | {
      readonly type: 'ended'
      readonly at: number
      readonly how: 'answered' | 'refused' | 'interrupted' | 'client_gone'
      readonly status: number
      readonly failure?: Failure
    }

/**
 * `why`: `circuit`, `warming` (a circuit that closed a moment ago), `budget` (retry budget), `unfit` (it cannot carry the
 * request), `window` (its context window is too small), or the cool-down of its key or model, such as `rate_limited`.
 */
export type SkippedTarget = Required<Skipped>

export type SharedBy = 'joined' | 'stored' | 'coalesced' | 'left'

export type Trace = readonly TraceEvent[]

/** What is told outside while requests are served: lines of the log, counts of the metrics. */
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
      readonly what: 'deployment' | 'model' | 'endpoint' | 'answers'
      readonly name: string
      readonly from: string
      readonly to: string
      readonly why: string
    }
  | {
      readonly event: 'key'
      readonly provider: string
      readonly key: string
      readonly from: string
      readonly to: string
      readonly until: string | null
    }
  /** A bug of ours, caught at the border. */
  | { readonly event: 'error'; readonly id?: string; readonly error: unknown }
