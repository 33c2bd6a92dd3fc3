/** Exports what the bookkeeper has stored. Loaded in its thread, and only if a receiver is configured. */
import { randomUUID } from 'node:crypto'
import { JsonMetricsSerializer, ProtobufMetricsSerializer } from '@opentelemetry/otlp-transformer'
import type { SpanNoted } from '../../core/journal.ts'
import type { RecordValues } from '../../usage/journal/journal-record.ts'
import { GenAiMetrics, type ResourceMetrics } from './gen-ai-metrics.ts'
import { OtlpClient } from './otlp-client.ts'
import { isExported, requestSpans, type TracedRequest, tracedRequest } from './request-spans.ts'
import { type BatchResult, type QueueLimits, SignalQueue } from './signal-queue.ts'
import { type OtlpResource, type OtlpSpan, resourceOf, sizeOf, spanOf } from './span.ts'
import type { Receiver, TelemetryOptions, TelemetryState } from './telemetry-options.ts'
import { traceClient } from './test-span.ts'

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

type Channel<Item> = { readonly queue: SignalQueue<Item>; readonly client: { close(): void } }

export class Telemetry {
  readonly #options: TelemetryOptions
  readonly #resource: OtlpResource
  readonly #traces: Channel<OtlpSpan> | null
  readonly #metrics: (Channel<ResourceMetrics> & { readonly sums: GenAiMetrics }) | null
  readonly #timer: NodeJS.Timeout | undefined
  /** By ID of the request. The oldest are forgotten: their requests are complete, or their process has ended. */
  readonly #noted = new Map<string, SpanNoted[]>()

  constructor(options: TelemetryOptions) {
    const { traces, metrics } = options
    this.#options = options
    this.#resource = resourceOf({ 'service.instance.id': randomUUID(), ...options.resource })
    this.#traces = traces && tracesTo(traces)
    this.#metrics = metrics && { ...metricsTo(metrics), sums: new GenAiMetrics(Date.now()) }
    this.#timer = metrics ? setInterval(() => this.#collect(), metrics.interval).unref() : undefined
  }

  state(): TelemetryState {
    return {
      ...(this.#traces && { traces: this.#traces.queue.state() }),
      ...(this.#metrics && { metrics: this.#metrics.queue.state() }),
    }
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
        this.#add(tracedRequest(row, noted))
      } catch {
        this.#traces?.queue.malformed()
      }
    }
  }

  /** Sends what waits, within 3 s. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#collect()
    await Promise.all([this.#traces?.queue.close(CLOSE), this.#metrics?.queue.close(CLOSE)])
    this.#traces?.client.close()
    this.#metrics?.client.close()
  }

  #add(request: TracedRequest): void {
    const spans = requestSpans(request, this.#options)
    this.#metrics?.sums.add(spans)
    if (!this.#traces || !isExported(request, this.#options)) return
    for (const parts of spans) {
      const span = spanOf(parts, this.#resource, this.#options.version)
      this.#traces.queue.add(span, sizeOf(span))
    }
  }

  #collect(): void {
    const collected = this.#metrics?.sums.collect(this.#resource, this.#options.version, Date.now())
    if (collected) this.#metrics?.queue.add(collected, 0)
  }
}

const tracesTo = (receiver: Receiver): Channel<OtlpSpan> => {
  const client = traceClient(receiver)
  const send = (spans: readonly OtlpSpan[]) => client.send([...spans])
  return { queue: new SignalQueue({ limits: LIMITS, send, date: () => Date.now() }), client }
}

/** Sums are cumulative: a later collection replaces one that waits. */
const COLLECTIONS: QueueLimits = { ...LIMITS, batch: 1, waiting: 1 }

const metricsTo = (receiver: Receiver): Channel<ResourceMetrics> => {
  const client = new OtlpClient(receiver, {
    serializers: { protobuf: ProtobufMetricsSerializer, json: JsonMetricsSerializer },
    refused: 'rejectedDataPoints',
  })
  const send = async ([collected]: readonly ResourceMetrics[]): Promise<BatchResult> =>
    collected ? client.send(collected) : { ok: true, refused: 0, why: null }
  return { queue: new SignalQueue({ limits: COLLECTIONS, send, date: () => Date.now() }), client }
}
