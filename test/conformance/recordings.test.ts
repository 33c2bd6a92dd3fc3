/**
 * Everything upstreams were recorded to say, read as the gateway reads it (bytes cut at odd places), told to a client of
 * every style, whole and as a stream: valid by the published schemas, in an order the official SDKs take, and saying the
 * same. What an answer says is read by `said.ts`, without a codec, on both sides.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { type AnswerBlock, type ChatAnswer, type ChatRequest, fold } from '../../src/core/chat.ts'
import type { Failure } from '../../src/core/failure.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { AnswerContext, Passing, Protocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { findProvider, loadProviders } from '../../src/edge/load-providers.ts'
import { readerFor } from '../../src/gateway/reader.ts'
import { refusalOf } from '../../src/gateway/refusal.ts'
import { verdict } from '../../src/policy/verdict.ts'
import { sharedProtocols } from '../../src/protocols/index.ts'
import { type Recording, recordingsAreHere, recordingsOf, skip } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { Board } from './board.ts'
import { endOf, OLD_CALL, reading, reasonIn, type Said } from './said.ts'
import { framesOf, inMessages, problemOfEvent, WHOLE } from './told.ts'

const APIS = ['chat', 'responses', 'messages'] as const
const providers = await loadProviders()

/** Recordings that cannot take part, and why. */
const EXCLUDED: readonly {
  readonly id: string
  readonly why: string
}[] = [
  { id: 'azure-responses-azure-deepseek-reasoning', why: 'a chat completion, filed under responses by its source' },
]

/** Failures although the status was 200, and of which kind. */
const FAILURES: readonly (readonly [id: string, kind: string])[] = [
  ['azure-chat-test-prompt-content-filtering-with-events-with-n-98ddde0e', 'content_policy'],
  ['groq-chat-test-tool-use-failed-error-streaming-with-text-564fca61', 'malformed'],
  ['openrouter-chat-test-openrouter-stream-error', 'invalid_request'],
  ['openai-responses-openai-error-1-chunks', 'quota'],
  ['openai-responses-stream-rate-limited-1', 'token_rate'],
  ['openai-responses-stream-unknown-error-responses-1', 'error_in_stream'],
]

const board = new Board()

// ── A recording as the gateway reads it ──────────────────────────────────────────────────────────────────────────

const bytesOf = ({ chunks, response }: Recording): Uint8Array =>
  new TextEncoder().encode(
    chunks ? `${chunks.join('\n\n')}\n\n` : typeof response === 'string' ? response : JSON.stringify(response),
  )

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

const quirksOf = ({ provider }: Recording) => findProvider(providers, provider)?.quirks

type Read = {
  readonly recording: Recording
  readonly protocol: Protocol
  readonly steps: readonly Passing[]
  readonly whole: string | null
  readonly answer: ChatAnswer
}

const read = (recording: Recording, protocol: Protocol): Read => {
  const type =
    recording.response_headers?.['content-type'] ?? (recording.chunks ? 'text/event-stream' : 'application/json')
  const reader = readerFor(
    {
      status: recording.status ?? 200,
      headers: (name) => (name === 'content-type' ? type : recording.response_headers?.[name]),
    },
    { protocol, quirks: quirksOf(recording), translated: null, stream: recording.chunks !== null, date: 0 },
  )
  const steps = run(reader, oddly(bytesOf(recording)))
  const answer = fold(steps.flatMap(({ events }) => events))
  return { recording, protocol, steps, whole: steps[0]?.whole ?? null, answer }
}

const MINIMAL: { readonly [name in Protocol['name']]: JsonObject } = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  'openai-responses': { model: 'm', input: 'hi' },
  'anthropic-messages': { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] },
}

const decoded = (protocol: Protocol, body: JsonObject): ChatRequest => {
  const request = protocol.decodeRequest(body)
  if (request.ok) return request.value
  const minimal = protocol.decodeRequest(MINIMAL[protocol.name])
  assert.ok(minimal.ok)
  return minimal.value
}

