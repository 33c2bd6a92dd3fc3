/** Where a request would go and why, without sending anything: the same plan, the same bodies, the same gates. */

import type { ClientProtocolName } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isList, isObject, type Json, type JsonObject, list, parseJson } from '../../core/json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate } from '../../core/target.ts'
import { factsOf } from '../../policy/routing/models.ts'
import { explain as explained } from '../../policy/routing/plan.ts'
import { draftEmbeddings } from '../../policy/routing/plan-embeddings.ts'
import { clientProtocolByStyle, protocols } from '../../protocols/index.ts'
import type { Gateway } from '../gateway.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import { type InboundRequest, prepareRequest } from '../upstream/outbound-request.ts'
import { parseRequest } from '../upstream/parse-request.ts'
import { EMBEDDINGS, parseEmbeddings, prepareEmbeddings } from './embeddings.ts'

export const explain = (gateway: Gateway, received: IncomingRequest): Outcome<JsonObject> => {
  if (isEmbeddings(received)) return explainEmbeddings(gateway, received)
  const style = styleOf(received)
  if (!style.ok) return style
  const protocol = style.value
  const asked = parseRequest(protocol, received.body, received.headers, gateway.config().settings.limit)
  if (!asked.ok) return asked
  const question = asked.value
  const config = gateway.config()
  const plan = planFor(gateway, config, question.request.model)
  if (!plan.ok) return plan
  const keysOf = keyOrder(gateway, config, question)
  const now = (candidate: Candidate): JsonObject => ({
    ...fit(gateway, question, candidate),
    keys: keysNow(gateway, config, candidate, keysOf(candidate)),
  })
  return good({ ...explained(question.request.model, plan.value, now), style: protocol.style })
}

const explainEmbeddings = (gateway: Gateway, { body }: IncomingRequest): Outcome<JsonObject> => {
  const asked = parseEmbeddings(body, gateway.config().settings.limit)
  if (!asked.ok) return asked
  const { model } = asked.value.request
  const config = gateway.config()
  const plan = planFor(gateway, config, model, draftEmbeddings)
  if (!plan.ok) return plan
  const keysOf = keyOrder(gateway, config, null)
  const now = (candidate: Candidate): JsonObject => {
    const ready = prepareEmbeddings(asked.value, candidate)
    return {
      fit: ready?.unfit.length === 0,
      style: EMBEDDINGS,
      unfit_for: ready?.unfit ?? [],
      dropped: ready?.dropped ?? [],
      keys: keysNow(gateway, config, candidate, keysOf(candidate)),
    }
  }
  return good({ ...explained(model, plan.value, now), style: EMBEDDINGS })
}

/** Which of a candidate's keys may be tried at this moment. */
const keysNow = (
  { health: board }: Gateway,
  { settings }: Config,
  candidate: Candidate,
  keys: Iterable<ProviderKey>,
): readonly Json[] =>
  [...keys].map((key): Json => {
    const refusal = board.peek({ candidate, key }, settings)
    return {
      id: key.id,
      may_be_tried: refusal === null,
      ...(refusal && { because: refusal.why, until: board.iso(refusal.until) }),
    }
  })

/** What the candidate would be sent, and what it could not be. */
const fit = ({ catalogue, health: board }: Gateway, question: InboundRequest, candidate: Candidate): JsonObject => {
  const lacking = new Set(board.lacking(candidate.instance))
  const prepared = prepareRequest(question, candidate, factsOf(catalogue, candidate.instance, candidate.model), lacking)
  if (!prepared) return { fit: false, unfit_for: [], only_without: [], doubts: [] }
  return {
    fit: prepared.unfit.length === 0 && prepared.droppable.length === 0 && prepared.doubts.length === 0,
    style: prepared.protocol.style,
    unfit_for: prepared.unfit,
    only_without: prepared.droppable,
    doubts: prepared.doubts.map((doubt) => ({ ...doubt })),
    dropped: prepared.dropped,
  }
}

/** Which call's body it is: as the query says, or by what only that style has. What could be either is chat completions. */
const styleOf = ({ body, query, headers }: IncomingRequest): Outcome<ClientProtocol> => {
  const said = new URLSearchParams(query).get('style')
  if (said !== null) {
    const named = clientProtocolByStyle.get(said)
    if (named) return good(named)
    const names = [...clientProtocolByStyle.keys(), EMBEDDINGS].join(', ')
    return bad(
      fail('invalid_value', `The query's \`style\` is none there is. It must be one of ${names}.`, { param: 'style' }),
    )
  }
  const name = headers('anthropic-version') === undefined ? markedAs(body) : 'anthropic-messages'
  return good(protocols[name])
}

/** A list to be embedded has texts or tokens in it; what a response is asked about has items. */
const isEmbeddings = ({ body, query }: IncomingRequest): boolean => {
  const said = new URLSearchParams(query).get('style')
  if (said !== null) return said === EMBEDDINGS
  try {
    const value = parseJson(body)
    if (!isObject(value) || value.input === undefined) return false
    const isListed = isList(value.input) && value.input.length > 0 && !value.input.some(isObject)
    return isListed || value.encoding_format !== undefined || value.dimensions !== undefined
  } catch {
    // Not JSON: the chat reader says where.
    return false
  }
}

const markedAs = (source: string): ClientProtocolName => {
  try {
    const body = parseJson(source)
    if (!isObject(body)) return 'openai-chat'
    if (typeof body.prompt === 'string' || isList(body.prompt)) return 'openai-completions'
    if (body.input !== undefined || body.instructions !== undefined) return 'openai-responses'
    return isMessages(body) ? 'anthropic-messages' : 'openai-chat'
  } catch {
    // Not JSON: the chat reader says where.
    return 'openai-chat'
  }
}

/** Members that messages have and chat completions have not, at the top, in tools and in content. */
const isMessages = ({ system, stop_sequences, tools, messages }: JsonObject): boolean =>
  system !== undefined ||
  stop_sequences !== undefined ||
  list(tools).some((tool) => isObject(tool) && tool.input_schema !== undefined) ||
  list(messages).some((message) => isObject(message) && list(message.content).some(isTheirBlock))

const THEIRS: ReadonlySet<Json | undefined> = new Set([
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
  'image',
  'document',
])

const isTheirBlock = (block: Json): boolean => isObject(block) && THEIRS.has(block.type)
