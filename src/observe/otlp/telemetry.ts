/** Exports what the bookkeeper has stored. Loaded in its thread, and only if a receiver is configured. */
import { randomUUID } from 'node:crypto'
import {
  JsonTraceSerializer,
  ProtobufTraceSerializer,
  TraceExporterMetricsHelper,
} from '@opentelemetry/otlp-transformer'
import type { SpanNoted } from '../../core/journal.ts'
import type { RecordValues } from '../../usage/journal/journal-record.ts'
import { OtlpClient } from './otlp-client.ts'
import { requestSpans, type TracedRequest, tracedRequest } from './request-spans.ts'
import { type QueueLimits, SignalQueue } from './signal-queue.ts'
import { type OtlpResource, type OtlpSpan, resourceOf, sizeOf, spanOf } from './span.ts'
import type { Receiver, TelemetryOptions, TelemetryState } from './telemetry-options.ts'

const MAX_WAITING = 10_000

const LIMITS: QueueLimits = {
  batch: 512,
  delay: 2_000,
  waiting: MAX_WAITING,
  bytes: 16 * 1_048_576,
  failures: 5,
  pause: 30_000,
}
/** Requests whose spans state something, until they are complete. */
const MAX_NOTED = 20_000
/** ms for what waits when the process ends. */
const CLOSE = 3_000

export class Telemetry {
  readonly #options: TelemetryOptions
  readonly #resource: OtlpResource
  readonly #traces: { readonly queue: SignalQueue<OtlpSpan>; readonly client: { close(): void } } | null
  /** By ID of the request. The oldest are forgotten: their requests are complete, or their process has ended. */
  readonly #noted = new Map<string, SpanNoted[]>()

  constructor(options: TelemetryOptions) {
    this.#options = options
    this.#resource = resourceOf({ 'service.instance.id': randomUUID(), ...options.resource })
    this.#traces = options.traces && tracesTo(options.traces)
  }

  state(): TelemetryState {
    return { ...(this.#traces && { traces: this.#traces.queue.state() }) }
  }

  /** What spans of a request state that is not complete yet. */
  note(noted: SpanNoted): void {
    const known = this.#noted.get(noted.request)
    if (known) known.push(noted)
    else this.#noted.set(noted.request, [noted])
    const [oldest] = this.#noted.size > MAX_NOTED ? this.#noted.keys() : []
    if (oldest !== undefined) this.#noted.delete(oldest)
  }

  /** Complete requests, which are stored. Does not throw. */
  stored(rows: readonly RecordValues[]): void {
    for (const row of rows) {
      const id = String(row[0])
      const noted = this.#noted.get(id) ?? []
      this.#noted.delete(id)
      try {
        this.#trace(tracedRequest(row, noted))
      } catch {
        this.#traces?.queue.malformed()
      }
    }
  }

  #trace(request: TracedRequest): void {
    if (!this.#traces) return
    for (const parts of requestSpans(request, this.#options)) {
      const span = spanOf(parts, this.#resource, this.#options.version)
      this.#traces.queue.add(span, sizeOf(span))
    }
  }

  /** Sends what waits, within 3 s. */
  async close(): Promise<void> {
    await this.#traces?.queue.close(CLOSE)
    this.#traces?.client.close()
  }
}

const tracesTo = (receiver: Receiver) => {
  const client = new OtlpClient(receiver, {
    serializers: { protobuf: ProtobufTraceSerializer, json: JsonTraceSerializer },
    helper: TraceExporterMetricsHelper,
    refused: 'rejectedSpans',
  })
  const queue = new SignalQueue<OtlpSpan>({
    limits: LIMITS,
    send: (spans) => client.send([...spans]),
    date: () => Date.now(),
  })
  return { queue, client }
}
