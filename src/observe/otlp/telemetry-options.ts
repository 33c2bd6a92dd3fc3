/** What a thread needs to export telemetry. Plain data. */
import type { Sampling } from '../../core/call-span.ts'
import type { PlainEgress } from '../../core/egress.ts'

/** A receiver of OTLP over HTTP. `headers`: with their secrets. */
export type Receiver = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly format: 'protobuf' | 'json'
  readonly compression: 'gzip' | 'none'
  readonly egress: PlainEgress
  /** ms for one batch, with its retries. */
  readonly timeout: number
}

export type TelemetryOptions = {
  /** Null: no traces are exported. */
  readonly traces: Receiver | null
  /** `interval`: ms between two exports. Null: no metrics are exported. */
  readonly metrics: (Receiver & { readonly interval: number }) | null
  /** Attributes of the resource: `service.name` and others. */
  readonly resource: Readonly<Record<string, string>>
  readonly version: string
  readonly sampling: Sampling
  /** Failed, fallen back and slow requests are exported whatever was decided. */
  readonly keepErrors: boolean
  /** Also the attribute names of version 1.41. */
  readonly legacyNames: boolean
}

export const SIGNALS = ['traces', 'metrics', 'logs'] as const
export type Signal = (typeof SIGNALS)[number]

/**
 * Why an item was not exported. `full`: too many waited; `refused`: by the receiver; `failed`: it did not answer in time, or
 * cannot be reached; `closed`: the process ended first; `malformed`: it cannot be represented.
 */
export const DROP_REASONS = ['full', 'refused', 'failed', 'closed', 'malformed'] as const
export type DropReason = (typeof DROP_REASONS)[number]

/** The state of one signal since the start of its thread. `error`: the last one, without addresses; null: the last batch was accepted. */
export type SignalState = {
  readonly exported: number
  readonly dropped: Readonly<Record<DropReason, number>>
  readonly waiting: number
  readonly waitingBytes: number
  readonly error: string | null
  /** ms since 1970. */
  readonly errorAt: number | null
  readonly exportedAt: number | null
}

export type TelemetryState = { readonly [signal in Signal]?: SignalState }

/** A signal that is exported. `receiver`: host and port. */
export type ExportedSignal = { readonly signal: Signal; readonly receiver: string; readonly state: SignalState }

/** Each signal that is exported, also one of which nothing is known yet. */
export const exportedSignals = (options: TelemetryOptions | null, state: TelemetryState): readonly ExportedSignal[] =>
  (['traces', 'metrics'] as const).flatMap((signal) => {
    const url = options?.[signal]?.url
    return url === undefined ? [] : [{ signal, receiver: new URL(url).host, state: state[signal] ?? NOTHING }]
  })

const NOTHING: SignalState = {
  exported: 0,
  dropped: { full: 0, refused: 0, failed: 0, closed: 0, malformed: 0 },
  waiting: 0,
  waitingBytes: 0,
  error: null,
  errorAt: null,
  exportedAt: null,
}
