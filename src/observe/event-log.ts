/** Log lines for gateway events. They never contain prompts, answers or secrets. */
import type { GatewayEvent } from '../core/trace.ts'
import { summaryOf, type TraceSummary } from '../core/trace-summary.ts'
import { type Field, type Fields, type Level, truncate } from './line.ts'

export type LogEntry = { readonly level: Level; readonly event: string; readonly fields: Fields }

const NANO = 1e9

const wholeMs = (ms: number): number => Math.round(ms)

const levelOf = ({ outcome, failure, status }: TraceSummary): Level => {
  if (outcome === 'answered' || outcome === 'client_gone') return 'info'
  if (failure?.kind === 'internal') return 'error'
  return outcome === 'interrupted' || status >= 500 ? 'warn' : 'info'
}

/** Fields of the request line. */
const requestFields = (summary: TraceSummary): Fields => {
  const { usage, failure, firstContentMs, cost } = summary
  return {
    id: summary.id,
    ledger_id: summary.ownId === summary.id ? undefined : summary.ownId,
    style: summary.style,
    stream: summary.stream,
    client: summary.client,
    model: summary.model,
    provider: summary.provider,
    upstream_model: summary.upstreamModel,
    key: summary.key,
    status: summary.status,
    outcome: summary.outcome,
    attempts: summary.attempts.length,
    first_content_ms: firstContentMs === null ? null : wholeMs(firstContentMs),
    total_ms: wholeMs(summary.totalMs),
    input_tokens: usage?.input,
    output_tokens: usage?.output,
    cached_tokens: usage?.cacheRead,
    reasoning_tokens: usage?.reasoning,
    estimated: summary.estimated,
    cost: cost === undefined ? undefined : cost / NANO,
    error: failure?.kind,
    error_status: failure?.status,
    detail: failure && summary.outcome !== 'client_gone' ? failure.message : undefined,
    upstream_request_id: failure?.upstream?.requestId,
    dropped: summary.dropped.length > 0 ? summary.dropped : undefined,
    dropped_events: summary.droppedEvents > 0 ? summary.droppedEvents : undefined,
    hedge: summary.hedge,
    skipped: summary.skipped.length > 0 ? skippedIn(summary) : undefined,
    shared: summary.shared?.how,
    shared_with: summary.shared && summary.shared.how !== 'left' ? summary.shared.with : undefined,
    cache: summary.cache,
    trail: summary.trail,
  }
}

/** Skipped targets, such as `groq#09be/llama:retry_budget`, then `+37` for those not listed. */
const skippedIn = ({ skipped, moreSkipped }: TraceSummary): readonly string[] => {
  const names = skipped.map(({ provider, key, model, why }) => `${provider}#${key}/${model}:${why}`)
  return moreSkipped > 0 ? [...names, `+${moreSkipped}`] : names
}

/** Fields of the line of a copy. */
const shadowFields = ({ route, result, pair }: Extract<GatewayEvent, { event: 'shadow' }>): Fields => {
  if (!pair) return { route, result }
  const { id, copy, own, other } = pair
  return {
    ...{ route, result, id, copy, provider: other.provider, upstream_model: other.model, status: other.status },
    first_content_ms: other.firstContentMs === null ? null : wholeMs(other.firstContentMs),
    total_ms: wholeMs(other.totalMs),
    input_tokens: other.inputTokens,
    output_tokens: other.outputTokens,
    cost: other.cost === null ? undefined : other.cost / NANO,
    error: other.failure ?? undefined,
    same_finish: own.finish === other.finish,
    same_tools: JSON.stringify(own.tools) === JSON.stringify(other.tools),
  }
}

/** An exception as fields; the stack is truncated. */
const errorFields = (error: unknown): Fields => {
  if (!(error instanceof Error)) return { message: typeof error === 'string' ? error : `thrown: ${typeof error}` }
  const code: Field = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  const cause = error.cause instanceof Error ? `${error.cause.name}: ${error.cause.message}` : undefined
  return { name: error.name, message: error.message, code, cause, stack: truncate(error.stack ?? '') }
}

/** The log line for an event. */
export const logEntryOf = (event: GatewayEvent): LogEntry => {
  switch (event.event) {
    case 'request': {
      const summary = summaryOf(event.trace)
      return { level: levelOf(summary), event: 'request', fields: requestFields(summary) }
    }
    case 'fallback': {
      const { id, client, from, to, kind, detail } = event
      return { level: 'warn', event: 'fallback', fields: { id, client, from, to, kind, detail } }
    }
    case 'circuit': {
      const { what, name, from, to, why } = event
      return { level: to === 'open' ? 'warn' : 'info', event: 'circuit', fields: { what, name, from, to, why } }
    }
    case 'key': {
      const { provider, key, from, to, until } = event
      return { level: to === 'active' ? 'info' : 'warn', event: 'key', fields: { provider, key, from, to, until } }
    }
    case 'policy_breach': {
      const { id, provider, model, lack } = event
      return { level: 'error', event: 'policy_breach', fields: { id, provider, model, lack } }
    }
    case 'guard_error':
      return { level: 'warn', event: 'guard_error', fields: { id: event.id, guard: event.guard, reason: event.reason } }
    case 'loop': {
      const { id, client, session, found, action, isStopped } = event
      const fields = { id, client, session, ...found, tool: found.tool.slice(0, 100), action, stopped: isStopped }
      return { level: 'warn', event: 'loop', fields }
    }
    case 'shadow':
      return { level: event.pair ? 'info' : 'debug', event: 'shadow', fields: shadowFields(event) }
    case 'break_glass':
      return { level: 'warn', event: 'break_glass', fields: { id: event.id, address: event.address } }
    case 'error':
      return { level: 'error', event: 'error', fields: { id: event.id, ...errorFields(event.error) } }
    default:
      throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
  }
}
