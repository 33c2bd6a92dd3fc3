/** The metrics page: counters and histograms updated from gateway events, and gauges read at each scrape. */

import { type Failure, rowOf } from '../core/failure.ts'
import type { GatewayEvent } from '../core/trace.ts'
import { summaryOf, type TraceSummary } from '../core/trace-summary.ts'
import { accountMetrics } from './account-metrics.ts'
import {
  addReadings,
  copied,
  createRegistry,
  MAX_VALUE_LENGTH,
  OTHER,
  type Reading,
  type Registry,
} from './registry.ts'
import { storeTimes } from './store-times.ts'
import { addUsage, attempt, type ProcessUsage } from './usage.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export type Metrics = {
  record(event: GatewayEvent): void
  /** Counts a request refused for a limit of the gateway before it became a call. */
  shed(why: string): void
  /** Counts telemetry of Claude Code: `sent`, `failed`, `dropped` or `discarded`, for each receiver. */
  relayed(signal: string, result: string): void
  /** Counts a request refused for what its client may do, before it became a call. */
  refused(failure: Failure): void
  /** An operation of a store took so long, in ms. */
  store(store: string, op: string, ms: number): void
  /** Counts alerts: `sent`, `failed` or `dropped`. */
  alert(rule: string, result: string, count?: number): void
  /** Counts a connection through a proxy: `connected`, `refused` or `failed`. */
  proxyConnect(proxy: string, outcome: string): void
  /** The page. Never throws: readings that fail are left out. */
  text(): string
}

export type MetricsOptions = {
  readonly version: string
  /** s since 1970 when the process began. */
  readonly started: number
  /** Current values: circuits, keys, requests in flight. */
  readonly readings?: () => Iterable<Reading>
  /**
   * Whether a provider's model is known, so that it may be a label value; others are counted as `other`, since clients can
   * invent any number of names. Absent: every model is known.
   */
  readonly isKnown?: (provider: string, model: string) => boolean
  /** Whether there are metrics of each client key. */
  readonly perKey?: () => boolean
  /** Process usage; may throw, for example without free file descriptors. */
  readonly usage?: () => ProcessUsage
}

// Bucket bounds of the OpenTelemetry GenAI conventions: seconds doubling from 10 ms, tokens quadrupling from 1.
const SECONDS = Array.from({ length: 14 }, (_, power) => Math.round(0.01 * 2 ** power * 100) / 100)
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)
// The gateway's own time is far below a model's.
const OVERHEAD = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Number of label combinations whose series are cached; the oldest are looked up again. */
const MAX_KINDS = 64

/** Created on first use, so that series without counts are not on the page. */
const once = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** Caches the result of `make` for each client; there are as many as configured keys. */
const perClient = <T>(make: (client: string) => T): ((client: string) => T) => {
  const made = new Map<string, T>()
  return (client) => {
    const known = made.get(client)
    if (known !== undefined) return known
    const fresh = make(client)
    made.set(client, fresh)
    return fresh
  }
}

/** The label of requests without a client key. */
const NO_CLIENT = '-'

