/**
 * Translates answers of every format to clients of every style, whole and streamed: decoded as the gateway decodes them
 * (bytes cut at odd places), valid by the published schemas, in an order the official SDKs accept, and with the same
 * content. `heard.ts` and `said.ts` read that content on both sides without a codec. It runs on the project's own
 * exchanges (`exchanges.test.ts`) and on recordings, the latter in a file for each few formats so that they run in parallel.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
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
import { findProvider, loadProviders } from '../../src/edge/catalogue/load-providers.ts'
import { errorResponse } from '../../src/gateway/call/error-response.ts'
import { readerFor } from '../../src/gateway/upstream/answer-reader.ts'
import { finalError } from '../../src/policy/reply/final-error.ts'
import { protocols, sharedProtocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { asRecordings, type Exchange, exchanges } from '../support/exchanges.ts'
import { messagesOf, type Recording, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { hasSchema, problemsIfPresent as problemsOf } from '../support/schemas.ts'
import { endOf, OLD_CALL, reading, reasonIn, type Said } from './answer-oracle.ts'
import { framesOf, inMessages, problemOfEvent, WHOLE } from './client-view.ts'
import { type Place, type Placed, places } from './recording-index.ts'
import { Tally } from './tally.ts'
import { hearing } from './upstream-view.ts'

const providers = await loadProviders()

// ── A recording as the gateway reads it ──────────────────────────────────────────────────────────────────────────

const encoder = new TextEncoder()

/** The body of an answer as it arrives. */
export const bytesOf = (recording: Recording): Uint8Array => {
  const { chunks, response } = recording
  if (chunks) return Buffer.concat(messagesOf(recording))
  return encoder.encode(typeof response === 'string' ? response : JSON.stringify(response))
}

/** Odd places, the same in every run: pieces of 1 to 97 bytes, in the middle of lines, of words and of letters. */
function* oddly(bytes: Uint8Array): Generator<Uint8Array> {
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

/** The media types of streams, by how their messages are told apart. */
const STREAMS: { readonly [framing: string]: string } = {
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson',
  'aws-eventstream': 'application/vnd.amazon.eventstream',
}

/** Decodes an answer that arrives in these pieces, as the gateway does. */
export const steps = (recording: Recording, protocol: UpstreamProtocol, pieces: Iterable<Uint8Array>): StreamStep[] => {
  const { chunks, framing, status, response_headers: headers, provider } = recording
  const type = headers?.['content-type'] ?? (chunks ? (STREAMS[framing ?? 'sse'] ?? '') : 'application/json')
  const reader = readerFor(
    { status: status ?? 200, headers: (name) => (name === 'content-type' ? type : headers?.[name]) },
    { protocol, quirks: findProvider(providers, provider)?.quirks, translated: null, stream: chunks !== null, date: 0 },
  )
  return run(reader, pieces)
}

/** The events of all steps. */
export const eventsOf = (passing: readonly StreamStep[]): ChatEvent[] => passing.flatMap(({ events }) => events)

type Read = {
  readonly recording: Recording
  readonly place: Place
  readonly protocol: UpstreamProtocol
  readonly steps: readonly StreamStep[]
  readonly events: readonly ChatEvent[]
  readonly whole: string | null
  readonly answer: ChatAnswer
}

const read = (recording: Recording, place: Place, protocol: UpstreamProtocol): Read => {
  const passing = steps(recording, protocol, oddly(bytesOf(recording)))
  const events = eventsOf(passing)
  return { recording, place, protocol, steps: passing, events, whole: passing[0]?.whole ?? null, answer: fold(events) }
}

// ── What was said upstream ───────────────────────────────────────────────────────────────────────────────────────

/** What each message of a stream holds. */
export const heldIn = ({ chunks, framing }: Recording): readonly JsonObject[] =>
  framing === 'sse' ? framesOf((chunks ?? []).join('\n\n')).events : (chunks ?? []).map((chunk) => JSON.parse(chunk))

const saidUpstream = ({ recording, protocol }: Read): Said => {
  const { whole, streamed } = hearing[protocol.name]
  const said = recording.chunks ? streamed(heldIn(recording)) : whole(recording.response)
  // xAI counts reasoning beside the completion (its file says so); elsewhere it is a part of it.
  if (recording.provider !== 'xai' || protocol.name !== 'openai-chat' || !said.usage) return said
  return { ...said, usage: { ...said.usage, output: said.usage.output + said.usage.reasoning } }
}

// ── The question ─────────────────────────────────────────────────────────────────────────────────────────────────

const MINIMAL: { readonly [name in ClientProtocolName]: JsonObject } = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  'openai-responses': { model: 'm', input: 'hi' },
  'anthropic-messages': { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] },
  'openai-completions': { model: 'm', prompt: 'hi' },
}

