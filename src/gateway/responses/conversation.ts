/**
 * One turn of the responses style: what came before it is put in front of its question, and its answer is kept, so that
 * the next turn can be asked of anybody.
 *
 * Where whoever answered the turn before keeps it too, the same key there is asked to go on from its own record: it has
 * seen more than it told (its reasoning). Everybody else is sent the whole conversation.
 */

import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type Json, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import { DEEPEST, rewrite, survey } from '../../core/json-text.ts'
import { readLarge } from '../../core/large-json.ts'
import { sizeUpTo, writeLarge } from '../../core/large-write.ts'
import type { StorageInfo } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import { inTurns, type Turn as LoopTurn, ownTurn, PIECE } from '../../core/steps.ts'
import type { Maker, MemoryStore, ResponseStatus, ResponseStore, StoredResponse } from '../../core/stored-response.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { keepsResponses } from '../../policy/routing/choose-protocol.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import type { Turn } from '../chat/turn.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'
import { parseLargeRequest } from '../upstream/parse-request.ts'
import { RecordingWriter } from './recording-writer.ts'

/** Where the answers of a turn are looked for and put. */
export type ResponseStores = {
  /** Outlives the process; null: nothing is kept, as configured. */
  readonly durable: ResponseStore | null
  /** What one connection remembers of its own turns that are not to be stored (`store: false`). */
  readonly connection?: MemoryStore
}

export type TurnDeps = {
  readonly stores: ResponseStores
  readonly owner: string
  /** Of the whole conversation. */
  readonly limits: ExtentLimits
  /** Runs a piece of work on a large conversation in its own turn of the event loop. */
  readonly loopTurn: LoopTurn
  /** Letters for ids. */
  readonly letters: (length: number) => string
  /** s since 1970. */
  readonly created: number
  /** Somebody configured speaks the format, and may know what is not known here. */
  readonly othersMayKnow: boolean
}

/** Ids of ours begin so: none that does can be known to anybody else. */
const OWN_ID = 'resp_hg'

/** Longest conversation: in turns, and in characters of what is kept of them. Few providers take as much. */
const MOST_TURNS = 10_000
const MOST_SAID = 32 * 1024 * 1024

/** Items of a turn that a later question may name, and how many it may: each is a look into the database. */
const MOST_NAMED = 10_000

export class ConversationTurn implements Turn {
  /** With everything that came before. */
  readonly question: InboundRequest
  readonly kept: StorageInfo
  readonly #world: TurnDeps
  readonly #input: readonly JsonObject[]
  readonly #native: { readonly maker: Maker; readonly question: InboundRequest } | null
  #withIds: readonly JsonObject[] | null = null
  #nativeLost = false
  #maker: Maker | null = null

  constructor(
    world: TurnDeps,
    question: InboundRequest,
    kept: StorageInfo,
    input: readonly JsonObject[],
    native: { readonly maker: Maker; readonly question: InboundRequest } | null,
  ) {
    this.#world = world
    this.question = question
    this.kept = kept
    this.#input = input
    this.#native = native
  }

  /** What this target is asked. */
  questionFor({ candidate, key }: Target): InboundRequest {
    const native = this.#nativeLost ? null : this.#native
    return native && candidate.instance.id === native.maker.instance && key.id === native.maker.key
      ? native.question
      : this.question
  }

  /** The key that has the conversation so far is the first to be asked, where its provider is. */
  preferredKeys(candidate: Candidate, keys: Iterable<ProviderKey>): Iterable<ProviderKey> {
    const maker = this.#native?.maker
    if (!maker || candidate.instance.id !== maker.instance) return keys
    const all = [...keys]
    const own = all.filter(({ id }) => id === maker.key)
    return own.length === 0 ? all : [...own, ...all.filter(({ id }) => id !== maker.key)]
  }