/** The provider of a target: `openai#a1f3/gpt-x` is `openai`. Keys and models would make too many series. */
const providerIn = (target: string): string => target.split(/[#/]/, 1)[0] ?? target

/** The `class` label of an attempt without a failure. */
const RESULTS = {
  committed: 'ok',
  failed: 'aborted',
  pending: 'aborted',
  abandoned: 'abandoned',
  broken: 'aborted',
} as const

/** Of what checks requests. */
const checkInstruments = (registry: Registry) => ({
  guardErrors: registry.counter(
    'headgate_guard_errors_total',
    'Requests that the service of a guard has not checked.',
    ['guard'],
  ),
  loops: registry.counter(
    'headgate_loops_total',
    'Requests of agents that repeat themselves, where `loops` looks for that.',
    ['team', 'detector', 'level'],
  ),
  copies: registry.counter(
    'headgate_shadow_copies_total',
    'Copies of requests for the shadow of a route, by their end or by the reason for which none was sent.',
    ['route', 'result'],
  ),
  copiesCost: registry.counter('headgate_shadow_cost_dollars_total', 'The known cost of copies.', ['route']),
})

/** Registers all counters and histograms. */
export const createInstruments = (registry: Registry) => {
  const target = ['provider', 'model']
  const genAi = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model']
  return {
    requests: registry.counter('headgate_requests_total', 'Requests, by outcome.', [
      'style',
      'stream',
      'outcome',
      'status',
      'provider',
      'client',
    ]),
    attempts: registry.counter('headgate_attempts_total', 'Attempts at upstream calls, by result.', [
      ...target,
      'class',
    ]),
    failovers: registry.counter('headgate_failovers_total', 'Requests that failed over to another target.', [
      'from',
      'to',
      'class',
    ]),
    hedges: registry.counter(
      'headgate_hedges_total',
      'Hedged requests: a second provider was called because the first was slow. The usage of the cancelled attempt is unknown.',
      ['won'],
    ),
    skipped: registry.counter(
      'headgate_targets_skipped_total',
      'Targets skipped without an attempt, by reason; at most twelve are counted for each request.',
      ['provider', 'why'],
    ),
    transitions: registry.counter('headgate_breaker_transitions_total', 'State changes of circuit breakers.', [
      'what',
      'from',
      'to',
    ]),
    keyChanges: registry.counter('headgate_key_transitions_total', 'State changes of provider keys.', [
      'provider',
      'from',
      'to',
    ]),
    interrupted: registry.counter(
      'headgate_stream_interrupted_total',
      'Answers interrupted after their first content.',
      [...target, 'reason'],
    ),
    aborts: registry.counter('headgate_client_aborts_total', 'Client disconnects before the end of the answer.', [
      'phase',
    ]),
    shared: registry.counter(
      'headgate_shared_answers_total',
      'Requests answered with a shared response, and responses continued without their client (left).',
      ['style', 'how'],
    ),
    cacheRequests: registry.counter(
      'headgate_cache_requests_total',
      'Requests for which the response cache is on, by its result: hit, miss or bypass.',
      ['result'],
    ),
    cacheSaved: registry.counter(
      'headgate_cache_saved_dollars_total',
      'What answers from the response cache would have cost, where the price is known.',
      [],
    ),
    shed: registry.counter('headgate_shed_total', 'Requests refused because of a gateway limit.', ['why']),
    relayed: relayedTelemetry(registry),
    dropped: registry.counter('headgate_dropped_total', 'Requests with settings the target does not support.', [
      'style',
    ]),
    droppedEvents: registry.counter(
      'headgate_dropped_events_total',
      'Unreadable events dropped from plain-text answers.',
      ['style'],
    ),
    tokens: registry.counter('headgate_tokens_total', 'Tokens, as counted by upstreams.', [...target, 'type']),
    cost: registry.counter(
      'headgate_cost_dollars_total',
      'Cost of all attempts, by the target that answered, where the price is known.',
      target,
    ),
    ...guardInstruments(registry),
    alerts: registry.counter('headgate_alerts_total', 'Alerts, by result.', ['rule', 'result']),
    proxyConnects: registry.counter(
      'headgate_proxy_connects_total',
      'Connections through a proxy: connected, refused (the proxy opens none to the destination) or failed.',
      ['proxy', 'outcome'],
    ),
    stores: storeTimes(registry),
    ...checkInstruments(registry),
    errors: registry.counter('headgate_errors_total', 'Internal errors.', []),
    first: registry.histogram(
      'headgate_ttft_seconds',
      'Time from a request to the first content of its answer.',
      target,
      SECONDS,
    ),
    overhead: registry.histogram(
      'headgate_gateway_overhead_seconds',
      'Part of a request during which no attempt is in flight.',
      [],
      OVERHEAD,
    ),
    duration: registry.histogram(
      'gen_ai_server_request_duration_seconds',
      'Time from a request to the end of its answer.',
      [...genAi, 'error_type'],
      SECONDS,
    ),
    firstToken: registry.histogram(
      'gen_ai_server_time_to_first_token_seconds',
      'Time from a request to the first content of its streamed answer.',
      genAi,
      SECONDS,
    ),
    tokenUsage: registry.histogram(
      'gen_ai_client_token_usage',
      'Tokens per answer, as counted by the upstream.',
      [...genAi, 'gen_ai_token_type'],
      TOKENS,
    ),
  }
}

const relayedTelemetry = (registry: Registry) =>
  registry.counter(
    'headgate_claude_telemetry_total',
    'Requests with telemetry of Claude Code, by what became of them for each receiver.',
    ['signal', 'result'],
  )

const guardInstruments = (registry: Registry) => ({
  verdicts: registry.counter(
    'headgate_guard_verdicts_total',
    'Requests and answers in which a guard found something, by what it did; `error`: its service did not answer.',
    ['guard', 'phase', 'action'],
  ),
  guards: registry.histogram(
    'headgate_guard_seconds',
    'Time of a guard for a request or an answer in which it found something.',
    ['guard'],
    OVERHEAD,
  ),
})

type Instruments = ReturnType<typeof createInstruments>

/** Decides which model names may be label values. */
class ModelLabels {
  readonly #isKnown: (provider: string, model: string) => boolean
  /** Known models by provider. */
  readonly #known = new Map<string, Set<string>>()

  constructor(isKnown: (provider: string, model: string) => boolean) {
    this.#isKnown = isKnown
  }

  /** The upstream model as a label value. */
  labelOf(provider: string, model: string): string {
    const models = this.#known.get(provider)
    if (model === '' || models?.has(model)) return model
    if (!this.#isKnown(provider, model)) return OTHER
    if (model.length > MAX_VALUE_LENGTH) return model
    // The name may be a slice of the request body, which it would keep in memory.
    if (models) models.add(copied(model))
    else this.#known.set(provider, new Set([copied(model)]))
    return model
  }
}

/** The series for requests with the same labels. */
const seriesOf = (instruments: Instruments, summary: TraceSummary, label: string) => {
  const { provider = '', style, stream, outcome, status, failure } = summary
  const reason = failure ? rowOf(failure).code : ''
  const model = copied(label)
  const target = { provider, model }
  const names = { gen_ai_operation_name: 'chat', gen_ai_provider_name: provider, gen_ai_request_model: model }
  const tokensOf = (type: string) => once(() => instruments.tokens.of({ ...target, type }))
  const counted = (type: string) => once(() => instruments.tokenUsage.of({ ...names, gen_ai_token_type: type }))
  return {
    provider,
    model,
    style,
    stream,
    outcome,
    status,
    reason,
    requests: perClient((client) =>
      instruments.requests.of({ style, stream: String(stream), outcome, status, provider, client }),
    ),
    duration: once(() => instruments.duration.of({ ...names, error_type: reason })),
    first: once(() => instruments.first.of(target)),
    firstToken: once(() => instruments.firstToken.of(names)),
    tokens: {
      input: tokensOf('input'),
      output: tokensOf('output'),
      cacheRead: tokensOf('cache_read'),
      cacheWrite: tokensOf('cache_write'),
      reasoning: tokensOf('reasoning'),
    },
    counted: { input: counted('input'), output: counted('output') },
    cost: once(() => instruments.cost.of(target)),
  }
}
type RequestSeries = ReturnType<typeof seriesOf>

/** Caches the series of the most recent label combinations. */
class SeriesCache {
  readonly #instruments: Instruments
  readonly #recent: RequestSeries[] = []

  constructor(instruments: Instruments) {
    this.#instruments = instruments
  }

  /** The series for this request's labels. */
  get(summary: TraceSummary, model: string): RequestSeries {
    const { provider = '', style, stream, outcome, status, failure } = summary
    const reason = failure ? rowOf(failure).code : ''
    for (const series of this.#recent)
      if (
        series.model === model &&
        series.provider === provider &&
        series.style === style &&
        series.stream === stream &&
        series.outcome === outcome &&
        series.status === status &&
        series.reason === reason
      )
        return series
    const series = seriesOf(this.#instruments, summary, model)
    if (model.length > MAX_VALUE_LENGTH) return series
    this.#recent.unshift(series)
    if (this.#recent.length > MAX_KINDS) this.#recent.pop()
    return series
  }
}

class GatewayMetrics implements Metrics {
  readonly #options: MetricsOptions
  readonly #registry = createRegistry()
  readonly #instruments = createInstruments(this.#registry)
  readonly #series = new SeriesCache(this.#instruments)
  readonly #labels: ModelLabels
  readonly #accounts: ReturnType<typeof accountMetrics>
  readonly #overhead = once(() => this.#instruments.overhead.of({}))

  constructor(options: MetricsOptions) {
    this.#options = options
    this.#labels = new ModelLabels(options.isKnown ?? (() => true))
    this.#accounts = accountMetrics(this.#registry, options.perKey ?? (() => false))
  }

  record(event: GatewayEvent): void {
    switch (event.event) {
      case 'request':
        return this.#countRequest(summaryOf(event.trace))
      case 'fallback':
        return this.#instruments.failovers.add({
          from: providerIn(event.from),
          to: providerIn(event.to),
          class: event.kind,
        })
      case 'circuit':
        return this.#instruments.transitions.add({ what: event.what, from: event.from, to: event.to })
      case 'key':
        return this.#instruments.keyChanges.add({ provider: event.provider, from: event.from, to: event.to })
      case 'policy_breach':
        // The exception that follows is counted.
        return
      case 'guard_error':
        return this.#instruments.guardErrors.add({ guard: event.guard })
      case 'loop': {
        const { team, found } = event
        return this.#instruments.loops.add({ team, detector: found.detector, level: found.level })
      }
      case 'shadow': {
        const { route, result, pair } = event
        this.#instruments.copies.add({ route, result })
        if (pair?.other.cost) this.#instruments.copiesCost.add({ route }, pair.other.cost / 1e9)
        return
      }
      case 'break_glass':
        // The audit log has each.
        return
      case 'error':
        return this.#instruments.errors.add({})
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  shed(why: string): void {
    this.#instruments.shed.add({ why })
  }

  relayed(signal: string, result: string): void {
    this.#instruments.relayed.add({ signal, result })
  }

  refused(failure: Failure): void {
    this.#accounts.refused(failure)
  }

  store(store: string, op: string, ms: number): void {
    this.#instruments.stores.record({ store, op }, ms / 1000)
  }

  proxyConnect(proxy: string, outcome: string): void {
    this.#instruments.proxyConnects.add({ proxy, outcome })
  }

  alert(rule: string, result: string, count = 1): void {
    this.#instruments.alerts.add({ rule, result }, count)
  }

  text(): string {
    return `${this.#registry.text()}${this.#currentValues()}`
  }

  #countRequest(summary: TraceSummary): void {
    const { provider = '', upstreamModel = '', style, stream, outcome, failure, usage, firstContentMs } = summary
    const model = this.#labels.labelOf(provider, upstreamModel)
    const series = this.#series.get(summary, model)
    series.requests(summary.client ?? NO_CLIENT).add()
    this.#countAttempts(summary)
    const dollars = usage && summary.cost !== undefined ? summary.cost / 1e9 : undefined
    this.#accounts.count(summary, model, dollars !== undefined)
    const { interrupted, aborts, shed, hedges, skipped, shared, dropped, droppedEvents } = this.#instruments
    this.#countVerdicts(summary)
    if (outcome === 'interrupted') interrupted.add({ provider, model, reason: series.reason })
    if (outcome === 'client_gone') aborts.add({ phase: summary.committed ? 'content' : 'waiting' })
    if (failure && (failure.kind === 'busy' || failure.kind === 'draining')) shed.add({ why: series.reason })
    if (summary.hedge) hedges.add({ won: String(summary.hedge === 'won') })
    for (const { provider, why } of summary.skipped) skipped.add({ provider, why })
    if (summary.shared) shared.add({ style, how: summary.shared.how })
    this.#countCache(summary)
    if (summary.dropped.length > 0) dropped.add({ style })
    if (summary.droppedEvents > 0) droppedEvents.add({ style }, summary.droppedEvents)
    this.#overhead().record(summary.overheadMs / 1000)
    if (!summary.provider) return
    series.duration().record(summary.totalMs / 1000)
    if (firstContentMs !== null) {
      series.first().record(firstContentMs / 1000)
      if (stream) series.firstToken().record(firstContentMs / 1000)
    }
    if (!usage) return
    const { input, output, cacheRead, cacheWrite, reasoning } = usage
    series.tokens.input().add(input)
    series.tokens.output().add(output)
    if (cacheRead !== undefined) series.tokens.cacheRead().add(cacheRead)
    if (cacheWrite !== undefined) series.tokens.cacheWrite().add(cacheWrite)
    if (reasoning !== undefined) series.tokens.reasoning().add(reasoning)
    // OpenTelemetry's metric excludes estimates.
    if (!summary.estimated) {
      series.counted.input().record(input)
      series.counted.output().record(output)
    }
    if (dollars !== undefined) series.cost().add(dollars)
  }

  #countVerdicts({ verdicts }: TraceSummary): void {
    for (const { guard, phase, action, ms } of verdicts) {
      this.#instruments.verdicts.add({ guard, phase, action })
      this.#instruments.guards.record({ guard }, ms / 1000)
    }
  }

  #countCache(summary: TraceSummary): void {
    const { cache, saved } = summary
    if (cache) this.#instruments.cacheRequests.add({ result: cache })
    if (saved?.cost) this.#instruments.cacheSaved.add({}, saved.cost / 1e9)
  }

  #countAttempts(summary: TraceSummary): void {
    const interruption = summary.outcome === 'interrupted' ? summary.failure : undefined
    for (const { provider, model, end, failure = end === 'committed' ? interruption : undefined } of summary.attempts) {
      const result = failure ? rowOf(failure).code : RESULTS[end]
      this.#instruments.attempts.add({ provider, model: this.#labels.labelOf(provider, model), class: result })
    }
  }

  /** Gauges are rebuilt at each scrape, so removed ones disappear. */
  #currentValues(): string {
    const { version, started, usage, readings = () => [] } = this.#options
    const now = createRegistry()
    now.gauge('headgate_info', 'The running version.', ['version']).set({ version }, 1)
    addUsage(now, started, usage)
    addReadings(now, attempt(() => [...readings()]) ?? [])
    return now.text()
  }
}

/** Creates the metrics of one process. */
export const createMetrics = (options: MetricsOptions): Metrics => new GatewayMetrics(options)