const shared: { readonly [name: string]: Protocol | undefined } = sharedProtocols

const decoded = (protocol: ClientProtocol, body: JsonObject): ChatRequest => {
  const request = protocol.decodeRequest(body)
  if (request.ok) return request.value
  const minimal = protocol.decodeRequest(MINIMAL[protocol.name])
  assert.ok(minimal.ok)
  return minimal.value
}

/** The question as a client of that style would have asked it: where it was asked in a format clients speak, that very one. */
const questionFor = (from: UpstreamProtocol, style: ClientProtocol, asked: Json): JsonObject => {
  const own = shared[from.name]
  const to = shared[style.name]
  if (!own || !to) return MINIMAL[style.name]
  const body: JsonObject = { ...MINIMAL[own.name], ...object(asked) }
  if (own === to) return body
  const request = decoded(own, body)
  return to.encodeRequest(request, { model: request.model }).body
}

const contextFor = (from: UpstreamProtocol, style: ClientProtocol, asked: Json): AnswerContext => {
  const body = questionFor(from, style, asked)
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

// ── The same, in another format ──────────────────────────────────────────────────────────────────────────────────

const IDS: { readonly [name in ClientProtocolName]: RegExp } = {
  'openai-chat': /^.+$/s,
  'openai-responses': /^.{1,64}$/s,
  'anthropic-messages': /^[a-zA-Z0-9_-]+$/,
  'openai-completions': /^$/,
}

/** Where a model refused without a word and the client's style has a place for one. */
const REFUSED = 'The model refused to answer.'

/** The pictures in what only one format knows, as their bytes: other styles carry these. */
const picturesIn = (value: Json | undefined): string[] => {
  if (isList(value)) return value.flatMap(picturesIn)
  if (!isObject(value)) return []
  const { type, result, url, mimeType, data } = value
  if (type === 'image_generation_call') return typeof result === 'string' ? [result] : []
  if (typeof mimeType === 'string') return /^image\//.test(mimeType) && typeof data === 'string' ? [data] : []
  const inline = typeof url === 'string' ? /^data:image\/[^,]*,(.*)$/s.exec(url)?.[1] : undefined
  return inline === undefined ? Object.values(value).flatMap(picturesIn) : [inline]
}

/** The transcript of sound, which is text in every other style. */
const spokenIn = ({ foreign }: Said, from: UpstreamProtocolName, to: ClientProtocolName): string =>
  from === to ? '' : foreign.map((one) => text(object(object(one)?.audio)?.transcript) ?? '').join('')

/** As far as the client's style has a place for it; everything a translation may change is here. */
const expected = (said: Said, from: UpstreamProtocolName, to: ClientProtocolName): Said => {
  const end = endOf(said)
  const toMessages = to === 'anthropic-messages'
  const words = said.refusal || (end === 'refusal' ? REFUSED : '')
  const isOld = said.calls.some(({ id }) => id === OLD_CALL)
  const called = said.calls.length === 0 ? 'none' : isOld && to === 'openai-chat' ? 'functions' : 'tools'
  const { usage } = said
  const own = from === to && toMessages && said.calls.length === 0 && said.refusal === ''
  const reason = own && said.reason !== '' ? said.reason : reasonIn[to](end, said.refusal !== '', called)
  // The older completions are text, an end and a count.
  if (to === 'openai-completions') {
    const less = { refusal: '', reasoning: '', calls: [], cited: [], foreign: [] }
    return { ...less, text: said.text + said.refusal + spokenIn(said, from, to), reason, usage }
  }
  return {
    ...said,
    // Messages have no place for words of refusal: they are text, and the end says what they are.
    text: (toMessages ? said.text + said.refusal : said.text) + spokenIn(said, from, to),
    refusal: toMessages ? '' : words,
    // What is no object cannot be the input of a call there: free text, or JSON the model broke.
    calls: said.calls.map((call) =>
      toMessages && !isObject(call.input) ? { ...call, input: { [to]: call.input } } : call,
    ),
    reason,
    foreign: from === to ? said.foreign : toMessages ? [] : picturesIn(said.foreign),
    usage: toMessages ? inMessages(usage) : usage,
  }
}

const same = (actual: Said, upstream: Said, from: UpstreamProtocolName, to: ClientProtocolName): void => {
  const wanted = expected(upstream, from, to)
  // An id that fits stays; another is made, and is no other call's.
  const ids = actual.calls.map(({ id }) => id)
  assert.equal(new Set(ids).size, ids.length, `two calls with one id: ${ids}`)
  const calls = wanted.calls.map((call, at) => {
    const id = actual.calls[at]?.id ?? ''
    assert.match(id, IDS[to])
    const input = actual.calls[at]?.input
    // Under which member free text lies is the codec's own affair; that it is all there is not.
    const wrapped =
      isObject(call.input) &&
      Object.hasOwn(call.input, to) &&
      isObject(input) &&
      Object.values(input).includes(call.input[to])
    const stays = IDS[to].test(call.id) && (call.id !== OLD_CALL || from === to)
    return { ...call, id: stays ? call.id : id, input: wrapped ? (input as Json) : call.input }
  })
  const foreign = from === to ? actual.foreign : picturesIn(actual.foreign)
  assert.deepEqual({ ...actual, foreign }, { ...wanted, calls })
}

// ── What no schema knows ─────────────────────────────────────────────────────────────────────────────────────────

const NEWER = 'holds an item or a tool that is in no published schema: judged without it'
const FREE = 'holds a call with free text, which no published chunk has: judged without it'

const isNewItem = (item: Json): boolean => problemsOf('openai:wire', 'OutputItem', item) !== undefined
const isNewTool = (tool: Json): boolean => problemsOf('openai:wire', 'Tool', tool) !== undefined
const isNewBlock = (block: Json): boolean => problemsOf('anthropic:wire', 'BetaContentBlock', block) !== undefined
const isFree = (call: Json): boolean => object(call)?.custom !== undefined

const without = (value: Json | undefined, isNew: (one: Json) => boolean): Json[] =>
  list(value).filter((one) => !isNew(one))

/** A body or an event of this style without what its schema cannot know; null: nothing of it is left to judge. */
const known = (style: ClientProtocolName, body: JsonObject, upstream: Said): JsonObject | null => {
  if (style === 'openai-responses') {
    const response = object(body.response)
    if (response) return { ...body, response: known(style, response, upstream) }
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
    return delta ? { ...object(choice), delta: { ...delta, tool_calls: without(delta.tool_calls, isFree) } } : choice
  })
  return { ...body, choices }
}