  /** Whether it failed only because the provider's own record is gone: then the whole conversation is sent there once. */
  isExpiredUpstream(asked: InboundRequest, failure: Failure): boolean {
    if (asked !== this.#native?.question || this.#nativeLost) return false
    const gone = failure.status === 404 || failure.upstream?.code === 'previous_response_not_found'
    this.#nativeLost = gone
    return gone
  }

  /** Where what it continues is known to nobody here and nobody may be asked who could know it, it is not found. */
  asClientError(failure: Failure): Failure {
    const { previous } = this.kept
    return failure.kind === 'unsupported' && failure.param === 'previous_response_id' && previous !== null
      ? unknownPrevious(previous)
      : failure
  }

  /** Who answers; the flow knows under which id once it has begun. */
  answeredBy({ candidate, key }: Target, { protocol }: OutboundRequest, flow: AnswerStream): void {
    const id = flow.id()
    const keeps = protocol.name === 'openai-responses' && keepsResponses(candidate.instance)
    const stored = keeps && this.question.body.store !== false && id !== null
    this.#maker = stored ? { instance: candidate.instance.id, key: key.id, model: candidate.model, id } : null
  }

  /** A reply that stores the answer before its end is sent. A background job stores its own answer. */
  recordingWriter(reply: ResponseWriter): ResponseWriter {
    const { durable, connection } = this.#world.stores
    return (this.kept.store ? durable : connection) && !this.kept.background
      ? new RecordingWriter(reply, (response, status, body) => this.keep(response, status, null, body))
      : reply
  }

  /** The items of this turn with their ids, made once. Only a stored turn needs them. */
  #named(): readonly JsonObject[] {
    this.#withIds ??= withIds(this.#input, this.#world.letters)
    return this.#withIds
  }

  /**
   * Stores the turn. `response`: JSON; `body`: the same, parsed. Null: nothing to wait for. A promise: the result of the write to the durable store.
   * A failed turn is stored only if a client can ask for it later (`background`).
   */
  keep(
    response: string,
    status: ResponseStatus,
    events: string | null,
    body?: JsonObject,
  ): Promise<Failure | null> | null {
    const { previous, background } = this.kept
    const { durable, connection } = this.#world.stores
    if (status === 'failed' && !background) {
      // A client whose continuation failed starts again: the record in the connection's memory is no longer trusted.
      if (previous !== null) connection?.delete(previous, this.#world.owner)
      return null
    }
    const stored = { response, status, events, ...(body && { body }) }
    if (this.question.source.length > PIECE) return this.#keepLarge(stored)
    const record = this.#record(stored, JSON.stringify(this.#named()))
    if (this.kept.store) return durable?.put(record) ?? null
    connection?.put(record)
    return null
  }

  async #keepLarge(stored: Answered): Promise<Failure | null> {
    const { stores: shelves, loopTurn } = this.#world
    const record = this.#record(stored, await written(this.#named(), loopTurn))
    if (this.kept.store) return shelves.durable?.put(record) ?? null
    shelves.connection?.put(record)
    return null
  }

  #record({ response, status, events, body }: Answered, source: string): StoredResponse {
    const { id, previous } = this.kept
    const input = this.#named()
    return {
      id,
      owner: this.#world.owner,
      previous,
      status,
      created: this.#world.created,
      input: source,
      response,
      events,
      items: [...input, ...list((body ?? object(parseJson(response)))?.output)]
        .slice(-MOST_NAMED)
        .flatMap((item) => text(object(item)?.id) ?? []),
      maker: this.#maker,
    }
  }
}

/** What is stored of a turn's answer. */
type Answered = {
  readonly response: string
  /** The same, parsed, where that is at hand. */
  readonly body?: JsonObject
  readonly status: ResponseStatus
  readonly events: string | null
}

/** The value as JSON, written in turns of the event loop. */
const written = async (value: Json, loopTurn: LoopTurn): Promise<string> =>
  (await inTurns(writeLarge(value), loopTurn)).text

/** Stored JSON, read in turns of the event loop where it is large. */
const read = async (source: string, loopTurn: LoopTurn): Promise<unknown> => {
  if (source.length <= PIECE) return parseJson(source)
  const found = await inTurns(readLarge(source, Number.POSITIVE_INFINITY), loopTurn)
  return found.ok ? found.value : undefined
}