/** The question as a client of that style would have asked it. */
const contextFor = (protocol: Protocol, style: Protocol, asked: Json): AnswerContext => {
  const body: JsonObject = { ...MINIMAL[protocol.name], ...object(asked) }
  const request = decoded(protocol, body)
  const own = protocol === style ? body : style.encodeRequest(request, { model: request.model }).body
  const settings = decoded(style, own).settings
  let made = 0
  return {
    request: { ...decoded(style, own), settings: { ...settings, streamUsage: { value: true, at: 'stream_options' } } },
    body: own,
    id: (prefix) => `${prefix}_made${String.fromCharCode(97 + (made++ % 26)).repeat(1 + made / 26)}`,
    created: 1_700_000_000,
    model: request.model,
    requestId: 'req_abcdef',
  }
}

// ── What comes out ───────────────────────────────────────────────────────────────────────────────────────────────

const streamed = (style: Protocol, { steps }: Read, context: AnswerContext, pass = false): string =>
  run(
    pass ? style.passing.passStream(context) : style.encodeStream(context),
    pass ? steps : steps.map(({ events }) => ({ events })),
  ).join('')

/** What was said upstream, put together from the recording itself. */
const saidUpstream = ({ recording, protocol }: Read): Said => {
  const own = reading[protocol.name]
  const said = recording.chunks
    ? own.said(own.assemble(framesOf(recording.chunks.join('\n\n')).events))
    : own.said(object(recording.response) ?? {})
  // xAI counts reasoning beside the completion (its file says so); elsewhere it is a part of it.
  if (recording.provider !== 'xai' || protocol.name !== 'openai-chat' || !said.usage) return said
  return { ...said, usage: { ...said.usage, output: said.usage.output + said.usage.reasoning } }
}

const IDS: { readonly [name in Protocol['name']]: RegExp } = {
  'openai-chat': /^.+$/s,
  'openai-responses': /^.{1,64}$/s,
  'anthropic-messages': /^[a-zA-Z0-9_-]+$/,
}

/** Where a model refused without a word and the client's style has a place for one. */
const REFUSED = 'The model refused to answer.'

/** The same, as far as the client's style has a place for it; everything a translation may change is here. */
const expected = (said: Said, from: Protocol['name'], to: Protocol['name']): Said => {
  const end = endOf(said)
  const toMessages = to === 'anthropic-messages'
  const words = said.refusal || (end === 'refusal' ? REFUSED : '')
  const isOld = said.calls.some(({ id }) => id === OLD_CALL)
  const called = said.calls.length === 0 ? 'none' : isOld && to === 'openai-chat' ? 'functions' : 'tools'
  const { usage } = said
  const own = from === to && toMessages && said.calls.length === 0 && said.refusal === ''
  return {
    ...said,
    // Messages have no place for words of refusal: they are text, and the end says what they are.
    text: toMessages ? said.text + said.refusal : said.text,
    refusal: toMessages ? '' : words,
    // What is no object cannot be the input of a call there: free text, or JSON the model broke.
    calls: said.calls.map((call) =>
      toMessages && !isObject(call.input) ? { ...call, input: { [to]: call.input } } : call,
    ),
    reason: own && said.reason !== '' ? said.reason : reasonIn[to](end, said.refusal !== '', called),
    foreign: from === to ? said.foreign : [],
    usage: toMessages ? inMessages(usage) : usage,
  }
}

const same = (actual: Said, upstream: Said, from: Protocol['name'], to: Protocol['name']): void => {
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
  assert.deepEqual(actual, { ...wanted, calls })
}

/** Hosted tools pass through their own style as they are; some are newer than any schema. Undefined: all are known. */
const unknownToSchema = ({ recording, protocol }: Read, said: Said): string | undefined => {
  const tools = list(object(recording.request)?.tools)
  const unknown =
    protocol.name === 'openai-responses'
      ? said.foreign.some((item) => problemsOf('openai:wire', 'OutputItem', item)) ||
        tools.some((tool) => problemsOf('openai:wire', 'Tool', tool))
      : said.foreign.some((block) => problemsOf('anthropic:wire', 'BetaContentBlock', block))
  return unknown ? "the upstream's own item or tool is in no schema" : undefined
}