const isCustom = (block: AnswerBlock): boolean => block.type === 'tool-call' && block.custom === true

// ── What comes out ───────────────────────────────────────────────────────────────────────────────────────────────

type Mode = 'whole' | 'streamed' | 'passed'

/** Undefined too where the published schemas are not present. */
const eventProblem: typeof problemOfEvent = (style, event) =>
  hasSchema('openai:wire') ? problemOfEvent(style, event) : undefined

const tell = (style: ClientProtocol, got: Read, mode: Mode, note: (why: string) => void): undefined => {
  const { protocol, answer, recording } = got
  const context = contextFor(protocol, style, recording.request)
  const upstream = saidUpstream(got)
  const own = reading[style.name]
  const judge = (body: JsonObject, problemIn: (body: JsonObject) => string | undefined): void => {
    const problem = problemIn(body)
    if (problem === undefined) return
    const free = style.name === 'openai-chat' && mode === 'streamed' && answer.blocks.some(isCustom)
    assert.ok(free || style.name === protocol.name, problem)
    const rest = known(style.name, body, upstream)
    if (rest) assert.equal(problemIn(rest), undefined)
    note(free ? FREE : NEWER)
  }
  if (mode === 'whole') {
    const body = style.encodeAnswer(answer, context)
    same(own.said(body), upstream, protocol.name, style.name)
    const [schema, definition] = WHOLE[style.name]
    judge(body, (one) => problemsOf(schema, definition, one))
    return
  }
  if (mode === 'passed') return pass(style, got, context, upstream)
  const wire = run(
    style.encodeStream(context),
    got.steps.map(({ events }) => ({ events })),
  )
  const { events, names } = framesOf(wire.join(''))
  own.order(events, names)
  const said = own.said(own.assemble(events))
  same(said, upstream, protocol.name, style.name)
  // Whole and streamed are one answer.
  assert.deepEqual(said, own.said(style.encodeAnswer(answer, contextFor(protocol, style, recording.request))))
  for (const event of events) judge(event, (one) => eventProblem(style.name, one))
}

