/** Who may go on with an answer that breaks off, and how they are asked. */

import { rowOf } from '../../core/failure.ts'
import { type Candidate, modelId, type Plan } from '../../core/target.ts'
import type { TraceEvent } from '../../core/trace.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { printable, type Recorder } from '../call/recorder.ts'
import type { RouterDeps } from '../gateway.ts'
import type { AttemptSpec } from '../routing/attempt-spec.ts'
import { fallbackEvent, type RouteContext, type Routed, route } from '../routing/router.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'
import { chatAttempts } from './chat-call.ts'
import type { ClientStream } from './client-stream.ts'
import { ContinuedFlow, continued, mayBeContinued, takesPrefill } from './continuation.ts'
import type { Turn } from './turn.ts'

type Call = {
  readonly errand: RouteContext
  readonly question: InboundRequest
  readonly turn: Turn | undefined
  readonly record: Recorder
  readonly stream: ClientStream
}

/** The answer's flow, which another goes on with should it break off; null: nobody could, or it is not wished. */
export const continuable = (tools: RouterDeps, call: Call, won: Routed): ContinuedFlow | null => {
  const { errand, question } = call
  const { settings } = errand.config
  if (won.flow.whole !== null || !mayBeContinued(question, settings)) return null
  const { trace: exchange } = call.record
  // Whoever has failed this request once is not asked for the rest of it. Where somebody refused what was asked (a hedge
  // may have, beside the one that answered), nobody is; nor where it was too long: it has grown by what has been said.
  const tried = new Set(exchange.flatMap((fact) => (fact.type === 'attempt' ? [`${fact.provider} ${fact.model}`] : [])))
  const isRefused = exchange.some(
    (fact) =>
      fact.type === 'failed' && (fact.failure.kind === 'context_length' || rowOf(fact.failure).excludes === 'request'),
  )
  const others = errand.plan.candidates.filter((one) => !tried.has(modelId(one)) && takesPrefill(one))
  if (isRefused || others.length === 0) return null
  const number = exchange.findLast((fact) => fact.type === 'committed')?.attempt ?? 0
  return new ContinuedFlow(won, question.request, {
    ask: (text, output, stop) => askOnce(tools, call, others, continued(question, text, output), stop),
    seam: (before, after, failure) => {
      const { record, stream, turn } = call
      record.note({ type: 'continued', at: tools.world.now(), attempt: number, failure })
      before.permit.failed(failure)
      record.answeredBy(after)
      turn?.answeredBy(after.target, after.prepared, after.flow)
      tools.emit(fallbackEvent(errand, before.target, after.target, failure))
      const { instance, model } = after.target.candidate
      stream.remark(`continued provider=${printable(instance.id)} model=${printable(model)}`)
    },
    report: (error) => tools.emit({ event: 'error', id: errand.id, error }),
  })
}

/** One attempt at a model that this request has not tried, if it supports every member of the request. */
const askOnce = async (
  tools: RouterDeps,
  { errand, record }: Call,
  candidates: readonly Candidate[],
  question: InboundRequest | null,
  stop: Cancellation,
): Promise<Routed | null> => {
  const { config, deadline } = errand
  const { settings } = config
  const made = record.trace.filter(({ type }) => type === 'attempt').length
  if (!question || made >= settings.retry.maxAttempts || deadline <= tools.world.now()) return null
  const plan: Plan = { ...errand.plan, candidates }
  const once = { ...config, settings: { ...settings, retry: { ...settings.retry, maxAttempts: 1 } } }
  const asked = chatAttempts(tools, { question, settings })
  const asking: AttemptSpec<OutboundRequest> = {
    prepare: (target) => {
      const ready = asked.prepare(target)
      return ready && [ready.unfit, ready.droppable, ready.doubts].every(({ length }) => length === 0) ? ready : null
    },
    makeReady: (ready) => asked.makeReady?.(ready) ?? null,
    begin: (target, ready) => asked.begin(target, ready),
  }
  const opened = await route(
    tools,
    {
      ...errand,
      plan,
      config: once,
      stop,
      note: (fact) => errand.note(counted(fact, made)),
    },
    asking,
  )
  return opened.ok ? opened : null
}

/** Attempts are counted on from those before. */
const counted = (fact: TraceEvent, before: number): TraceEvent =>
  'attempt' in fact ? { ...fact, attempt: fact.attempt + before } : fact
