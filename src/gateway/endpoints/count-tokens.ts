/**
 * Counts the tokens of a question. Whoever would be asked first is asked to count, if the client's format is spoken there,
 * and then the others who speak it; nobody else has the tokenizer, so otherwise, or when none of them could, it is an
 * estimate, and the answer's head says so.
 *
 * What becomes of such a call says nothing about the model: circuits and the states of keys are asked, and never told.
 */

import type { ErrorTable } from '../../core/error-table.ts'
import { bad, type Failure, fail, good, rowOf } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { Json } from '../../core/json.ts'
import type { ClientProtocol, TokenCounting, UpstreamProtocol } from '../../core/protocol.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { estimateTokens } from '../../policy/routing/estimate-tokens.ts'
import { factsOf } from '../../policy/routing/models.ts'
import { runCall } from '../call/call-lifecycle.ts'
import { type Recorder, writeAndRecordError } from '../call/recorder.ts'
import type { Gateway } from '../gateway.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import type { RoutingDeps } from '../routing/route-context.ts'
import { headersFor, type InboundRequest, type OutboundRequest, prepareRequest } from '../upstream/outbound-request.ts'
import { parseLargeRequest } from '../upstream/parse-request.ts'
import { callForBody, type Sent } from './json-call.ts'

/** What the log calls it. */
const STYLE = 'count_tokens'

export const countTokens = (
  gateway: Gateway,
  protocol: ClientProtocol,
  received: IncomingRequest,
  reply: ResponseWriter,
): Promise<void> =>
  runCall({ gateway, protocol, style: STYLE, received, reply }, async (stop, record) => {
    const { counting } = protocol
    if (!counting) throw new Error(`${protocol.name} has no call that counts`)
    const config = gateway.config()
    const counted = { ...protocol, decodeRequest: counting.decodeRequest }
    const asked = await parseLargeRequest(counted, received, config.settings.limit, gateway.world.turn)
    if (!asked.ok) return writeAndRecordError({ protocol, reply, record }, asked.failure, null)
    const question = { ...asked.value, query: received.query }
    record.received(question.request.model, false)
    const plan = planFor(gateway, config, question.request.model)
    if (!plan.ok) return writeAndRecordError({ protocol, reply, record }, plan.failure, null)

    const bodies = counters(gateway, question, plan.value)
    const opened = await callForBody(watching(gateway), {
      client: received.client,
      clientKey: received.clientKey,
      holder: received.holder,
      plan: { ...plan.value, candidates: [...bodies.keys()] },
      config,
      keysOf: keyOrder(gateway, config, question),
      stop,
      record,
      prepare: (candidate) => {
        const prepared = bodies.get(candidate)
        return prepared ? sent(question, counting, candidate, prepared) : null
      },
      heard: () => {},
    })
    if (stop.reason?.kind === 'client_gone') {
      reply.abort()
      return record.end('client_gone', statusOf(stop.reason), stop.reason)
    }
    if (opened.ok) record.answeredBy(opened)
    else if (stop.reason || isItsOwnFault(opened.failure))
      return writeAndRecordError({ protocol, reply, record }, opened.failure, 0)
    const own = opened.ok ? opened.flow.whole : null
    const body = own ?? JSON.stringify(counting.encodeAnswer(estimateTokens(question.request)))
    record.responseStarted = true
    reply.writeHead(200, {
      'content-type': 'application/json',
      ...(own === null ? estimated(record) : record.headers()),
    })
    reply.end(body)
    record.end('answered', 200)
  })

/** Nobody upstream stands behind an estimate. */
const estimated = (record: Recorder): Readonly<{ [name: string]: string }> => {
  const { 'x-headgate-provider': _provider, 'x-headgate-model': _model, ...headers } = record.headers()
  return { ...headers, 'x-headgate-estimated': 'true' }
}

/** That the question cannot be asked at all: then counting it would only put off saying so. */
const isItsOwnFault = (failure: Failure): boolean => {
  const { side, excludes: condemns } = rowOf(failure)
  return side === 'client' && condemns === 'request'
}

/** A board that answers and is told nothing. */
const watching = ({ world, catalogue, health: board, activeCalls: live }: Gateway): RoutingDeps => {
  const untold = { commit: () => {}, done: () => {}, failed: () => {}, release: () => {} }
  return {
    world,
    catalogue,
    activeCalls: live,
    emit: () => {},
    health: {
      admit: (target, settings) => board.peek(target, settings) ?? untold,
      refuses: () => null,
      peek: (target, settings) => board.peek(target, settings),
      firstTry: () => {},
      mayRepeat: () => true,
    },
  }
}

/** Who could count it, and what each would be sent: nobody, if whoever would be asked first speaks another format. */
const counters = (
  { catalogue }: Gateway,
  question: InboundRequest,
  plan: Plan,
): ReadonlyMap<Candidate, OutboundRequest> => {
  const fit = plan.candidates.flatMap((candidate): (readonly [Candidate, OutboundRequest])[] => {
    const prepared = prepareRequest(question, candidate, factsOf(catalogue, candidate.instance, candidate.model))
    return prepared?.unfit.length === 0 && prepared.droppable.length === 0 ? [[candidate, prepared]] : []
  })
  const speaks = ([, { protocol }]: readonly [Candidate, OutboundRequest]) => protocol.name === question.protocol.name
  return new Map(fit[0] && speaks(fit[0]) ? fit.filter(speaks) : [])
}

/** The question as it would be asked for an answer, at the path for counting. */
const sent = (
  question: InboundRequest,
  counting: TokenCounting,
  { instance }: Candidate,
  prepared: OutboundRequest,
): Sent<number> => {
  const { protocol, url, auth } = prepared
  const quirks = instance.provider.quirks
  return {
    ...prepared,
    url: behind(url, counting.suffix),
    headers: (key) => headersFor(instance, key, question, prepared),
    auth,
    read: (body) => {
      const value = counting.decodeAnswer(body)
      return value === undefined ? bad(notACount(protocol, body)) : good({ value })
    },
    decodeFailure: protocol.decodeFailure,
    quirks: { errors: { ...NO_SUCH_CALL, rows: [...NO_SUCH_CALL.rows, ...(quirks?.errors?.rows ?? [])] } },
  }
}

/** Compatible servers often have no such call: that says nothing about the question. */
const NO_SUCH_CALL: ErrorTable = {
  checked: '2026-11-21',
  rows: [{ when: { status: [404, 405] }, kind: 'model_missing', seen: 'count.test.ts' }],
}

/** An error behind a 200 is told as what it is. */
const notACount = (protocol: UpstreamProtocol, body: Json): Failure => {
  const said = protocol.decodeAnswer(body).find((event) => event.type === 'failure')
  return said?.failure ?? fail('malformed', 'the upstream answered with something that is no count')
}

/** A suffix to the path of a URL that may have a query. */
const behind = (url: string, suffix: string): string => {
  const [path = '', ...query] = url.split('?')
  return [path + suffix, ...query].join('?')
}
