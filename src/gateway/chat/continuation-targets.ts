/** Selects the targets that may continue an interrupted answer, and sends them the request. */

import { rowOf } from '../../core/failure.ts'
import { type Candidate, modelId, type Plan } from '../../core/target.ts'
import type { Trace, TraceEvent } from '../../core/trace.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { printable, type Recorder } from '../call/recorder.ts'
import type { AttemptSpec } from '../routing/attempt-spec.ts'
import type { RouteContext, RouterDeps } from '../routing/route-context.ts'
import { fallbackEvent, type Routed, route } from '../routing/router.ts'
import { type InboundRequest, isCompatible, type OutboundRequest } from '../upstream/outbound-request.ts'
import { chatAttempts } from './chat-call.ts'
import type { ClientStream } from './client-stream.ts'
import { ContinuedFlow, continued, isContinuable, supportsPrefill } from './continuation.ts'
import type { StoredTurn } from './turn.ts'

/** A streaming call that another target may continue. */
export type ContinuableCall = {
  readonly routeContext: RouteContext
  readonly inbound: InboundRequest
  readonly turn: StoredTurn | undefined
  readonly recorder: Recorder
  readonly stream: ClientStream
}

/** The answer's stream, continued by another target if it is interrupted. Null: disabled, unsuitable, or no target left. */
export const continuable = (deps: RouterDeps, call: ContinuableCall, routed: Routed): ContinuedFlow | null => {
  const { routeContext, inbound, recorder } = call
  if (routed.answerStream.whole !== null || !isContinuable(inbound, routeContext.config.settings)) return null
  const { trace } = recorder
  // A target that failed this request is not tried again.
  const tried = new Set(
    trace.flatMap((event) => (event.type === 'attempt' ? [`${event.provider} ${event.model}`] : [])),
  )
  const candidates = routeContext.plan.candidates.filter((one) => !tried.has(modelId(one)) && supportsPrefill(one))
  if (isRejected(trace) || candidates.length === 0) return null
  const attempt = trace.findLast((event) => event.type === 'committed')?.attempt ?? 0
  return new ContinuedFlow(routed, inbound.request, {
    route: (text, outputTokens, cancellation) =>
      routeOnce(deps, call, { candidates, inbound: continued(inbound, text, outputTokens), cancellation }),
    onSwitch: (before, after, failure) => {
      const { stream, turn } = call
      recorder.note({ type: 'continued', at: deps.world.now(), attempt, failure })
      before.permit.failed(failure, routeContext.id)
      recorder.answeredBy(after)
      turn?.answeredBy(after.target, after.prepared, after.answerStream)
      deps.emit(fallbackEvent(routeContext, before.target, after.target, failure))
      const { instance, model } = after.target.candidate
      stream.remark(`continued provider=${printable(instance.id)} model=${printable(model)}`)
    },
    report: (error) => deps.emit({ event: 'error', id: routeContext.id, error }),
  })
}

/**
 * Whether a target rejected the request itself, or found it too long. A hedge may have done so besides the target that
 * answered. A continuation is longer than the request.
 */
const isRejected = (trace: Trace): boolean =>
  trace.some(
    (event) =>
      event.type === 'failed' &&
      (event.failure.kind === 'context_length' || rowOf(event.failure).excludes === 'request'),
  )

type Continuation = {
  readonly candidates: readonly Candidate[]
  /** Null: the output limit is used up. */
  readonly inbound: InboundRequest | null
  readonly cancellation: Cancellation
}

/** One attempt at a target that supports every member of the request. Null: none is left, or it failed. */
const routeOnce = async (
  deps: RouterDeps,
  { routeContext, recorder }: ContinuableCall,
  { candidates, inbound, cancellation }: Continuation,
): Promise<Routed | null> => {
  const { config, deadline } = routeContext
  const { settings } = config
  const attempts = recorder.trace.filter(({ type }) => type === 'attempt').length
  if (!inbound || attempts >= settings.retry.maxAttempts || deadline <= deps.world.now()) return null
  const plan: Plan = { ...routeContext.plan, candidates }
  const once = { ...config, settings: { ...settings, retry: { ...settings.retry, maxAttempts: 1 } } }
  const spec = chatAttempts(deps, { inbound, settings, bodies: routeContext.bodies })
  const strict: AttemptSpec<OutboundRequest> = {
    prepare: (target) => {
      const ready = spec.prepare(target)
      return ready && isCompatible(ready) ? ready : null
    },
    makeReady: (ready) => spec.makeReady?.(ready) ?? null,
    sentText: (ready) => spec.sentText(ready),
    begin: (target, ready) => spec.begin(target, ready),
  }
  const note = (event: TraceEvent) => routeContext.note(renumbered(event, attempts))
  const routed = await route(deps, { ...routeContext, plan, config: once, stop: cancellation, note }, strict)
  return routed.ok ? routed : null
}

/** Attempts are numbered from 0 in each routing run, but through the whole request in its trace. */
const renumbered = (event: TraceEvent, before: number): TraceEvent =>
  'attempt' in event ? { ...event, attempt: event.attempt + before } : event