/** A new answer's id. */
export const newId = ({ letters }: TurnDeps): string => OWN_ID + letters(24)

export type TurnOptions = { readonly id: string; readonly background: boolean }

/** The turn this question is; refused when what it continues is not found, does not fit, or cannot be read. */
export const turnFor = async (
  world: TurnDeps,
  question: InboundRequest,
  { id, background }: TurnOptions,
): Promise<Outcome<ConversationTurn>> => {
  const { body } = question
  const { durable } = world.stores
  const wanted = body.store !== false
  const store = wanted && durable !== null
  if (store) durable.prepare()
  const previous = text(body.previous_response_id) ?? null
  const kept: StorageInfo = { id, previous, store, background }
  const news = itemsOf(body.input)
  const referenced = await referredTo(world, news)
  if (!referenced.ok) return referenced
  const references = referenced.value
  if (sizeOfNamed(news, references) > MOST_SAID) return bad(tooMuch('input'))
  const asking = news.map((item) => references.get(text(item.id) ?? '')?.item ?? item)
  const asIs = () => good(new ConversationTurn(world, question, kept, asking, null))
  if (previous === null && references.size === 0) return asIs()

  const before = previous === null ? good(NO_TURNS) : await conversation(finder(world), previous)
  if (!before.ok) return before
  const { turns, root, tooLong } = before.value
  if (tooLong) return bad(tooMuch('previous_response_id'))
  const last = turns.at(-1)
  if (previous !== null && !last) {
    if (previous.startsWith(OWN_ID) || !world.othersMayKnow) return bad(unknownPrevious(previous))
    if (references.size === 0) return asIs()
  }
  // What we have given an id and have no more was deleted, or has expired: half a conversation would be another one.
  if (root?.startsWith(OWN_ID) || (root !== null && !world.othersMayKnow)) return bad(unknownPrevious(root))
  if (last?.status === 'queued' || last?.status === 'in_progress') return bad(notDone(last.id))
  const earlier: JsonObject[] = []
  let spent = 0
  for (const turn of turns) {
    for (const item of await itemsIn(turn, world.loopTurn)) earlier.push(unnamed(item))
    spent += sizeOf(turn)
    if (spent <= PIECE) continue
    spent = 0
    await ownTurn(world.loopTurn)
  }
  const orphan = last ? orphanOf(earlier, asking) : null
  if (orphan) return bad(orphan)

  const { previous_response_id: _, ...rest } = body
  const whole = { ...rest, ...(root !== null && { previous_response_id: root }), input: [...earlier, ...asking] }
  const clientPath = pathIn(earlier.length, isString(body.input))
  const size = question.source.length + turns.reduce((sum, turn) => sum + sizeOf(turn), 0)
  const source = size > PIECE ? await written(whole, world.loopTurn) : JSON.stringify(whole)
  const received = { body: source, headers: question.headers }
  const asked = await parseLargeRequest(openaiResponses, received, world.limits, world.loopTurn)
  if (!asked.ok) {
    const { param } = asked.failure
    return bad({ ...asked.failure, ...(param !== undefined && { param: clientPath(param) }) })
  }
  const expanded: InboundRequest = { ...question, ...asked.value, clientPath }
  const sources = [...(previous === null ? [] : [last]), ...[...references.values()].map(({ turn }) => turn)]
  return good(new ConversationTurn(world, expanded, kept, asking, nativeOf(question, last, sources)))
}

/** An item of an earlier turn. */
type Named = { readonly item: JsonObject; readonly turn: StoredResponse }

