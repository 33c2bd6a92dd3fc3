/**
 * One turn of a stored conversation in the responses style. The earlier turns are put before its input, and its answer is
 * stored, so that any target can answer the next turn.
 *
 * If the provider that answered the previous turn stores it too, the same key there receives only the new turn: the
 * provider has more than it returned, such as its reasoning. Every other target receives the whole conversation.
 */

import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { isItemReference } from '../../core/item-reference.ts'
import { type Json, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import { DEEPEST, rewrite, survey } from '../../core/json-text.ts'
import { writeLarge } from '../../core/large-write.ts'
import type { StorageInfo } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import { inTurns, type TurnScheduler as LoopTurn, ownTurn, PIECE } from '../../core/steps.ts'
import type { Maker, ResponseStatus, StoredResponse } from '../../core/stored-response.ts'
import type { Candidate, Target } from '../../core/target.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { storesAnswersIn } from '../../policy/routing/choose-protocol.ts'
import { protocols } from '../../protocols/index.ts'
import type { ChangeContinuation, StoredTurn } from '../chat/turn.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import {
  type ConversationHistory,
  findTurnsIn,
  MAX_CHARACTERS,
  MAX_REFERENCED,
  MAX_TURNS,
  NO_HISTORY,
  type ResponseStores,
  readHistory,
  readReferences,
  sizeOf,
  sizeOfReferenced,
} from './conversation-history.ts'
import {
  clientPathIn,
  type ItemReading,
  itemsIn,
  itemsOf,
  orphanedResult,
  portableItem,
  withIds,
} from './conversation-items.ts'
import { RecordingWriter } from './recording-writer.ts'

const { 'openai-responses': openaiResponses } = protocols

/** The dependencies of a turn. */
export type TurnDeps = {
  readonly stores: ResponseStores
  readonly owner: string
  /** Of the whole conversation. */
  readonly limits: ExtentLimits
  /** Runs a piece of work on a large conversation in its own turn of the event loop. */
  readonly loopTurn: LoopTurn
  /** Random letters for ids. */
  readonly randomLetters: (length: number) => string
  /** s since 1970. */
  readonly created: number
  /** A configured provider stores responses, and may know an id that is not stored here. */
  readonly upstreamMayStore: boolean
  /** Records the provider instance that issued encrypted reasoning. */
  readonly noteIssuer: ItemReading['noteIssuer']
}

/** Prefix of ids made by the gateway, which no provider can know. */
const OWN_ID = 'resp_hg'

/** The request that continues a provider's own record of the conversation. */
type UpstreamContinuation = { readonly maker: Maker; readonly inbound: InboundRequest }

type TurnInput = {
  readonly inbound: InboundRequest
  readonly kept: StorageInfo
  readonly items: readonly JsonObject[]
  readonly upstream: UpstreamContinuation | null
}

/** A turn, started by `turnFor`. */
export class ConversationTurn implements StoredTurn {
  readonly storage: StorageInfo
  readonly #deps: TurnDeps
  readonly #items: readonly JsonObject[]
  #inbound: InboundRequest
  #upstream: UpstreamContinuation | null
  #itemsWithIds: readonly JsonObject[] | null = null
  #upstreamExpired = false
  #maker: Maker | null = null

  constructor(deps: TurnDeps, { inbound, kept, items, upstream }: TurnInput) {
    this.#deps = deps
    this.#inbound = inbound
    this.storage = kept
    this.#items = items
    this.#upstream = upstream
  }

  get inbound(): InboundRequest {
    return this.#inbound
  }

  async send(inbound: InboundRequest, change: ChangeContinuation): Promise<Failure | null> {
    this.#inbound = inbound
    const upstream = this.#upstream
    if (!upstream) return null
    const changed = await change(upstream.inbound)
    if (!changed.ok) return changed.failure
    this.#upstream = { ...upstream, inbound: changed.value }
    return null
  }

