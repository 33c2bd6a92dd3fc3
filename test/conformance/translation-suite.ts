/**
 * Translates answers of every upstream format to every client format, whole and streamed, and checks the result: valid by
 * the published schemas, in an order that the official SDKs accept, and with the same content. Answers arrive in uneven
 * pieces. `upstream-view.ts` and `answer-oracle.ts` read the content on both sides without the codecs. The suite runs on
 * the project's own exchanges (`exchanges.test.ts`) and on recordings (`answers-*.test.ts`, which run in parallel).
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { findProvider, loadProviders } from '../../src/config/catalogue/load-providers.ts'
import {
  type AnswerBlock,
  type ChatAnswer,
  type ChatEvent,
  type ChatRequest,
  type ClientProtocolName,
  fold,
  type UpstreamProtocolName,
} from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { AnswerContext, ClientProtocol, Protocol, StreamStep, UpstreamProtocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { errorResponse } from '../../src/gateway/call/error-response.ts'
import { readerFor } from '../../src/gateway/upstream/body-reader.ts'
import { finalError } from '../../src/policy/reply/final-error.ts'
import { protocols, sharedProtocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { asRecordings, type Exchange, exchanges } from '../support/exchanges.ts'
import { messagesOf, type Recording, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { hasSchema, problemsIfPresent as problemsOf } from '../support/schemas.ts'
import { answerReaders, finishKindOf, finishReasonFor, LEGACY_CALL_ID, type ObservedAnswer } from './answer-oracle.ts'
import { ANSWER_SCHEMAS, eventProblem, geminiUsage, messagesUsage, parseSse } from './client-view.ts'
import { type Classification, type IndexedRecording, indexRecordings } from './recording-index.ts'
import { Tally } from './tally.ts'
import { upstreamReaders } from './upstream-view.ts'

const providers = await loadProviders()

// ── Decoding a recording ─────────────────────────────────────────────────────────────────────────────────────────

const encoder = new TextEncoder()

/** The body of an answer as it arrives. */
export const bytesOf = (recording: Recording): Uint8Array => {
  const { chunks, response } = recording
  if (chunks) return Buffer.concat(messagesOf(recording))
  return encoder.encode(typeof response === 'string' ? response : JSON.stringify(response))
}

/** Pieces of 1 to 97 bytes, the same in every run; they split lines, words and characters. */
function* unevenPieces(bytes: Uint8Array): Generator<Uint8Array> {
  let state = bytes.length + 1
  for (let at = 0; at < bytes.length; ) {
    state = (state * 48_271) % 2_147_483_647
    const size = 1 + (state % 97)
    yield bytes.subarray(at, at + size)
    at += size
  }
}

/** Pieces of one byte. */
export function* byteByByte(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at++) yield bytes.subarray(at, at + 1)
}

/** The content type of streams by their framing. */
const CONTENT_TYPES: { readonly [framing: string]: string } = {
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson',
  'aws-eventstream': 'application/vnd.amazon.eventstream',
}

/** Decodes an answer from these pieces, as the gateway does. */
export const decodeSteps = (
  recording: Recording,
  protocol: UpstreamProtocol,
  pieces: Iterable<Uint8Array>,
): StreamStep[] => {
  const { chunks, framing, status, response_headers: headers, provider } = recording
  const type = headers?.['content-type'] ?? (chunks ? (CONTENT_TYPES[framing ?? 'sse'] ?? '') : 'application/json')
  const reader = readerFor(
    { status: status ?? 200, headers: (name) => (name === 'content-type' ? type : headers?.[name]) },
    { protocol, quirks: findProvider(providers, provider)?.quirks, translated: null, stream: chunks !== null, date: 0 },
  )
  return run(reader, pieces)
}

/** The events of all steps. */
export const eventsOf = (steps: readonly StreamStep[]): ChatEvent[] => steps.flatMap(({ events }) => events)

type DecodedRecording = {
  readonly recording: Recording
  readonly classification: Classification
  readonly protocol: UpstreamProtocol
  readonly steps: readonly StreamStep[]
  readonly events: readonly ChatEvent[]
  readonly whole: string | null
  readonly answer: ChatAnswer
}

