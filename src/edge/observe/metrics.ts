/** The metrics page: counts and times folded from the news, and the state of things at the moment it is asked for. */
import type { GatewayEvent } from '../../core/exchange.ts'
import { rowOf } from '../../core/failure.ts'
import type { Summary } from '../../core/summary.ts'
import type { CostOf } from './event-log.ts'
import { summaryOf } from './memoize-last.ts'
import { copied, createRegistry, type Labels, LONGEST_VALUE, OTHER } from './registry.ts'
import { addUsage, attempt, type Usage } from './usage.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** A state at this moment; those of one name belong together. Without `headgate_`. */
export type Reading = { readonly name: string; readonly help: string; readonly labels: Labels; readonly value: number }

export type Metrics = {
  record(event: GatewayEvent): void
  /** A request was turned away for a limit of ours before it was a call. */
  shed(why: string): void
  /** The page. Never throws: what cannot be read at the moment is left out. */
  text(): string
}

export type MetricsOptions = {
  readonly version: string
  /** s since 1970 when the process began. */
  readonly started: number
  /** What is so at the moment: circuits, keys, requests under way. */
  readonly readings?: () => Iterable<Reading>
  readonly costOf?: CostOf
  /**
   * Whether a provider's model is known here, so that it may be a label's value; else it is counted as `other`. Clients
   * can invent any number of names. Absent: every model is known.
   */
  readonly isKnown?: (provider: string, model: string) => boolean
  /** What the process uses; may throw, as it does when no file can be opened any more. */
  readonly usage?: () => Usage
}

// The bounds the OpenTelemetry GenAI conventions state: seconds doubling from 10 ms, tokens quadrupling from 1.
const SECONDS = Array.from({ length: 14 }, (_, power) => Math.round(0.01 * 2 ** power * 100) / 100)
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)
// What we add ourselves is far below what a model takes.
const OVERHEAD = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** So many kinds of requests have what they are counted in at hand; those that came first are found again by name. */
const MOST_KINDS = 64

/** Made when it is first asked for: a series that nothing was counted in is not on the page. */
const once = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** What `make` returns for each client, made once: there are as many as configured keys. */
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