  inboundFor({ candidate, key }: Target): InboundRequest {
    const upstream = this.#upstreamExpired ? null : this.#upstream
    return upstream && candidate.instance.id === upstream.maker.instance && key.id === upstream.maker.key
      ? upstream.inbound
      : this.inbound
  }

  preferredKeys(candidate: Candidate, keys: Iterable<ProviderKey>): Iterable<ProviderKey> {
    const maker = this.#upstream?.maker
    if (!maker || candidate.instance.id !== maker.instance) return keys
    const all = [...keys]
    const preferred = all.filter(({ id }) => id === maker.key)
    return preferred.length === 0 ? all : [...preferred, ...all.filter(({ id }) => id !== maker.key)]
  }

  isExpiredUpstream(sent: InboundRequest, failure: Failure): boolean {
    if (sent !== this.#upstream?.inbound || this.#upstreamExpired) return false
    const isExpired = failure.status === 404 || failure.upstream?.code === 'previous_response_not_found'
    this.#upstreamExpired = isExpired
    return isExpired
  }

  /** An unknown previous response is reported as not found. */
  asClientError(failure: Failure): Failure {
    const { previous } = this.storage
    return failure.kind === 'unsupported' && failure.param === 'previous_response_id' && previous !== null
      ? unknownPrevious(previous)
      : failure
  }

  /** Records the target, and the ID of the response if the target stores it. */
  answeredBy({ candidate, key }: Target, { protocol }: OutboundRequest, answerStream: AnswerStream): void {
    const id = answerStream.facts.id
    const stores = storesAnswersIn(protocol, candidate.instance)
    const isStored = stores && this.inbound.body.store !== false && id !== null
    this.#maker = { instance: candidate.instance.id, key: key.id, model: candidate.model, id: isStored ? id : null }
  }

  /** A writer that stores the answer before its end is sent. A background response is stored by its own writer. */
  recordingWriter(responseWriter: ResponseWriter): ResponseWriter {
    const { durable, connection } = this.#deps.stores
    return (this.storage.store ? durable : connection) && !this.storage.background
      ? new RecordingWriter(responseWriter, (response, status, body) =>
          this.save({ response, status, events: null, body }),
        )
      : responseWriter
  }

  /** The input items with their ids, made once. Only a stored turn needs them. */
  #identified(): readonly JsonObject[] {
    this.#itemsWithIds ??= withIds(this.#items, this.#deps.randomLetters)
    return this.#itemsWithIds
  }

