/**
 * Counts the input tokens of a request. Only targets with the client's protocol have the tokenizer: the first target
 * counts if it has this protocol, and after a failure the others with it. Otherwise the answer is an estimate, marked
 * by `x-headgate-estimated`. These calls read the health of targets but do not change it, because counting says nothing
 * about the model.
 */

import type { ErrorTable } from '../../core/error-table.ts'
import { bad, type Failure, fail, good, type Outcome, rowOf } from '../../core/failure.ts'
import type { Guard } from '../../core/guard.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { Json } from '../../core/json.ts'
import { DEEPEST, survey } from '../../core/json-text.ts'
import type { ClientProtocol, TokenCounting, UpstreamProtocol } from '../../core/protocol.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { estimateTokens } from '../../policy/routing/estimate-tokens.ts'
import { chatShape } from '../../policy/routing/when.ts'
import { jsonDemand } from '../accounts/demand.ts'
import { type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { type Recorder, recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { requestTimeout } from '../call/request-timeout.ts'
import { asReceived, type ChatParsing, chatWithTexts, checkRequest } from '../guards/check-request.ts'
import { guardsFor } from '../guards/choose-guards.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import type { RoutingDeps } from '../routing/route-context.ts'
import { headersFor, type InboundRequest, type OutboundRequest, prepareRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import { type JsonRequest, routeJson } from './json-call.ts'

/** The kind of call, as in the log. */
const STYLE = 'count_tokens'

/** A call for a count. */
export type CountCall = {
  readonly protocol: ClientProtocol
  readonly received: IncomingRequest
  readonly responseWriter: ResponseWriter
  /** Adds the earlier turns of a stored conversation. Absent: the protocol has none. */
  readonly withHistory?: (inbound: InboundRequest) => Promise<Outcome<InboundRequest>>
}

/** Serves the paths of all formats that count tokens. */
export const countTokens = (
  gateway: ModelCallDeps,
  { protocol, received, responseWriter, withHistory }: CountCall,
): Promise<void> =>
  runCall({ gateway, protocol, style: STYLE, received, responseWriter }, async (call) => {
    const { cancellation, recorder } = call
    const { counting } = protocol
    if (!counting) throw new Error(`${protocol.name} has no token counting`)
    const config = gateway.config()
    const decoder = { ...protocol, decodeRequest: counting.decodeRequest }
    const parsed = await parseInTurns(decoder, received, config.settings.limit, gateway.world.turn)
    if (!parsed.ok) return writeAndRecordError(call, parsed.failure, null)
    const { request, body } = parsed.value
    const blocked = recorder.received({ model: request.model, stream: false, members: body, headers: received.headers })
    if (blocked) return writeAndRecordError(call, blocked, 0)
    const whole = withHistory ? await withHistory(parsed.value) : parsed
    if (!whole.ok) return writeAndRecordError(call, whole.failure, null)
    const { client, headers } = received
    const { model } = whole.value.request
    const shape = chatShape(whole.value.request)
    const plan = planFor(gateway, config, { model, style: protocol.style, client, headers, members: body, shape })
    if (!plan.ok) return writeAndRecordError(call, plan.failure, null)

    const { account } = recorder
    account.describe(
      jsonDemand({
        body: received.body,
        members: body,
        model,
        plan: plan.value,
        output: 'free',
      }),
    )
    // Without a target the answer is an estimate, which is a request of the client all the same.
    const limited = await account.admission.enter()
    if (limited) return writeAndRecordError(call, limited, 0)
    const guards = guardsFor(gateway, { received, plan: plan.value, style: STYLE, recorder })
    const parsing = { protocol: decoder, path: received.path, limits: config.settings.limit, turn: gateway.world.turn }
    const sent = guards.length === 0 ? whole.value : await maskedBy(guards, whole.value, parsing)
    // What a guard refuses leaves the gateway for no count.
    if (!sent) return writeEstimate(call, counting, whole.value)
    const inbound = { ...countable(sent, counting), query: received.query }
    const requests = countingRequests(gateway, inbound, plan.value)
    const routed = await routeJson(readOnlyDeps(gateway), {
      received,
      running: call,
      plan: { ...plan.value, candidates: [...requests.keys()] },
      config,
      timeout: requestTimeout(protocol, received.headers, config.settings),
      keysOf: keyOrder(gateway, config, inbound, { session: account.session }),
      prepare: (candidate) => {
        const prepared = requests.get(candidate)
        return prepared ? countRequest(inbound, counting, candidate, prepared) : null
      },
      onHeaders: () => {},
    })
    if (cancellation.reason?.kind === 'client_gone') return recordDisconnect(call, cancellation.reason)
    if (!routed.ok) {
      if (cancellation.reason || isInvalidRequest(routed.failure)) return writeAndRecordError(call, routed.failure, 0)
      return writeEstimate(call, counting, inbound)
    }
    recorder.answeredBy(routed)
    const isForeign = requests.get(routed.target.candidate)?.counts?.read !== undefined
    const text = isForeign ? null : routed.answerStream.whole
    writeAndRecordAnswer(call, text ?? JSON.stringify(counting.encodeAnswer(routed.value)))
  })

const writeEstimate = (call: RunningCall, counting: TokenCounting, { request }: InboundRequest): void => {
  const estimate = JSON.stringify(counting.encodeAnswer(estimateTokens(request)))
  writeAndRecordAnswer(call, estimate, { headers: estimateHeaders(call.recorder) })
}

/** The request with the texts that guards have replaced; null: a guard refuses it. */
const maskedBy = async (
  guards: readonly Guard[],
  inbound: InboundRequest,
  parsing: ChatParsing,
): Promise<InboundRequest | null> => {
  const own = await asReceived(inbound, parsing)
  const verdict = await checkRequest(guards, own)
  if (!verdict) return inbound
  const changed = 'replace' in verdict ? await chatWithTexts(own, verdict.replace, parsing) : null
  return changed?.ok ? changed.value : null
}

/** The request with the members that the endpoint accepts: OpenAI refuses others (`max_output_tokens`, `stream`, `store`). */
const countable = (inbound: InboundRequest, { accepts }: TokenCounting): InboundRequest => {
  if (!accepts) return inbound
  const body = Object.fromEntries(Object.entries(inbound.body).filter(([name]) => accepts.has(name)))
  const source = { text: JSON.stringify(body) }
  const surveyed = survey(source.text, DEEPEST)
  // Its members were surveyed before, so they have no problem now.
  const { reencode: _, ...rest } = inbound
  return { ...rest, body, source, members: surveyed.ok ? surveyed.members : [] }
}

/** Without provider and model: an estimate comes from the gateway. */
const estimateHeaders = (recorder: Recorder): Readonly<{ [name: string]: string }> => {
  const { 'x-headgate-provider': _provider, 'x-headgate-model': _model, ...headers } = recorder.headers()
  return { ...headers, 'content-type': 'application/json', 'x-headgate-estimated': 'true' }
}

/** Whether every target would reject the request: an estimate would hide this. */
const isInvalidRequest = (failure: Failure): boolean => {
  const { side, excludes } = rowOf(failure)
  return side === 'client' && excludes === 'request'
}

/** Routing dependencies that read health but never record an outcome. */
const readOnlyDeps = ({ world, catalogue, health, activeCalls, tape }: ModelCallDeps): RoutingDeps => {
  const noPermit = { isProbe: false, commit: () => {}, done: () => {}, failed: () => {}, release: () => {} }
  return {
    world,
    catalogue,
    activeCalls,
    ...(tape && { tape }),
    emit: () => {},
    health: {
      admit: (target, settings) => health.peek(target, settings) ?? noPermit,
      refuses: () => null,
      peek: (target, settings) => health.peek(target, settings),
      firstTry: () => {},
      mayRepeat: () => true,
      limits: health.limits,
    },
  }
}

/** The request for each candidate that can count. Empty: the first target uses another protocol. */
const countingRequests = (
  { catalogue, health }: ModelCallDeps,
  inbound: InboundRequest,
  plan: Plan,
): ReadonlyMap<Candidate, OutboundRequest> => {
  const fit = plan.candidates.flatMap((candidate): (readonly [Candidate, OutboundRequest])[] => {
    const prepared = prepareRequest(inbound, candidate, health.limits.factsOf(catalogue, candidate))
    return prepared?.unfit.length === 0 && prepared.droppable.length === 0 ? [[candidate, prepared]] : []
  })
  const usesProtocol = ([, { protocol }]: readonly [Candidate, OutboundRequest]) =>
    protocol.name === inbound.protocol.name
  return new Map(fit[0] && usesProtocol(fit[0]) ? fit.filter(usesProtocol) : [])
}

/** The chat request, sent to the path for counting. */
const countRequest = (
  inbound: InboundRequest,
  counting: TokenCounting,
  { instance, model }: Candidate,
  prepared: OutboundRequest,
): JsonRequest<number> => {
  const { protocol, url, auth, counts } = prepared
  const quirks = instance.provider.quirks
  const sent = counts
    ? { ...prepared, betas: NO_BETAS, body: { text: counts.body(prepared.body.text, model) } }
    : prepared
  return {
    ...sent,
    url: counts?.url ?? countingUrl(url, counting),
    headers: (key) => headersFor(instance, key, inbound, sent),
    auth,
    read: (body) => {
      const value = counts?.read ? counts.read(body) : counting.decodeAnswer(body)
      return value === undefined ? bad(notACount(protocol, body)) : good({ value })
    },
    decodeFailure: protocol.decodeFailure,
    quirks: {
      errors: {
        ...CALL_MISSING,
        rows: [...CALL_MISSING.rows, ...(counts ? COUNT_REFUSED : []), ...(quirks?.errors?.rows ?? [])],
      },
    },
  }
}

/** Paths of their own refuse the betas of answers (github.com/anthropics/claude-code/issues/12429, 2025-11-26). */
const NO_BETAS = { sent: [], needed: [], inHeader: true } as const

/** Compatible servers often lack this call, which is not an error of the request. */
const CALL_MISSING: ErrorTable = {
  checked: '2026-11-21',
  rows: [{ when: { status: [404, 405] }, kind: 'model_missing', seen: 'count.test.ts' }],
}

/** Clouds refuse to count for some models, and what they take otherwise. The estimate hides no error of the request that follows. */
const COUNT_REFUSED: ErrorTable['rows'] = [
  { when: { status: 400 }, kind: 'model_missing', seen: 'github.com/maximhq/bifrost/pull/2169 (2026-03-18)' },
]

/** An error in a 200 response is reported as that error. */
const notACount = (protocol: UpstreamProtocol, body: Json): Failure => {
  const failed = protocol.decodeAnswer(body).find((event) => event.type === 'failure')
  return failed?.failure ?? fail('malformed', 'the answer of the upstream contains no token count')
}

/** The path of a URL, which may have a query, with the suffix. */
const countingUrl = (url: string, { suffix, instead = '' }: TokenCounting): string => {
  const [path = '', ...query] = url.split('?')
  const base = path.endsWith(instead) ? path.slice(0, path.length - instead.length) : path
  return [base + suffix, ...query].join('?')
}