/** `openai#a1f3/gpt-x` is openai: who took over from whom is told by provider, keys and models would make it long. */
const providerIn = (target: string): string => target.split(/[#/]/, 1)[0] ?? target

/** The class of an attempt without a failure. */
const RESULTS = {
  committed: 'ok',
  failed: 'aborted',
  pending: 'aborted',
  abandoned: 'abandoned',
  broken: 'aborted',
} as const

export const createMetrics = ({
  version,
  started,
  readings = () => [],
  costOf = () => undefined,
  isKnown = () => true,
  usage,
}: MetricsOptions): Metrics => {
  const registry = createRegistry()
  const target = ['provider', 'model']
  const requests = registry.counter('headgate_requests_total', 'Requests, by how they ended.', [
    'style',
    'stream',
    'outcome',
    'status',
    'provider',
    'client',
  ])
  const attempts = registry.counter('headgate_attempts_total', 'Attempts at upstreams, by result.', [
    ...target,
    'class',
  ])
  const failovers = registry.counter('headgate_failovers_total', 'Times a request went on to another target.', [
    'from',
    'to',
    'class',
  ])
  const hedges = registry.counter(
    'headgate_hedges_total',
    'Requests asked of a second provider while the first kept them waiting. What the one let go used is unknown.',
    ['won'],
  )
  const skipped = registry.counter(
    'headgate_targets_skipped_total',
    'Targets passed over without an attempt, by reason; of one request at most twelve are counted.',
    ['provider', 'why'],
  )
  const transitions = registry.counter('headgate_breaker_transitions_total', 'Changes of circuits.', [
    'what',
    'from',
    'to',
  ])
  const keyChanges = registry.counter('headgate_key_transitions_total', 'Changes of keys.', ['provider', 'from', 'to'])
  const interrupted = registry.counter(
    'headgate_stream_interrupted_total',
    'Answers that broke off after their first content.',
    [...target, 'reason'],
  )
  const aborts = registry.counter('headgate_client_aborts_total', 'Clients that left before the end.', ['phase'])
  const shared = registry.counter(
    'headgate_shared_answers_total',
    'Requests given the answer of another, and answers that went on without their client (left).',
    ['style', 'how'],
  )
  const shed = registry.counter('headgate_shed_total', 'Requests refused for our own limits.', ['why'])
  const dropped = registry.counter('headgate_dropped_total', 'Requests of which something could not be carried.', [
    'style',
  ])
  const droppedEvents = registry.counter(
    'headgate_dropped_events_total',
    'Events of answers that could not be read and were left out of plain text.',
    ['style'],
  )
  const tokens = registry.counter('headgate_tokens_total', 'Tokens, as the upstreams count them.', [...target, 'type'])
  const cost = registry.counter('headgate_cost_dollars_total', 'Cost of answers whose price is known.', target)
  const errors = registry.counter('headgate_errors_total', 'Bugs of ours, caught.', [])
  const first = registry.histogram(
    'headgate_ttft_seconds',
    'From a request to the first content of its answer.',
    target,
    SECONDS,
  )
  const overhead = registry.histogram(
    'headgate_gateway_overhead_seconds',
    'Time of a request during which no attempt was under way.',
    [],
    OVERHEAD,
  )
  const overheads = once(() => overhead.of({}))
  const genAi = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model']
  const duration = registry.histogram(
    'gen_ai_server_request_duration_seconds',
    'From a request to the end of its answer.',
    [...genAi, 'error_type'],
    SECONDS,
  )
  const firstToken = registry.histogram(
    'gen_ai_server_time_to_first_token_seconds',
    'From a request to the first content of its streamed answer.',
    genAi,
    SECONDS,
  )
  const tokenUsage = registry.histogram(
    'gen_ai_client_token_usage',
    'Tokens of an answer, as its upstream counts them.',
    [...genAi, 'gen_ai_token_type'],
    TOKENS,
  )

  /** Models found to be known, by provider: as many as there are. */
  const known = new Map<string, Set<string>>()

  /** The model asked of the upstream as a label's value. */
  const labelOf = (provider: string, model: string): string => {
    const models = known.get(provider)
    if (model === '' || models?.has(model)) return model
    if (!isKnown(provider, model)) return OTHER
    if (model.length > LONGEST_VALUE) return model
    // The name may be a slice of the client's body, all of which it would keep in memory.
    if (models) models.add(copied(model))
    else known.set(provider, new Set([copied(model)]))
    return model
  }

  const countAttempts = (summary: Summary) => {
    const brokeOff = summary.outcome === 'interrupted' ? summary.failure : undefined
    for (const { provider, model, end, failure = end === 'committed' ? brokeOff : undefined } of summary.attempts) {
      const result = failure ? rowOf(failure).code : RESULTS[end]
      attempts.add({ provider, model: labelOf(provider, model), class: result })
    }
  }

  /** What is counted of every request of a kind, found once. */
  const kindOf = ({ provider = '', style, stream, outcome, status, failure }: Summary, label: string) => {
    const reason = failure ? rowOf(failure).code : ''
    const model = copied(label)
    const target = { provider, model }
    const names = { gen_ai_operation_name: 'chat', gen_ai_provider_name: provider, gen_ai_request_model: model }
    const told = (type: string) => once(() => tokens.of({ ...target, type }))
    const counted = (type: string) => once(() => tokenUsage.of({ ...names, gen_ai_token_type: type }))
    return {
      provider,
      model,
      style,
      stream,
      outcome,
      status,
      reason,
      requests: perClient((client) =>
        requests.of({ style, stream: String(stream), outcome, status, provider, client }),
      ),
      duration: once(() => duration.of({ ...names, error_type: reason })),
      first: once(() => first.of(target)),
      firstToken: once(() => firstToken.of(names)),
      tokens: {
        input: told('input'),
        output: told('output'),
        cacheRead: told('cache_read'),
        cacheWrite: told('cache_write'),
        reasoning: told('reasoning'),
      },
      counted: { input: counted('input'), output: counted('output') },
      cost: once(() => cost.of(target)),
    }
  }
  const kinds: ReturnType<typeof kindOf>[] = []

  const kindLike = (summary: Summary, model: string) => {
    const { provider = '', style, stream, outcome, status, failure } = summary
    const reason = failure ? rowOf(failure).code : ''
    for (const kind of kinds)
      if (
        kind.model === model &&
        kind.provider === provider &&
        kind.style === style &&
        kind.stream === stream &&
        kind.outcome === outcome &&
        kind.status === status &&
        kind.reason === reason
      )
        return kind
    const kind = kindOf(summary, model)
    if (model.length > LONGEST_VALUE) return kind
    kinds.unshift(kind)
    if (kinds.length > MOST_KINDS) kinds.pop()
    return kind
  }

  const countRequest = (summary: Summary) => {
    const { provider = '', upstreamModel = '', style, stream, outcome, failure, usage, firstContentMs } = summary
    const model = labelOf(provider, upstreamModel)
    const kind = kindLike(summary, model)
    kind.requests(summary.client ?? NO_CLIENT).add()
    countAttempts(summary)
    if (outcome === 'interrupted') interrupted.add({ provider, model, reason: kind.reason })
    if (outcome === 'client_gone') aborts.add({ phase: summary.committed ? 'content' : 'waiting' })
    if (failure && (failure.kind === 'busy' || failure.kind === 'draining')) shed.add({ why: kind.reason })
    if (summary.hedge) hedges.add({ won: String(summary.hedge === 'won') })
    for (const { provider, why } of summary.skipped) skipped.add({ provider, why })
    if (summary.shared) shared.add({ style, how: summary.shared.how })
    if (summary.dropped.length > 0) dropped.add({ style })
    if (summary.droppedEvents > 0) droppedEvents.add({ style }, summary.droppedEvents)
    overheads().record(summary.overheadMs / 1000)
    if (!summary.provider) return
    kind.duration().record(summary.totalMs / 1000)
    if (firstContentMs !== null) {
      kind.first().record(firstContentMs / 1000)
      if (stream) kind.firstToken().record(firstContentMs / 1000)
    }
    if (!usage) return
    const { input, output, cacheRead, cacheWrite, reasoning } = usage
    kind.tokens.input().add(input)
    kind.tokens.output().add(output)
    if (cacheRead !== undefined) kind.tokens.cacheRead().add(cacheRead)
    if (cacheWrite !== undefined) kind.tokens.cacheWrite().add(cacheWrite)
    if (reasoning !== undefined) kind.tokens.reasoning().add(reasoning)
    // OpenTelemetry's measure is of what was counted.
    if (!summary.estimated) {
      kind.counted.input().record(input)
      kind.counted.output().record(output)
    }
    const dollars = costOf(summary)
    if (dollars !== undefined) kind.cost().add(dollars)
  }

  /** States are read anew each time, so that what has gone is gone. */
  const moment = (): string => {
    const now = createRegistry()
    now.gauge('headgate_info', 'The version that runs.', ['version']).set({ version }, 1)
    addUsage(now, started, usage)
    const gauges = new Map<string, ReturnType<typeof now.gauge>>()
    for (const { name, help, labels, value } of attempt(() => [...readings()]) ?? []) {
      const gauge = gauges.get(name) ?? now.gauge(`headgate_${name}`, help, Object.keys(labels))
      gauges.set(name, gauge)
      gauge.set(labels, value)
    }
    return now.text()
  }

  return {
    record(event) {
      switch (event.event) {
        case 'request':
          return countRequest(summaryOf(event.exchange))
        case 'fallback':
          return failovers.add({ from: providerIn(event.from), to: providerIn(event.to), class: event.kind })
        case 'circuit':
          return transitions.add({ what: event.what, from: event.from, to: event.to })
        case 'key':
          return keyChanges.add({ provider: event.provider, from: event.from, to: event.to })
        case 'error':
          return errors.add({})
        default:
          throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
      }
    },
    shed: (why) => shed.add({ why }),
    text: () => `${registry.text()}${moment()}`,
  }
}