  /**
   * Stores the turn. Null: no write is pending. A promise: the result of the write to the durable store. A failed turn is
   * stored only if a client can retrieve it later (`background`).
   */
  save(answer: TurnAnswer): Promise<Failure | null> | null {
    const { previous, background } = this.storage
    const { connection } = this.#deps.stores
    if (answer.status === 'failed' && !background) {
      // A client whose continuation failed starts again: the connection's record is no longer trusted.
      if (previous !== null) connection?.delete(previous, this.#deps.owner)
      return null
    }
    if (this.inbound.source.text.length > PIECE) return this.#saveLarge(answer)
    return this.#put(this.#record(answer, JSON.stringify(this.#identified())))
  }

  async #saveLarge(answer: TurnAnswer): Promise<Failure | null> {
    const input = (await inTurns(writeLarge(this.#identified()), this.#deps.loopTurn)).text
    return this.#put(this.#record(answer, input))
  }

  #put(record: StoredResponse): Promise<Failure | null> | null {
    const { durable, connection } = this.#deps.stores
    if (this.storage.store) return durable?.put(record) ?? null
    connection?.put(record)
    return null
  }

  #record({ response, status, events, body, again }: TurnAnswer, input: string): StoredResponse {
    const { id, previous } = this.storage
    return {
      id,
      owner: this.#deps.owner,
      previous,
      status,
      created: this.#deps.created,
      input,
      response,
      events,
      items: [...this.#identified(), ...list((body ?? object(parseJson(response)))?.output)]
        .slice(-MAX_REFERENCED)
        .flatMap((item) => text(object(item)?.id) ?? []),
      maker: this.#maker,
      users: namedUsers(this.inbound.body),
      ...(this.storage.background && { isRun: true }),
      ...(again && { again: again() }),
    }
  }
}

/** The answer of a turn, as it is stored. */
export type TurnAnswer = {
  /** JSON. */
  readonly response: string
  /** The same, parsed, if available. */
  readonly body?: JsonObject
  readonly status: ResponseStatus
  /** One JSON event a line; null: the answer was not stored with its events. */
  readonly events: string | null
  /** See `StoredResponse`. Called after the items have their ids. */
  readonly again?: (() => string) | undefined
}

/** A new response id. */
export const newId = ({ randomLetters }: TurnDeps): string => OWN_ID + randomLetters(24)

export type TurnOptions = { readonly id: string; readonly background: boolean }

/** Starts a turn. Fails if the conversation it continues is unknown, in progress, too long or unreadable. */
export const turnFor = async (
  deps: TurnDeps,
  inbound: InboundRequest,
  { id, background }: TurnOptions,
): Promise<Outcome<ConversationTurn>> => {
  const { body } = inbound
  const { stores, owner } = deps
  const store = body.store !== false && stores.durable !== null
  if (store) stores.durable.prepare()
  const previous = text(body.previous_response_id) ?? null
  const kept: StorageInfo = { id, previous, store, background }
  const input = itemsOf(body.input)
  const referenced = await readReferences(stores, deps, input)
  if (!referenced.ok) return referenced
  const references = referenced.value
  if (sizeOfReferenced(input, references) > MAX_CHARACTERS) return bad(tooLong('input'))
  const unknown = input.findIndex((item) => isItemReference(item) && !references.has(text(item.id) ?? ''))
  if (unknown !== -1) return bad(unknownItem(input[unknown]?.id, unknown))
  const items = input.map((item) => references.get(text(item.id) ?? '')?.item ?? item)
  const unchanged = () => good(new ConversationTurn(deps, { inbound, kept, items, upstream: null }))
  if (previous === null && references.size === 0) return unchanged()

  const read = previous === null ? good(NO_HISTORY) : await readHistory(findTurnsIn(stores, owner), previous)
  if (!read.ok) return read
  const history = read.value
  const problem = historyProblem(deps, history, previous)
  if (problem) return bad(problem)
  const last = history.turns.at(-1)
  if (previous !== null && !last && references.size === 0) return unchanged()
  const expanded = await withHistory(deps, inbound, items, history)
  if (!expanded.ok) return expanded
  const sources = [...(previous === null ? [] : [last]), ...[...references.values()].map(({ turn }) => turn)]
  // A reshaped request is not sent as the client's body, which alone names the provider's record.
  const upstream = inbound.request.reshaped ? null : upstreamContinuation(inbound, last, sources)
  return good(new ConversationTurn(deps, { inbound: expanded.value, kept, items, upstream }))
}

/** Why a conversation cannot be continued; null: it can. */
const historyProblem = (
  { upstreamMayStore }: TurnDeps,
  history: ConversationHistory,
  previous: string | null,
): Failure | null => {
  const { turns, root } = history
  if (history.tooLong) return tooLong('previous_response_id')
  const last = turns.at(-1)
  if (previous !== null && !last && (previous.startsWith(OWN_ID) || !upstreamMayStore)) return unknownPrevious(previous)
  // A turn with an ID of the gateway was deleted or has expired. The remaining turns alone would be another
  // conversation.
  if (root?.startsWith(OWN_ID) || (root !== null && !upstreamMayStore)) return unknownPrevious(root)
  return last?.status === 'queued' || last?.status === 'in_progress' ? inProgress(last.id) : null
}

/** The request with the items of all earlier turns before its own, parsed again. */
const withHistory = async (
  deps: TurnDeps,
  inbound: InboundRequest,
  items: readonly JsonObject[],
  { turns, root }: ConversationHistory,
): Promise<Outcome<InboundRequest>> => {
  const { limits, loopTurn } = deps
  const earlier: JsonObject[] = []
  let unyielded = 0
  for (const turn of turns) {
    for (const item of await itemsIn(turn, deps)) earlier.push(portableItem(item))
    unyielded += sizeOf(turn)
    if (unyielded <= PIECE) continue
    unyielded = 0
    await ownTurn(loopTurn)
  }
  const orphan = turns.length > 0 ? orphanedResult(earlier, items) : null
  if (orphan) return bad(orphan)

  const { previous_response_id: _, ...rest } = inbound.body
  const body = { ...rest, ...(root !== null && { previous_response_id: root }), input: [...earlier, ...items] }
  const clientPath = clientPathIn(earlier.length, typeof inbound.body.input === 'string')
  const size = inbound.source.text.length + turns.reduce((sum, turn) => sum + sizeOf(turn), 0)
  const source = size > PIECE ? await inTurns(writeLarge(body), loopTurn) : { text: JSON.stringify(body) }
  const received = { body: source, headers: inbound.headers }
  const parsed = await parseInTurns(openaiResponses, received, limits, loopTurn)
  if (parsed.ok) {
    const mended = [...(inbound.mended ?? []), ...(parsed.value.mended ?? []).map(clientPath)]
    return good({ ...inbound, ...parsed.value, mended, clientPath })
  }
  const { param } = parsed.failure
  return bad({ ...parsed.failure, ...(param !== undefined && { param: clientPath(param) }) })
}

/**
 * The client's request, continued from the record of the one provider key that stores all turns it depends on
 * (`sources`). Null: there is no such key.
 */
const upstreamContinuation = (
  inbound: InboundRequest,
  last: StoredResponse | undefined,
  sources: readonly (StoredResponse | undefined)[],
): UpstreamContinuation | null => {
  const maker = sources[0]?.maker
  if (!maker || !sources.every((turn) => isStoredBy(maker, turn?.maker))) return null
  if (!last?.maker) return { maker, inbound }
  const body = { ...inbound.body, previous_response_id: last.maker.id }
  const source = rewrite(inbound.source, inbound.members, inbound.body, body)
  const surveyed = survey(source.text, DEEPEST)
  return surveyed.ok ? { maker, inbound: { ...inbound, body, source, members: surveyed.members } } : null
}

/** Whether the same key of the same provider stores this turn. */
const isStoredBy = ({ instance, key }: Maker, maker: Maker | null | undefined): boolean =>
  (maker?.id ?? null) !== null && maker?.instance === instance && maker.key === key

const inProgress = (id: string): Failure =>
  fail('unknown_previous', `The response ${JSON.stringify(id)} is still in progress. Retry when it has completed.`, {
    param: 'previous_response_id',
  })

const tooLong = (param: string): Failure =>
  fail(
    'invalid_request',
    `The conversation is too long (limit ${MAX_TURNS} turns and ${MAX_CHARACTERS} characters). Start a new conversation with a summary of it.`,
    { param },
  )

/** The provider would look it up among the items of all clients that share its key. */
const unknownItem = (id: Json | undefined, at: number): Failure =>
  fail(
    'invalid_request',
    `Item with id ${JSON.stringify(text(id)?.slice(0, 100) ?? null)} not found: it was never stored, has expired, or belongs to another client. Send the item itself as input instead.`,
    { status: 404, param: `input[${at}]` },
  )

const unknownPrevious = (id: string): Failure =>
  fail(
    'unknown_previous',
    `Previous response with id ${JSON.stringify(id.slice(0, 100))} not found: it was never stored, has expired, or belongs to another client. Send the whole conversation as input instead.`,
    { param: 'previous_response_id' },
  )