/** The client speaks the upstream's format: what was said is passed on. */
const pass = (style: ClientProtocol, got: Read, context: AnswerContext, upstream: Said): undefined => {
  const own = reading[style.name]
  if (got.whole !== null) {
    assert.equal(got.whole, new TextDecoder().decode(bytesOf(got.recording)))
    return
  }
  assert.ok(style.passing)
  const { events, names } = framesOf(run(style.passing.passStream(context), got.steps).join(''))
  assert.deepEqual({ ...own.said(own.assemble(events)), usage: null }, { ...upstream, usage: null })
  assert.equal(names.at(-1), style.name === 'anthropic-messages' ? 'message_stop' : '[DONE]')
}

// ── How it is read ───────────────────────────────────────────────────────────────────────────────────────────────

/** What each message of a stream holds, or the body. */
const payloads = ({ recording }: Read): readonly JsonObject[] => {
  const { chunks, response } = recording
  return chunks ? heldIn(recording) : list(Array.isArray(response) ? response : [response]).filter(isObject)
}

/** The first that is said. */
const named = (got: Read, name: 'id' | 'model'): string | undefined =>
  payloads(got)
    .map((told) => text(hearing[got.protocol.name].names(told)[name]))
    .find((said) => said)

/** Blocks do not interleave, there is one end, and its words, the answer's names and what only the upstream's format knows are kept. */
const isInOrder = (got: Read): undefined => {
  const { events, answer, protocol } = got
  let open = false
  for (const [at, { type }] of events.entries()) {
    if (type === 'open') assert.ok(!open, `open at ${at}`)
    if (['close', 'delta', 'citation', 'signature'].includes(type)) assert.ok(open, `${type} at ${at}`)
    if (type === 'finish') assert.ok(!open, 'an end in a block')
    if (type === 'open' || type === 'close') open = type === 'open'
  }
  assert.equal(events.filter(({ type }) => type === 'finish').length, 1)
  const said = saidUpstream(got)
  const foreign = answer.blocks.filter(({ type }) => type === 'foreign')
  assert.equal(foreign.length, said.foreign.length)
  // Of responses the end is told by two members.
  if (protocol.name !== 'openai-responses') assert.equal(answer.finish?.raw ?? '', said.reason)
  assert.deepEqual([answer.id || undefined, answer.model || undefined], [named(got, 'id'), named(got, 'model')])
}

/** Whole or a byte at a time, the events are the same. */
const isTheSameCutAnywhere = ({ recording, protocol, events }: Read): undefined => {
  const bytes = bytesOf(recording)
  assert.deepEqual(eventsOf(steps(recording, protocol, [bytes])), events)
  assert.deepEqual(eventsOf(steps(recording, protocol, byteByByte(bytes))), events)
}

/** How many places a stream is broken off at, spread over it; the last is always right before its end. */
const BREAKS = 8