/** The items that a question references by id instead of repeating them, with the turns that contain them. */
const referredTo = async (
  { stores: { durable, connection }, owner, loopTurn }: TurnDeps,
  items: readonly JsonObject[],
): Promise<Outcome<ReadonlyMap<string, Named>>> => {
  const found = new Map<string, Named>()
  // A turn may be megabytes: it is read once, however many of its items are referenced.
  const known = new Map<string, Named>()
  const wanted = new Set(items.filter(isReference).map((reference) => text(reference.id) ?? ''))
  let size = 0
  for (const id of [...wanted].slice(0, MOST_NAMED)) {
    if (!known.has(id) && size <= MOST_SAID) {
      const own = connection?.holding(id, owner)
      const holding = own || !durable ? good(own) : await durable.holding(id, owner)
      if (!holding.ok) return holding
      const turn = holding.value
      if (turn) {
        size += sizeOf(turn)
        for (const item of await itemsIn(turn, loopTurn)) known.set(text(item.id) ?? '', { item: unnamed(item), turn })
      }
    }
    const one = known.get(id)
    if (one) found.set(id, one)
  }
  return good(found)
}

/** Characters of what is named, as often as it is: a few letters may name megabytes, and again and again. */
const sizeOfNamed = (items: readonly JsonObject[], references: ReadonlyMap<string, Named>): number => {
  const sizes = new Map([...references].map(([id, { item }]) => [id, sizeUpTo(item, MOST_SAID)]))
  return items.reduce((sum, { id }) => sum + (sizes.get(text(id) ?? '') ?? 0), 0)
}

const isReference = ({ type, role, id }: JsonObject): boolean =>
  type === 'item_reference' || (type === undefined && role === undefined && id !== undefined)

/**
 * The question as it came, continued from the record of whoever has everything it names; null: nobody has, or not one
 * alone.
 */
const nativeOf = (
  question: InboundRequest,
  last: StoredResponse | undefined,
  sources: readonly (StoredResponse | undefined)[],
): { readonly maker: Maker; readonly question: InboundRequest } | null => {
  const maker = sources[0]?.maker
  if (!maker || !sources.every((one) => one?.maker?.instance === maker.instance && one.maker.key === maker.key))
    return null
  if (!last?.maker) return { maker, question }
  const body = { ...question.body, previous_response_id: last.maker.id }
  const source = rewrite(question.source, question.members, question.body, body)
  const found = survey(source, DEEPEST)
  return found.ok ? { maker, question: { ...question, body, source, members: found.members } } : null
}

const notDone = (id: string): Failure =>
  fail('unknown_previous', `The response ${JSON.stringify(id)} is still being answered. Wait until it is done.`, {
    param: 'previous_response_id',
  })

type Conversation = {
  /** Oldest first. */
  readonly turns: readonly StoredResponse[]
  /** The id that the oldest turn continues and that is not known here. */
  readonly root: string | null
  /** Only the end of it was read. */
  readonly tooLong: boolean
}

const NO_TURNS: Conversation = { turns: [], root: null, tooLong: false }

/** Reads the turn with this id, and as many of those before it as one read returns, newest first. */
type FindTurns = (id: string) => Promise<Outcome<readonly StoredResponse[]>>

/** Looks in the connection's memory, then in the durable store. */
const finder =
  ({ stores: { durable, connection }, owner }: TurnDeps): FindTurns =>
  async (id) => {
    const own = connection?.get(id, owner)
    if (own) return good([own])
    return durable ? durable.turns(id, owner) : good([])
  }

/** The turns up to and including this one. */
export const conversation = async (find: FindTurns, id: string): Promise<Outcome<Conversation>> => {
  const turns: StoredResponse[] = []
  let next: string | null = id
  let size = 0
  while (next !== null) {
    const found = await find(next)
    if (!found.ok) return found
    if (found.value.length === 0) break
    for (const turn of found.value) {
      size += sizeOf(turn)
      if (size > MOST_SAID || turns.length === MOST_TURNS)
        return good({ turns: turns.reverse(), root: turn.id, tooLong: true })
      turns.push(turn)
      next = turn.previous
    }
  }
  return good({ turns: turns.reverse(), root: next, tooLong: false })
}

const sizeOf = ({ input, response }: StoredResponse): number => input.length + response.length

