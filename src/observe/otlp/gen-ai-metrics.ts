/** Metrics of the conventions for generative AI, summed up from the spans of all requests, sampled or not. Cumulative. */
import type { ProtobufMetricsSerializer } from '@opentelemetry/otlp-transformer'
import { ATTRIBUTES, METRICS, type MetricName, SCHEMA_URL, SCOPE } from './gen-ai.ts'
import { KIND, type OtlpResource, type SpanParts, type SpanValues, timeOf } from './span.ts'

export type ResourceMetrics = Parameters<typeof ProtobufMetricsSerializer.serializeRequest>[0]
type MetricData = ResourceMetrics['scopeMetrics'][number]['metrics'][number]
type Attributes = { readonly [name: string]: string | number | boolean }

/** MetricSeries of one metric. Models of further ones are counted together, as the specification of the SDK states. */
const MAX_SERIES = 2_000
const OVERFLOW: Attributes = { 'otel.metric.overflow': true }

/** Enumerations of `@opentelemetry/sdk-metrics` and `api`, which are not loaded for them. */
const [CUMULATIVE, HISTOGRAM, SUM] = [1, 0, 3] as const
const VALUE = { int: 0, double: 1 } as const

type MetricSeries = { readonly attributes: Attributes; sum: number; count: number; readonly buckets: number[] }

/** What metrics say of an attempt. */
const OF_TARGET = ['operation', 'provider', 'model', 'responseModel', 'serverAddress', 'serverPort'] as const
const WITH_ERROR = [...OF_TARGET, 'errorType'] as const
const INFERENCE: ReadonlySet<unknown> = new Set(['chat', 'generate_content', 'text_completion'])

export class GenAiMetrics {
  readonly #began: number
  readonly #series = new Map<MetricName, Map<string, MetricSeries>>()

  /** `began`: ms since 1970. */
  constructor(began: number) {
    this.#began = began
  }

  /** Adds a complete request. */
  add(spans: readonly SpanParts[]): void {
    const [server] = spans.filter(({ kind }) => kind === KIND.server)
    for (const span of spans) if (span.kind === KIND.client) this.#addAttempt(span)
    const answering = spans.find(({ facts }) => facts.attemptOutcome === 'ok')
    if (!server || !answering) return
    const { facts } = answering
    this.#record('gen_ai.server.request.duration', (server.to - server.from) / 1_000, facts, WITH_ERROR)
    const { firstChunk } = facts
    if (typeof firstChunk === 'number') {
      const waited = (answering.from - server.from) / 1_000
      this.#record('gen_ai.server.time_to_first_token', waited + firstChunk, facts, OF_TARGET)
    }
  }

  /** Nothing if nothing was added. `at`: ms since 1970. */
  collect(resource: OtlpResource, version: string, at: number): ResourceMetrics | null {
    if (this.#series.size === 0) return null
    const metrics = [...this.#series].map(([name, series]) => dataOf(name, [...series.values()], this.#began, at))
    return { resource, scopeMetrics: [{ scope: { name: SCOPE, version, schemaUrl: SCHEMA_URL }, metrics }] }
  }

  #addAttempt({ facts, from, to }: SpanParts): void {
    const seconds = (to - from) / 1_000
    if (!INFERENCE.has(facts.operation))
      return this.#record('gen_ai.client.operation.duration', seconds, facts, WITH_ERROR)
    this.#record('gen_ai.client.inference.duration', seconds, facts, WITH_ERROR)
    if (typeof facts.firstChunk === 'number')
      this.#record('gen_ai.client.inference.time_to_first_chunk', facts.firstChunk, facts, OF_TARGET)
    const [input, output] = [Number(facts.inputTokens ?? 0), Number(facts.outputTokens ?? 0)]
    this.#record('gen_ai.client.inference.operation.input_tokens', input, facts, WITH_ERROR)
    this.#record('gen_ai.client.inference.operation.output_tokens', output, facts, WITH_ERROR)
    this.#record('gen_ai.client.inference.usage.input_tokens', input, facts, OF_TARGET)
    this.#record('gen_ai.client.inference.usage.output_tokens', output, facts, OF_TARGET)
    const cacheRead = Number(facts.cacheRead ?? 0)
    this.#record('gen_ai.client.inference.usage.cache_read.input_tokens', cacheRead, facts, OF_TARGET)
    const cacheWrite = Number(facts.cacheWrite ?? 0)
    this.#record('gen_ai.client.inference.usage.cache_write.input_tokens', cacheWrite, facts, OF_TARGET)
    const reasoning = Number(facts.reasoning ?? 0)
    this.#record('gen_ai.client.inference.usage.reasoning.output_tokens', reasoning, facts, OF_TARGET)
  }

  #record(name: MetricName, value: number, facts: SpanValues, by: typeof OF_TARGET | typeof WITH_ERROR): void {
    const all = this.#series.get(name) ?? new Map<string, MetricSeries>()
    this.#series.set(name, all)
    const { bounds } = METRICS[name]
    const series = seriesIn(all, attributesOf(facts, by, bounds === null), bounds?.length ?? 0)
    series.sum += value
    series.count++
    if (bounds === null) return
    const found = bounds.findIndex((bound) => value <= bound)
    const at = found === -1 ? bounds.length : found
    series.buckets[at] = (series.buckets[at] ?? 0) + 1
  }
}

/** `isUsage`: counters of tokens state their modality, which providers do not. */
const attributesOf = (facts: SpanValues, by: readonly (keyof SpanValues)[], isUsage: boolean): Attributes => {
  const attributes: { [name: string]: string | number } = {}
  for (const name of by) {
    const value = facts[name]
    if (typeof value === 'string' || typeof value === 'number') attributes[ATTRIBUTES[name]] = value
  }
  if (isUsage) attributes['gen_ai.token.modality'] = 'unknown'
  return attributes
}

const seriesIn = (all: Map<string, MetricSeries>, wanted: Attributes, bounds: number): MetricSeries => {
  const key = JSON.stringify(wanted)
  const known = all.get(key)
  if (known) return known
  const isFull = all.size >= MAX_SERIES
  const [name, attributes] = isFull ? ['', OVERFLOW] : [key, wanted]
  const series = all.get(name) ?? { attributes, sum: 0, count: 0, buckets: new Array<number>(bounds + 1).fill(0) }
  all.set(name, series)
  return series
}

const dataOf = (name: MetricName, series: readonly MetricSeries[], began: number, at: number): MetricData => {
  const { unit, about, bounds } = METRICS[name]
  const times = { startTime: timeOf(began), endTime: timeOf(at) }
  const valueType = unit === 's' ? VALUE.double : VALUE.int
  const base = { descriptor: { name, description: about, unit, valueType }, aggregationTemporality: CUMULATIVE }
  if (bounds === null) {
    const dataPoints = series.map(({ attributes, sum }) => ({ ...times, attributes, value: sum }))
    return { ...base, dataPointType: SUM, dataPoints, isMonotonic: true }
  }
  const dataPoints = series.map(({ attributes, sum, count, buckets }) => ({
    ...times,
    attributes,
    value: { buckets: { boundaries: [...bounds], counts: [...buckets] }, sum, count },
  }))
  return { ...base, dataPointType: HISTOGRAM, dataPoints }
}