/** Broken off before its end it is never taken for complete. */
const isTruncated = ({ recording, protocol }: Read): undefined => {
  const messages = messagesOf(recording)
  const { end } = hearing[protocol.name]
  const endsAt = (chunk: string) => heldIn({ ...recording, chunks: [chunk] }).some(end)
  const chunks = recording.chunks ?? []
  const said = chunks.findIndex(endsAt)
  // Two servers of chat completions give no reason: with them the stream's own end is the answer's.
  const last = said === -1 ? chunks.indexOf('data: [DONE]') : said
  assert.ok(last >= 0, 'it does not end')
  for (let time = 0; time < Math.min(BREAKS, last); time++) {
    const cut = last - Math.floor((time * last) / BREAKS)
    const answer = fold(eventsOf(steps(recording, protocol, messages.slice(0, cut))))
    assert.equal(answer.failure?.kind, 'truncated', `cut behind ${cut} of ${messages.length}`)
    assert.equal(answer.finish, undefined)
  }
}

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a client is told of an upstream's status, by contract. An unknown model is 404 whatever the upstream made of it. */
const told = (status: number, kind: string): number => {
  if (kind === 'model_missing') return 404
  if (kind === 'auth' || kind === 'permission' || status >= 500) return 502
  // Groq answers 400 when the model wrote no call: the model's failure, not the request's.
  if (kind === 'malformed') return 502
  return status
}

const validError = (style: ClientProtocol, body: JsonObject): void => {
  const schema = style.name === 'anthropic-messages' ? 'anthropic:wire' : 'openai:wire'
  assert.equal(problemsOf(schema, 'ErrorResponse', body), undefined)
}

/** What an upstream said of its error, wherever its format says it. */
const wordsOf = (response: Json): string | undefined => {
  const error = object(object(response)?.error)
  // OpenRouter's own message says nothing; its provider's stands beside it.
  return text(object(error?.metadata)?.raw) ?? text(error?.message) ?? text(object(response)?.message)
}