const decodeRecording = (
  recording: Recording,
  classification: Classification,
  protocol: UpstreamProtocol,
): DecodedRecording => {
  const steps = decodeSteps(recording, protocol, unevenPieces(bytesOf(recording)))
  const events = eventsOf(steps)
  return { recording, classification, protocol, steps, events, whole: steps[0]?.whole ?? null, answer: fold(events) }
}

// ── The upstream's answer ────────────────────────────────────────────────────────────────────────────────────────

/** The payload of each message of a stream. */
export const payloadsOf = ({ chunks, framing }: Recording): readonly JsonObject[] =>
  framing === 'sse' ? parseSse((chunks ?? []).join('\n\n')).events : (chunks ?? []).map((chunk) => JSON.parse(chunk))

const upstreamAnswer = ({ recording, protocol }: DecodedRecording): ObservedAnswer => {
  const { readWhole, readStream } = upstreamReaders[protocol.name]
  return recording.chunks ? readStream(payloadsOf(recording)) : readWhole(recording.response)
}

// ── The request ──────────────────────────────────────────────────────────────────────────────────────────────────

const MINIMAL_REQUESTS: { readonly [name in ClientProtocolName]: JsonObject } = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  'openai-responses': { model: 'm', input: 'hi' },
  'anthropic-messages': { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] },
  'openai-completions': { model: 'm', prompt: 'hi' },
  gemini: {
    model: 'm',
    contents: [{ role: 'user', parts: [{ text: 'hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } },
  },
}

const shared: { readonly [name: string]: Protocol | undefined } = sharedProtocols

const decoded = (protocol: ClientProtocol, body: JsonObject): ChatRequest => {
  const request = protocol.decodeRequest(body)
  if (request.ok) return request.value
  const minimal = protocol.decodeRequest(MINIMAL_REQUESTS[protocol.name])
  assert.ok(minimal.ok)
  return minimal.value
}

/** The request in the client's format: the recorded one, translated where necessary, or a minimal one if it cannot be. */
const requestFor = (from: UpstreamProtocol, style: ClientProtocol, recorded: Json): JsonObject => {
  const own = shared[from.name]
  const to = shared[style.name]
  if (!own || !to) return MINIMAL_REQUESTS[style.name]
  const body: JsonObject = { ...MINIMAL_REQUESTS[own.name], ...object(recorded) }
  if (own === to) return body
  const request = decoded(own, body)
  return to.encodeRequest(request, { model: request.model }).body
}

const contextFor = (from: UpstreamProtocol, style: ClientProtocol, recorded: Json): AnswerContext => {
  const body = requestFor(from, style, recorded)
  const request = decoded(style, body)
  const streamUsage = { value: true, at: 'stream_options' }
  let made = 0
  return {
    request: { ...request, settings: { ...request.settings, streamUsage } },
    body,
    id: (prefix) => `${prefix}_made${String.fromCharCode(97 + (made++ % 26)).repeat(1 + made / 26)}`,
    created: 1_700_000_000,
    model: request.model,
    requestId: 'req_abcdef',
  }
}

// ── The expected translation ─────────────────────────────────────────────────────────────────────────────────────

const IDS: { readonly [name in ClientProtocolName]: RegExp } = {
  'openai-chat': /^.+$/s,
  'openai-responses': /^.{1,64}$/s,
  'anthropic-messages': /^[a-zA-Z0-9_-]+$/,
  'openai-completions': /^$/,
  gemini: /^.+$/s,
}

/** The text of a refusal without an explanation, where the client's format has a member for it. */
const REFUSED = 'The model refused to answer.'

/** The images in format-specific blocks, as base64: other formats carry these. */
const imagesIn = (value: Json | undefined): string[] => {
  if (isList(value)) return value.flatMap(imagesIn)
  if (!isObject(value)) return []
  const { type, result, url, mimeType, data } = value
  if (type === 'image_generation_call') return typeof result === 'string' ? [result] : []
  if (typeof mimeType === 'string') return /^image\//.test(mimeType) && typeof data === 'string' ? [data] : []
  const inline = typeof url === 'string' ? /^data:image\/[^,]*,(.*)$/s.exec(url)?.[1] : undefined
  return inline === undefined ? Object.values(value).flatMap(imagesIn) : [inline]
}

/** The transcript of audio, which is text in every other format. */
const audioTranscript = ({ foreign }: ObservedAnswer, from: UpstreamProtocolName, to: ClientProtocolName): string =>
  from === to ? '' : foreign.map((one) => text(object(object(one)?.audio)?.transcript) ?? '').join('')

/** The answer as the client's format can express it. All permitted changes of a translation are here. */
const expectedFor = (answer: ObservedAnswer, from: UpstreamProtocolName, to: ClientProtocolName): ObservedAnswer => {
  const end = finishKindOf(answer)
  const toMessages = to === 'anthropic-messages'
  const isTextOnly = toMessages || to === 'gemini'
  const refusal = answer.refusal || (end === 'refusal' ? REFUSED : '')
  const isLegacy = answer.calls.some(({ id }) => id === LEGACY_CALL_ID)
  const calls = answer.calls.length === 0 ? 'none' : isLegacy && to === 'openai-chat' ? 'functions' : 'tools'
  const { usage } = answer
  const keepsOwn = toMessages || (to === 'gemini' && end === 'content-filter')
  const keepsReason = from === to && keepsOwn && answer.calls.length === 0 && answer.refusal === ''
  const finishReason =
    keepsReason && answer.finishReason !== ''
      ? answer.finishReason
      : finishReasonFor[to](end, answer.refusal !== '', calls)
  // The older completions have only text, a finish reason and usage.
  if (to === 'openai-completions') {
    const empty = { refusal: '', reasoning: '', calls: [], citedUrls: [], foreign: [] }
    return { ...empty, text: answer.text + answer.refusal + audioTranscript(answer, from, to), finishReason, usage }
  }
  return {
    ...answer,
    // Two formats have no refusal text: it becomes text, and the finish reason states it.
    text: (isTextOnly ? answer.text + answer.refusal : answer.text) + audioTranscript(answer, from, to),
    refusal: isTextOnly ? '' : refusal,
    // In both the input of a call is an object; free text and invalid JSON are wrapped.
    calls: answer.calls.map((call) =>
      isTextOnly && !isObject(call.input) ? { ...call, input: { [to]: call.input } } : call,
    ),
    finishReason,
    foreign: from === to ? answer.foreign : toMessages ? [] : imagesIn(answer.foreign),
    usage: toMessages ? messagesUsage(usage) : to === 'gemini' ? geminiUsage(usage) : usage,
  }
}

const assertSameAnswer = (
  actual: ObservedAnswer,
  upstream: ObservedAnswer,
  from: UpstreamProtocolName,
  to: ClientProtocolName,
): void => {
  const expected = expectedFor(upstream, from, to)
  // A valid id is kept; an invalid one is replaced by a unique id.
  const ids = actual.calls.map(({ id }) => id)
  assert.equal(new Set(ids).size, ids.length, `two calls with one id: ${ids}`)
  const calls = expected.calls.map((call, at) => {
    const id = actual.calls[at]?.id ?? ''
    assert.match(id, IDS[to])
    const input = actual.calls[at]?.input
    // The name of the wrapping member is not checked, but its value is.
    const wrapped =
      isObject(call.input) &&
      Object.hasOwn(call.input, to) &&
      isObject(input) &&
      Object.values(input).includes(call.input[to])
    const stays = IDS[to].test(call.id) && (call.id !== LEGACY_CALL_ID || from === to)
    return { ...call, id: stays ? call.id : id, input: wrapped ? (input as Json) : call.input }
  })
  const foreign = from === to ? actual.foreign : imagesIn(actual.foreign)
  assert.deepEqual({ ...actual, foreign }, { ...expected, calls })
}

// ── Unpublished members ──────────────────────────────────────────────────────────────────────────────────────────

const UNPUBLISHED_NOTE = 'has an item or a tool that no published schema has; validated without it'
const FREE_TEXT_NOTE = 'has a custom tool call, which no published chunk has; validated without it'

const isNewItem = (item: Json): boolean => problemsOf('openai:wire', 'OutputItem', item) !== undefined
const isNewTool = (tool: Json): boolean => problemsOf('openai:wire', 'Tool', tool) !== undefined
const isNewBlock = (block: Json): boolean => problemsOf('anthropic:wire', 'BetaContentBlock', block) !== undefined
const isCustomCall = (call: Json): boolean => object(call)?.custom !== undefined

const without = (value: Json | undefined, isNew: (one: Json) => boolean): Json[] =>
  list(value).filter((one) => !isNew(one))

/** A body or an event without the parts that its schema does not have. Null: no part is left to validate. */
const withoutUnpublished = (
  style: ClientProtocolName,
  body: JsonObject,
  upstream: ObservedAnswer,
): JsonObject | null => {
  if (style === 'openai-responses') {
    const response = object(body.response)
    if (response) return { ...body, response: withoutUnpublished(style, response, upstream) }
    if (body.output) return { ...body, output: without(body.output, isNewItem), tools: without(body.tools, isNewTool) }
    const isOfNew = upstream.foreign.some((item) => text(body.type)?.includes(text(object(item)?.type) ?? '?'))
    return isOfNew || (body.item && isNewItem(body.item)) ? null : body
  }
  if (style === 'anthropic-messages') {
    if (body.content) return { ...body, content: without(body.content, isNewBlock) }
    return body.content_block && isNewBlock(body.content_block) ? null : body
  }
  const choices = list(body.choices).map((choice) => {
    const delta = object(object(choice)?.delta)
    return delta
      ? { ...object(choice), delta: { ...delta, tool_calls: without(delta.tool_calls, isCustomCall) } }
      : choice
  })
  return { ...body, choices }
}

const isCustom = (block: AnswerBlock): boolean => block.type === 'tool-call' && block.custom === true

// ── Translation ──────────────────────────────────────────────────────────────────────────────────────────────────

type Mode = 'whole' | 'streamed' | 'passed through'

/** Undefined also where the published schemas are not present. */
const eventProblemIfPresent: typeof eventProblem = (style, event) =>
  hasSchema('openai:wire') ? eventProblem(style, event) : undefined

const checkTranslation = (
  style: ClientProtocol,
  item: DecodedRecording,
  mode: Mode,
  note: (why: string) => void,
): undefined => {
  const { protocol, answer, recording } = item
  const context = contextFor(protocol, style, recording.request)
  const upstream = upstreamAnswer(item)
  const reader = answerReaders[style.name]
  const validate = (body: JsonObject, problemIn: (body: JsonObject) => string | undefined): void => {
    const problem = problemIn(body)
    if (problem === undefined) return
    const isFreeText = style.name === 'openai-chat' && mode === 'streamed' && answer.blocks.some(isCustom)
    assert.ok(isFreeText || style.name === protocol.name, problem)
    const rest = withoutUnpublished(style.name, body, upstream)
    if (rest) assert.equal(problemIn(rest), undefined)
    note(isFreeText ? FREE_TEXT_NOTE : UNPUBLISHED_NOTE)
  }
  if (mode === 'whole') {
    const body = style.encodeAnswer(answer, context)
    assertSameAnswer(reader.read(body), upstream, protocol.name, style.name)
    const [schema, definition] = ANSWER_SCHEMAS[style.name]
    validate(body, (one) => problemsOf(schema, definition, one))
    return
  }
  if (mode === 'passed through') return checkPassThrough(style, item, context, upstream)
  const wire = run(
    style.encodeStream(context),
    item.steps.map(({ events }) => ({ events })),
  )
  const { events, names } = parseSse(wire.join(''))
  reader.assertOrder(events, names)
  const streamed = reader.read(reader.assemble(events))
  assertSameAnswer(streamed, upstream, protocol.name, style.name)
  // The whole answer has the same content as the stream.
  assert.deepEqual(streamed, reader.read(style.encodeAnswer(answer, contextFor(protocol, style, recording.request))))
  for (const event of events) validate(event, (one) => eventProblemIfPresent(style.name, one))
}

/** Client and upstream use the same format: a whole body passes unchanged, a stream with the same content. */
const checkPassThrough = (
  style: ClientProtocol,
  item: DecodedRecording,
  context: AnswerContext,
  upstream: ObservedAnswer,
): undefined => {
  const reader = answerReaders[style.name]
  if (item.whole !== null) {
    assert.equal(item.whole, new TextDecoder().decode(bytesOf(item.recording)))
    return
  }
  assert.ok(style.passing)
  const { events, names } = parseSse(run(style.passing.passStream(context), item.steps).join(''))
  assert.deepEqual({ ...reader.read(reader.assemble(events)), usage: null }, { ...upstream, usage: null })
  if (style.name === 'gemini') assert.deepEqual(events, item.recording.chunks ? payloadsOf(item.recording) : [])
  else assert.equal(names.at(-1), style.name === 'anthropic-messages' ? 'message_stop' : '[DONE]')
}

// ── Decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The payload of each message of a stream, or the body. */
const payloadsOrBody = ({ recording }: DecodedRecording): readonly JsonObject[] => {
  const { chunks, response } = recording
  return chunks ? payloadsOf(recording) : list(Array.isArray(response) ? response : [response]).filter(isObject)
}

/** The first id or model that the answer has. */
const firstIdentity = (item: DecodedRecording, name: 'id' | 'model'): string | undefined =>
  payloadsOrBody(item)
    .map((payload) => text(upstreamReaders[item.protocol.name].identity(payload)[name]))
    .find((value) => value)

/** Blocks do not interleave, there is one end, and the finish reason, id, model and format-specific blocks are kept. */
const checkOrder = (item: DecodedRecording): undefined => {
  const { events, answer, protocol } = item
  let open = false
  for (const [at, { type }] of events.entries()) {
    if (type === 'open') assert.ok(!open, `open at ${at}`)
    if (['close', 'delta', 'citation', 'signature'].includes(type)) assert.ok(open, `${type} at ${at}`)
    if (type === 'finish') assert.ok(!open, 'an end inside a block')
    if (type === 'open' || type === 'close') open = type === 'open'
  }
  assert.equal(events.filter(({ type }) => type === 'finish').length, 1)
  const upstream = upstreamAnswer(item)
  const foreign = answer.blocks.filter(({ type }) => type === 'foreign')
  assert.equal(foreign.length, upstream.foreign.length)
  // Responses have two members for the finish reason.
  if (protocol.name !== 'openai-responses') assert.equal(answer.finish?.raw ?? '', upstream.finishReason)
  assert.deepEqual(
    [answer.id || undefined, answer.model || undefined],
    [firstIdentity(item, 'id'), firstIdentity(item, 'model')],
  )
}

/** The whole body and single bytes give the same events. */
const checkCuts = ({ recording, protocol, events }: DecodedRecording): undefined => {
  const bytes = bytesOf(recording)
  assert.deepEqual(eventsOf(decodeSteps(recording, protocol, [bytes])), events)
  assert.deepEqual(eventsOf(decodeSteps(recording, protocol, byteByByte(bytes))), events)
}

/** The number of positions where a stream is truncated; the last is right before its final message. */
const BREAKS = 8

/** A stream truncated before its final message is never complete. */
const checkTruncation = ({ recording, protocol }: DecodedRecording): undefined => {
  const messages = messagesOf(recording)
  const { isFinal } = upstreamReaders[protocol.name]
  const isFinalChunk = (chunk: string) => payloadsOf({ ...recording, chunks: [chunk] }).some(isFinal)
  const chunks = recording.chunks ?? []
  const final = chunks.findIndex(isFinalChunk)
  // Two chat completions servers send no finish reason: there the stream ends with [DONE].
  const last = final === -1 ? chunks.indexOf('data: [DONE]') : final
  assert.ok(last >= 0, 'the stream has no end')
  for (let time = 0; time < Math.min(BREAKS, last); time++) {
    const cut = last - Math.floor((time * last) / BREAKS)
    const answer = fold(eventsOf(decodeSteps(recording, protocol, messages.slice(0, cut))))
    assert.equal(answer.failure?.kind, 'truncated', `cut after ${cut} of ${messages.length}`)
    assert.equal(answer.finish, undefined)
  }
}

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The client's status for an upstream's status, by contract. An unknown model is always 404. */
const clientStatus = (status: number, kind: string): number => {
  if (kind === 'model_missing') return 404
  if (kind === 'auth' || kind === 'permission' || status >= 500) return 502
  // Groq responds with 400 if the model wrote a malformed call: a failure of the model, not of the request.
  if (kind === 'malformed') return 502
  return status
}

const assertValidError = (style: ClientProtocol, body: JsonObject): void => {
  if (style.name === 'gemini') {
    const { code, status, message } = object(body.error) ?? {}
    assert.ok(typeof code === 'number' && typeof message === 'string' && /^[A-Z_]+$/.test(text(status) ?? ''))
    return
  }
  const schema = style.name === 'anthropic-messages' ? 'anthropic:wire' : 'openai:wire'
  assert.equal(problemsOf(schema, 'ErrorResponse', body), undefined)
}

/** The message of an upstream's error, in any format. */
const upstreamMessage = (response: Json): string | undefined => {
  const error = object(object(response)?.error)
  // OpenRouter's own message is generic; the provider's message is in its metadata.
  return text(object(error?.metadata)?.raw) ?? text(error?.message) ?? text(object(response)?.message)
}

const checkError = (
  style: ClientProtocol,
  { recording, classification, protocol, events, answer }: DecodedRecording,
): undefined => {
  const { failure } = answer
  assert.ok(failure, 'no failure')
  const kind = classification.is === 'failure' ? classification.kind : undefined
  if (kind !== undefined) assert.equal(failure.kind, kind)
  assert.equal(events.at(-1)?.type, 'failure')

  // No other target: one error in the client's format.
  const response = errorResponse(style, finalError([failure], []), { requestId: 'req_abcdef', availableIn: null })
  const body: JsonObject = JSON.parse(response.body)
  assertValidError(style, body)
  if (kind === undefined) assert.equal(response.status, clientStatus(recording.status ?? 0, failure.kind), failure.kind)
  const message = upstreamMessage(recording.response)
  if (response.status < 500 && message !== undefined)
    assert.ok(text(object(body.error)?.message)?.includes(message.slice(0, 40)), 'the message is lost')

  // A failure mid-stream is an error event, and the stream never looks complete.
  const context = contextFor(protocol, style, recording.request)
  const begun: StreamStep = {
    events: [{ type: 'start' }, { type: 'open', block: { type: 'text' } }, { type: 'delta', text: 'so far' }],
  }
  const wire = run(style.encodeStream(context), [begun, { events: [{ type: 'failure', failure }] }]).join('')
  const frames = parseSse(wire)
  const last = frames.events.at(-1) ?? {}
  switch (style.name) {
    case 'openai-chat':
    case 'openai-completions':
      assert.ok(!frames.names.includes('[DONE]'))
      assertValidError(style, last)
      assert.equal(object(last.error)?.code, 'stream_interrupted')
      return
    case 'openai-responses':
      assert.deepEqual(frames.names.slice(-3), ['error', 'response.failed', '[DONE]'])
      assert.equal(eventProblemIfPresent(style.name, frames.events.at(-2) ?? {}), undefined)
      assert.equal(object(last.response)?.status, 'failed')
      return
    case 'gemini':
      assertValidError(style, last)
      return
    case 'anthropic-messages':
      assert.equal(frames.names.at(-1), 'error')
      assert.ok(!frames.names.includes('message_stop'))
      // The event is an error body; its request id is optional in a stream.
      assertValidError(style, { request_id: null, ...last })
      return
    default:
      throw new Error(`unknown style ${style.name satisfies never}`)
  }
}

// ── The suite ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Answers to translate, and the tables that get the counts. */
export type Evidence = {
  readonly title: string
  readonly skip: string | false
  readonly index: () => readonly IndexedRecording[]
  readonly tables: { readonly answers: string; readonly streams: string }
}

/** The recordings, where they are present. */
export const RECORDINGS: Evidence = {
  title: 'recordings',
  skip: skipWithoutRecordings,
  index: indexRecordings,
  tables: { answers: 'answers', streams: 'streams' },
}

const classifyExchange = (
  { protocol: name, reading: { failure } }: Exchange,
  { status }: Recording,
): Classification => {
  const protocol = upstreamProtocols[name]
  if (!failure) return { is: 'answer', protocol }
  // The status of an error that arrives in a stream is 200, so the client's status follows from the kind.
  return { is: 'failure', protocol, ...(status === 200 && { kind: failure.kind }) }
}

/** The project's own exchanges, which every clone has. */
export const EXCHANGES: Evidence = {
  title: 'own exchanges',
  skip: false,
  index: () =>
    exchanges().flatMap((exchange) =>
      asRecordings(exchange).map((recording) => ({ recording, classification: classifyExchange(exchange, recording) })),
    ),
  tables: { answers: 'own answers', streams: 'own streams' },
}

/** One row of a table: a check of each item, as one test. */
type RowTest = {
  readonly title: string
  readonly tally: Tally
  readonly row: string
  readonly items: readonly DecodedRecording[]
  readonly check: (item: DecodedRecording, note: (why: string) => void) => undefined
}

const testRow = ({ title, tally, row, items, check }: RowTest): void => {
  test(title, () => {
    const wrong = tally.checkEach(
      row,
      items,
      ({ recording }) => recording.id,
      (item) => {
        const notes = new Set<string>()
        check(item, (why) => notes.add(why))
        for (const why of notes) tally.note(row, why)
        return undefined
      },
    )
    assert.equal(wrong.length, 0, wrong.join('\n'))
  })
}

const testDecoding = (upstream: string, answers: readonly DecodedRecording[], tally: Tally): void => {
  const streams = answers.filter(({ recording }) => recording.chunks)
  testRow({
    title: `${upstream}: answers decode without a failure, in order`,
    tally,
    row: `${upstream} event order`,
    items: answers,
    check: (item) => {
      assert.equal(item.answer.failure, undefined, JSON.stringify(item.answer.failure))
      return checkOrder(item)
    },
  })
  testRow({
    title: `${upstream}: chunk boundaries change no event`,
    tally,
    row: `${upstream} chunk boundaries`,
    items: streams,
    check: checkCuts,
  })
  testRow({
    title: `${upstream}: truncated streams are not complete`,
    tally,
    row: `${upstream} truncated`,
    items: streams,
    check: checkTruncation,
  })
}

/** Translates all answers of these formats to every client format. */
export const testTranslations = (evidence: Evidence, ...names: readonly UpstreamProtocolName[]): void => {
  const answered = new Tally(evidence.tables.answers)
  const streams = new Tally(evidence.tables.streams)
  if (evidence === RECORDINGS) requireRecordings()
  for (const name of names)
    describe(`${evidence.title} of ${name}`, { skip: evidence.skip }, () => {
      const protocol = upstreamProtocols[name]
      const all = evidence
        .index()
        .flatMap(({ recording, classification }) =>
          (classification.is === 'answer' || classification.is === 'failure') && classification.protocol === protocol
            ? [decodeRecording(recording, classification, protocol)]
            : [],
        )
      const answers = all.filter(({ classification }) => classification.is === 'answer')
      const failures = all.filter(({ classification }) => classification.is === 'failure')
      const upstream = protocol.style
      testDecoding(upstream, answers, streams)
      for (const client of Object.values(protocols)) {
        const modes: readonly Mode[] =
          client.name === name ? ['whole', 'streamed', 'passed through'] : ['whole', 'streamed']
        for (const mode of modes)
          testRow({
            title: `${upstream} to a ${client.style} client, ${mode}`,
            tally: answered,
            row: `${upstream} → ${client.style} ${mode}`,
            items: answers,
            check: (item, note) => checkTranslation(client, item, mode, note),
          })
        if (failures.length > 0)
          testRow({
            title: `${upstream} errors to a ${client.style} client`,
            tally: answered,
            row: `${upstream} → ${client.style} errors`,
            items: failures,
            check: (item) => checkError(client, item),
          })
      }
    })
  after(() => {
    answered.print()
    streams.print()
  })
}