const isCustom = (block: AnswerBlock): boolean => block.type === 'tool-call' && block.custom === true

type Mode = 'whole' | 'streamed' | 'passed'

const tell = (style: Protocol, got: Read, mode: Mode): string | undefined => {
  const { protocol, answer, recording } = got
  const context = () => contextFor(protocol, style, recording.request)
  const upstream = saidUpstream(got)
  const own = reading[style.name]
  /** OpenAI's chunk has functions only, though the answer of the same API has custom calls too. */
  const isCustomChunk = mode === 'streamed' && style.name === 'openai-chat' && answer.blocks.some(isCustom)
  const excused = (problem: string | undefined): string | undefined => {
    if (problem === undefined) return undefined
    const unknown = protocol === style ? unknownToSchema(got, upstream) : undefined
    const why = isCustomChunk ? 'a call with free text: no published chunk has one' : unknown
    if (why === undefined) assert.fail(problem)
    return why
  }
  if (mode === 'whole') {
    const body = style.encodeAnswer(answer, context())
    same(own.said(body), upstream, protocol.name, style.name)
    const [schema, definition] = WHOLE[style.name]
    return excused(problemsOf(schema, definition, body))
  }
  if (mode === 'passed') {
    if (got.whole !== null) {
      assert.equal(got.whole, new TextDecoder().decode(bytesOf(recording)))
      return undefined
    }
    const { events, names } = framesOf(streamed(style, got, context(), true))
    const untouched = { ...upstream, usage: null }
    assert.deepEqual({ ...own.said(own.assemble(events)), usage: null }, untouched)
    assert.equal(names.at(-1), style.name === 'anthropic-messages' ? 'message_stop' : '[DONE]')
    return undefined
  }
  const { events, names } = framesOf(streamed(style, got, context()))
  own.order(events, names)
  const said = own.said(own.assemble(events))
  same(said, upstream, protocol.name, style.name)
  // Whole and streamed are one answer.
  const whole = own.said(style.encodeAnswer(answer, context()))
  assert.deepEqual(said, whole)
  for (const event of events) {
    const why = excused(problemOfEvent(style.name, event))
    if (why) return why
  }
  return undefined
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

recordingsAreHere()

const isPending = ({ response }: Recording): boolean =>
  ['queued', 'in_progress'].includes(text(object(response)?.status) ?? '')

describe('recorded answers, told to every client', { skip }, () => {
  for (const api of APIS) {
    const protocol = Object.values(sharedProtocols).find(({ style }) => style === api)
    assert.ok(protocol)
    const answers: Read[] = []
    const failures: Read[] = []
    const all = recordingsOf(api)
    for (const recording of all) {
      const excluded = EXCLUDED.find(({ id }) => recording.id.startsWith(id))
      const why = excluded?.why ?? (isPending(recording) ? 'asked in the background: not an answer yet' : undefined)
      if (why) {
        board.excluded(`${api} (any)`, why)
        continue
      }
      const got = read(recording, protocol)
      const failed = (recording.status ?? 200) >= 400 || FAILURES.some(([id]) => recording.id.startsWith(id))
      ;(failed ? failures : answers).push(got)
    }

    test(`${api}: enough of them, and no exception without its recording`, () => {
      assert.ok(answers.length + failures.length > { chat: 700, responses: 380, messages: 300 }[api])
      for (const id of [...EXCLUDED.map((one) => one.id), ...FAILURES.map(([one]) => one)])
        if (id.includes(`-${api}-`))
          assert.ok(
            all.some((recording) => recording.id.startsWith(id)),
            id,
          )
    })

    for (const style of Object.values(sharedProtocols)) {
      const modes: readonly Mode[] = style === protocol ? ['whole', 'streamed', 'passed'] : ['whole', 'streamed']
      for (const mode of modes)
        test(`${api} to a ${style.style} client, ${mode}`, () => {
          const row = `${api} → ${style.style} ${mode}`
          const wrong = board.each(
            row,
            answers,
            ({ recording }) => recording.id,
            (got) => {
              assert.equal(got.answer.failure, undefined, JSON.stringify(got.answer.failure))
              return tell(style, got, mode)
            },
          )
          assert.equal(wrong.length, 0, wrong.join('\n'))
        })
      test(`${api} errors to a ${style.style} client`, () => {
        const row = `${api} → ${style.style} errors`
        const wrong = board.each(
          row,
          failures,
          ({ recording }) => recording.id,
          (got) => refuses(style, got),
        )
        assert.equal(wrong.length, 0, wrong.join('\n'))
      })
    }
  }
  after(() => board.print())
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a client is told of an upstream's status, by contract. An unknown model is 404 whatever the upstream made of it. */
const told = (status: number, kind: string): number => {
  if (kind === 'model_missing') return 404
  if (kind === 'auth' || kind === 'permission' || status >= 500) return 502
  // Groq answers 400 when the model wrote no call: the model's failure, not the request's.
  if (kind === 'malformed') return 502
  return status
}

const validError = (style: Protocol, body: JsonObject): void => {
  const schema = style.name === 'anthropic-messages' ? 'anthropic:wire' : 'openai:wire'
  assert.equal(problemsOf(schema, 'ErrorResponse', body), undefined)
}

const refuses = (style: Protocol, { recording, protocol, steps, answer }: Read): undefined => {
  const failure: Failure | undefined = answer.failure
  assert.ok(failure, 'no failure')
  const known = FAILURES.find(([id]) => recording.id.startsWith(id))?.[1]
  if (known !== undefined) assert.equal(failure.kind, known)
  assert.equal(steps.flatMap(({ events }) => events).at(-1)?.type, 'failure')

  // Nothing else could answer: one error, of the client's own shape.
  const refusal = refusalOf(style, verdict([failure], []), { requestId: 'req_abcdef', soonest: null })
  const body: JsonObject = JSON.parse(refusal.body)
  validError(style, body)
  if (known === undefined) assert.equal(refusal.status, told(recording.status ?? 0, failure.kind), failure.kind)
  const error = object(body.error)
  const theirs = object(object(recording.response)?.error)
  // OpenRouter's own message says nothing; its provider's stands beside it.
  const upstreams = text(object(theirs?.metadata)?.raw) ?? text(theirs?.message)
  if (refusal.status < 500 && upstreams !== undefined)
    assert.ok(text(error?.message)?.includes(upstreams.slice(0, 40)), 'the message is lost')

  // It broke in the middle: told in the stream, which never looks complete.
  const context = contextFor(protocol, style, recording.request)
  const begun: Passing = {
    events: [{ type: 'start' }, { type: 'open', block: { type: 'text' } }, { type: 'delta', text: 'so far' }],
  }
  const wire = run(style.encodeStream(context), [begun, { events: [{ type: 'failure', failure }] }]).join('')
  const { names, events } = framesOf(wire)
  if (style.name === 'openai-chat') {
    assert.ok(!names.includes('[DONE]'))
    validError(style, events.at(-1) ?? {})
    assert.equal(object(events.at(-1)?.error)?.code, 'stream_interrupted')
  } else if (style.name === 'openai-responses') {
    assert.deepEqual(names.slice(-3), ['error', 'response.failed', '[DONE]'])
    assert.equal(problemOfEvent(style.name, events.at(-2) ?? {}), undefined)
    assert.equal(object(events.at(-1)?.response)?.status, 'failed')
  } else {
    assert.equal(names.at(-1), 'error')
    assert.ok(!names.includes('message_stop'))
    // The event's own shape: an error body, whose id is optional in a stream.
    validError(style, { request_id: null, ...events.at(-1) })
  }
  return undefined
}