const refuses = (style: ClientProtocol, { recording, place, protocol, events, answer }: Read): undefined => {
  const { failure } = answer
  assert.ok(failure, 'no failure')
  const kind = place.is === 'failure' ? place.kind : undefined
  if (kind !== undefined) assert.equal(failure.kind, kind)
  assert.equal(events.at(-1)?.type, 'failure')

  // Nothing else could answer: one error, of the client's own shape.
  const refusal = errorResponse(style, finalError([failure], []), { requestId: 'req_abcdef', soonest: null })
  const body: JsonObject = JSON.parse(refusal.body)
  validError(style, body)
  if (kind === undefined) assert.equal(refusal.status, told(recording.status ?? 0, failure.kind), failure.kind)
  const words = wordsOf(recording.response)
  if (refusal.status < 500 && words !== undefined)
    assert.ok(text(object(body.error)?.message)?.includes(words.slice(0, 40)), 'the message is lost')

  // It broke in the middle: told in the stream, which never looks complete.
  const context = contextFor(protocol, style, recording.request)
  const begun: StreamStep = {
    events: [{ type: 'start' }, { type: 'open', block: { type: 'text' } }, { type: 'delta', text: 'so far' }],
  }
  const wire = run(style.encodeStream(context), [begun, { events: [{ type: 'failure', failure }] }]).join('')
  const frames = framesOf(wire)
  const last = frames.events.at(-1) ?? {}
  switch (style.name) {
    case 'openai-chat':
    case 'openai-completions':
      assert.ok(!frames.names.includes('[DONE]'))
      validError(style, last)
      assert.equal(object(last.error)?.code, 'stream_interrupted')
      return
    case 'openai-responses':
      assert.deepEqual(frames.names.slice(-3), ['error', 'response.failed', '[DONE]'])
      assert.equal(eventProblem(style.name, frames.events.at(-2) ?? {}), undefined)
      assert.equal(object(last.response)?.status, 'failed')
      return
    case 'anthropic-messages':
      assert.equal(frames.names.at(-1), 'error')
      assert.ok(!frames.names.includes('message_stop'))
      // The event's own shape: an error body, whose id is optional in a stream.
      validError(style, { request_id: null, ...last })
      return
    default:
      throw new Error(`unknown style ${style.name satisfies never}`)
  }
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Answers to translate, and the tables that get the counts. */
export type Evidence = {
  readonly title: string
  readonly skip: string | false
  readonly places: () => readonly Placed[]
  readonly tables: { readonly answers: string; readonly streams: string }
}

/** The recordings, where they are present. */
export const RECORDINGS: Evidence = {
  title: 'recordings',
  skip: skipWithoutRecordings,
  places,
  tables: { answers: 'answers', streams: 'streams' },
}

const placeOf = ({ protocol: name, reading: { failure } }: Exchange, { status }: Recording): Place => {
  const protocol = upstreamProtocols[name]
  if (!failure) return { is: 'answer', protocol }
  // The status of an error that arrives in a stream is 200, so the client's status follows from the kind.
  return { is: 'failure', protocol, ...(status === 200 && { kind: failure.kind }) }
}

/** The project's own exchanges, which every clone has. */
export const EXCHANGES: Evidence = {
  title: 'own exchanges',
  skip: false,
  places: () =>
    exchanges().flatMap((exchange) =>
      asRecordings(exchange).map((recording) => ({ recording, place: placeOf(exchange, recording) })),
    ),
  tables: { answers: 'own answers', streams: 'own streams' },
}

/** Translates all answers of these formats. */
export const sweep = (evidence: Evidence, ...names: readonly UpstreamProtocolName[]): void => {
  const answered = new Tally(evidence.tables.answers)
  const streams = new Tally(evidence.tables.streams)
  if (evidence === RECORDINGS) requireRecordings()
  for (const name of names)
    describe(`${evidence.title} of ${name}`, { skip: evidence.skip }, () => {
      const protocol = upstreamProtocols[name]
      const all = evidence
        .places()
        .flatMap(({ recording, place }) =>
          (place.is === 'answer' || place.is === 'failure') && place.protocol === protocol
            ? [read(recording, place, protocol)]
            : [],
        )
      const answers = all.filter(({ place }) => place.is === 'answer')
      const failures = all.filter(({ place }) => place.is === 'failure')
      const sweepRow = (
        title: string,
        board: Tally,
        row: string,
        items: readonly Read[],
        check: (got: Read, note: (why: string) => void) => undefined,
      ) =>
        test(title, () => {
          const wrong = board.each(
            row,
            items,
            ({ recording }) => recording.id,
            (got) => {
              const notes = new Set<string>()
              check(got, (why) => notes.add(why))
              for (const why of notes) board.noted(row, why)
              return undefined
            },
          )
          assert.equal(wrong.length, 0, wrong.join('\n'))
        })
      const up = protocol.style
      sweepRow(`${up}: answers, not failures`, streams, `${up} in order`, answers, (got) => {
        assert.equal(got.answer.failure, undefined, JSON.stringify(got.answer.failure))
        return isInOrder(got)
      })
      const flowing = answers.filter(({ recording }) => recording.chunks)
      sweepRow(`${up}: streams, cut anywhere`, streams, `${up} cut anywhere`, flowing, isTheSameCutAnywhere)
      sweepRow(`${up}: streams, broken off`, streams, `${up} broken off`, flowing, isTruncated)
      for (const style of Object.values(protocols)) {
        const modes: readonly Mode[] = style.name === name ? ['whole', 'streamed', 'passed'] : ['whole', 'streamed']
        for (const mode of modes)
          sweepRow(
            `${up} to a ${style.style} client, ${mode}`,
            answered,
            `${up} → ${style.style} ${mode}`,
            answers,
            (got, note) => tell(style, got, mode, note),
          )
        if (failures.length > 0)
          sweepRow(
            `${up} errors to a ${style.style} client`,
            answered,
            `${up} → ${style.style} errors`,
            failures,
            (got) => refuses(style, got),
          )
      }
    })
  after(() => {
    answered.print()
    streams.print()
  })
}