const tooMuch = (param: string): Failure =>
  fail(
    'invalid_request',
    'What this continues or names is too long: no provider takes so much. Begin a new conversation with a summary of it.',
    { param },
  )

const unknownPrevious = (id: string): Failure =>
  fail(
    'unknown_previous',
    `Previous response with id ${JSON.stringify(id.slice(0, 100))} not found: it was never stored, has expired, or is another client's. Send the whole conversation as input instead.`,
    { param: 'previous_response_id' },
  )

// ── Items ────────────────────────────────────────────────────────────────────────────────────────────────────────

const isString = (value: unknown): boolean => typeof value === 'string'

const itemsOf = (input: Json | undefined): readonly JsonObject[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
    : list(input).filter(isObject)

/** Input items as they can be listed: each with an id, messages with their type and state. */
const withIds = (items: readonly JsonObject[], letters: TurnDeps['letters']): readonly JsonObject[] =>
  items.map((item) => {
    const type = text(item.type) ?? (item.role === undefined ? 'item_reference' : 'message')
    return {
      ...item,
      type,
      id: text(item.id) ?? `${PREFIXES.get(type) ?? 'item'}_${letters(24)}`,
      ...(type === 'message' && {
        status: text(item.status) ?? 'completed',
        ...(isString(item.content) && {
          content: [{ type: item.role === 'assistant' ? 'output_text' : 'input_text', text: item.content }],
        }),
      }),
    }
  })

const PREFIXES: ReadonlyMap<string, string> = new Map([
  ['message', 'msg'],
  ['function_call', 'fc'],
  ['function_call_output', 'fco'],
  ['custom_tool_call', 'ctc'],
  ['custom_tool_call_output', 'cto'],
  ['reasoning', 'rs'],
  ['compaction', 'cmp'],
])

/** What was asked and answered in a turn. */
const itemsIn = async (turn: StoredResponse, loopTurn: LoopTurn): Promise<readonly JsonObject[]> => {
  const input = await read(turn.input, loopTurn)
  const response = await read(turn.response, loopTurn)
  return [...list(input), ...list(object(response)?.output)].filter(isObject)
}

/** Ids mean nothing to whoever answers next; a thought without its seal is only what it says. */
const unnamed = (item: JsonObject): JsonObject => {
  switch (item.type) {
    case 'message':
    case 'function_call':
    case 'function_call_output':
    case 'custom_tool_call':
    case 'custom_tool_call_output': {
      const { id: _id, status: _status, ...rest } = item
      return rest
    }
    case 'reasoning': {
      const { status: _status, ...rest } = item
      return text(item.encrypted_content) ? rest : { ...rest, id: `rs_hg_${text(item.id) ?? ''}` }
    }
    default:
      return item
  }
}

/** A result of a call nobody made: it would be refused upstream, by each in its own words. */
const orphanOf = (before: readonly JsonObject[], news: readonly JsonObject[]): Failure | null => {
  const called = new Set([...before, ...news].filter(isCall).map(({ call_id }) => call_id))
  const at = news.findIndex((item) => isResult(item) && !called.has(item.call_id))
  return at === -1
    ? null
    : fail(
        'invalid_request',
        `No tool call found for the call_id ${JSON.stringify(news[at]?.call_id ?? null)} of this output. Send the call_id of a call the model made.`,
        { param: `input[${at}].call_id` },
      )
}

const isCall = ({ type }: JsonObject): boolean => type === 'function_call' || type === 'custom_tool_call'
const isResult = ({ type }: JsonObject): boolean =>
  type === 'function_call_output' || type === 'custom_tool_call_output'

/** A path in the whole conversation as the client would write it: of this turn's own input, or of what it continues. */
const pathIn =
  (before: number, wasText: boolean) =>
  (path: string): string => {
    const [, index, rest] = /^input\[(\d+)\](.*)$/s.exec(path) ?? []
    if (index === undefined) return path
    if (Number(index) < before) return 'previous_response_id'
    return wasText ? 'input' : `input[${Number(index) - before}]${rest}`
  }
