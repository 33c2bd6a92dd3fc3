/** Requests and answers of responses, decoded and encoded again: on the project's own exchanges, and on recordings where they are present. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import OpenAI from 'openai'
import { answerContext } from '../../../test/support/builders.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { recordingsPresent, requireRecordings } from '../../../test/support/recordings.ts'
import { eventsOf as definitionsOf, problemsIfPresent, type SchemaName } from '../../../test/support/schemas.ts'
import { type ChatEvent, type ChatRequest, fold, isContent } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames, writeFrame } from '../framing/sse.ts'
import { openaiResponses as codec } from './index.ts'

const recordings = evidenceOf('openai-responses')

const valid = (schema: SchemaName, definition: string, value: unknown): void =>
  assert.equal(problemsIfPresent(schema, definition, value), undefined, JSON.stringify(value).slice(0, 600))

/** Recordings excluded from a case, with the reason. */
const EXCEPT = {
  answer: new Map([
    ['azure-deepseek-reasoning', 'the body is a chat completion, filed under this format by its source'],
  ]),
}
const reasonFor = (exceptions: ReadonlyMap<string, string>, name: string): string | undefined =>
  [...exceptions].find(([part]) => name.includes(part))?.[1]

const context = (body: JsonObject = {}): AnswerContext => {
  let made = 0
  const decoded = codec.decodeRequest(body)
  return answerContext({
    ...(decoded.ok && { request: decoded.value }),
    body,
    id: (prefix) => `${prefix}_made${String.fromCharCode(97 + (made++ % 26)).repeat(1 + made / 26)}`,
    created: 1_700_000_000,
    model: 'model',
  })
}

/** Hosted tools, their calls and results pass unchanged; some are unknown to the schema or differ from it. */
const isKnown = (response: JsonObject): boolean =>
  list(response.output).every(
    (item) => isOwn(item) || problemsIfPresent('openai:wire', 'OutputItem', item) === undefined,
  ) && list(response.tools).every((tool) => problemsIfPresent('openai:wire', 'Tool', tool) === undefined)
const isOwn = (item: Json): boolean =>
  ['message', 'function_call', 'custom_tool_call', 'reasoning'].includes(text(object(item)?.type) ?? '')

// ── Independent reading of answers, without the codec ──────────────────────────────────────

const opinion = (response: JsonObject) => {
  const items = list(response.output).filter(isObject)
  const parts = items.flatMap((item) => (item.type === 'message' ? list(item.content).filter(isObject) : []))
  const usage = object(response.usage)
  return {
    text: parts.map((part) => text(part.text) ?? '').join(''),
    refusal: parts.map((part) => text(part.refusal) ?? '').join(''),
    citations: parts.flatMap((part) =>
      list(part.annotations).flatMap((one) => (object(one)?.type === 'url_citation' ? [object(one)?.url] : [])),
    ),
    calls: items.flatMap((item) =>
      item.type === 'function_call' || item.type === 'custom_tool_call'
        ? [{ id: item.call_id, name: item.name, words: item.arguments ?? item.input }]
        : [],
    ),
    sealed: items.flatMap((item) =>
      item.type === 'reasoning' && item.encrypted_content ? [item.encrypted_content] : [],
    ),
    summary: items
      .flatMap((item) => (item.type === 'reasoning' ? list(item.summary) : []))
      .map((part) => text(object(part)?.text))
      .join('\n\n'),
    thoughts: items
      .flatMap((item) => (item.type === 'reasoning' ? list(item.content) : []))
      .map((part) => text(object(part)?.text))
      .join(''),
    foreign: items.filter((item) => !isOwn(item)),
    status: response.status ?? 'completed',
    tokens: usage && [
      usage.input_tokens,
      usage.output_tokens,
      object(usage.input_tokens_details)?.cached_tokens ?? 0,
      object(usage.output_tokens_details)?.reasoning_tokens ?? 0,
    ],
  }
}

const summaryOf = (events: readonly ChatEvent[]) => {
  const { blocks, usage, finish } = fold(events)
  const texts = (type: string, summary?: boolean) =>
    blocks.flatMap((block) =>
      block.type === type && (block.type !== 'reasoning' || (block.summary === true) === summary) && block.text
        ? [block.text]
        : [],
    )
  const kinds: { readonly [kind: string]: string } = {
    stop: 'completed',
    'tool-calls': 'completed',
    refusal: 'completed',
    pause: finish?.raw ?? '',
  }
  return {
    text: texts('text').join(''),
    refusal: texts('refusal').join(''),
    citations: blocks.flatMap((block) => (block.citations ?? []).map(({ url }) => url)),
    calls: blocks.flatMap((block) =>
      block.type === 'tool-call' ? [{ id: block.id, name: block.name, words: block.text }] : [],
    ),
    sealed: blocks.flatMap(({ signature }) => (signature ? [signature.value] : [])),
    summary: texts('reasoning', true).join('\n\n'),
    thoughts: texts('reasoning', false).join(''),
    foreign: blocks.flatMap((block) => (block.type === 'foreign' ? [block.raw] : [])),
    status: finish && (kinds[finish.kind] ?? 'incomplete'),
    tokens: usage && [usage.input, usage.output, usage.cacheRead ?? 0, usage.reasoning ?? 0],
  }
}

const write = (writer: StreamWriter, steps: Iterable<StreamStep>): string => run(writer, steps).join('')
const stepsOf = (frames: readonly Frame[]): StreamStep[] => {
  const decoder = codec.decodeStream()
  const steps: StreamStep[] = frames.map((frame) => ({ frame, events: decoder.push(frame) }))
  return [...steps, { events: decoder.end() }]
}
const eventsOf = (steps: readonly StreamStep[]): ChatEvent[] => steps.flatMap(({ events }) => events)
const jsonOf = (frames: readonly Frame[]): JsonObject[] =>
  frames.flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [JSON.parse(data)]))

/** The live API returns codes missing in its schema, for example `insufficient_quota` (recorded). */
const withKnownCode = (event: JsonObject): JsonObject => {
  const response = object(event.response)
  const error = object(response?.error)
  return response && error ? { ...event, response: { ...response, error: { ...error, code: 'server_error' } } } : event
}

/** Checks that hold for every stream this codec writes. */
const wellFormed = (wireText: string): JsonObject => {
  assert.ok(wireText.endsWith('data: [DONE]\n\n'))
  const frames = run(sseFrames(), [wireText])
  const events = jsonOf(frames)
  for (const [index, event] of events.entries()) {
    assert.equal(event.sequence_number, index, 'a gap')
    assert.equal(frames[index]?.event, event.type)
    const type = text(event.type) ?? ''
    if (!recordingsPresent) continue
    const schema = definitionsOf('openai:wire', 'Response').get(type)
    assert.ok(schema, `no event ${type}`)
    const known = event.item ? isKnown({ output: [event.item] }) : isKnown(object(event.response) ?? {})
    if (known) valid('openai:wire', schema, withKnownCode(event))
  }
  const terminal = events.at(-1)
  const ids = new Set(events.flatMap((event) => object(event.response)?.id ?? []))
  assert.equal(ids.size, 1)
  const ended = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event.item] : []))
  const response = object(terminal?.response)
  assert.ok(response)
  if (response.status !== 'failed') assert.deepEqual(ended, response.output)
  if (recordingsPresent && isOpen(response))
    for (const event of events) {
      const schema = definitionsOf('openresponses').get(text(event.type) ?? '')
      assert.ok(schema, `Open Responses has no event ${event.type}`)
      valid('openresponses', schema, event)
    }
  return response
}

/** True if Open Responses covers the answer: no hosted or custom tools, no reasoning text under OpenAI's name. */
const isOpen = (response: JsonObject): boolean =>
  list(response.output).every(
    (item) =>
      ['message', 'function_call', 'reasoning'].includes(text(object(item)?.type) ?? '') &&
      // The official SDK rejects Open Responses' names for reasoning events, so OpenAI's are written.
      !(object(item)?.type === 'reasoning' && list(object(item)?.content).length > 0),
  ) &&
  list(response.tools).every((tool) => object(tool)?.type === 'function') &&
  ['string', 'undefined'].includes(typeof response.tool_choice) &&
  object(object(response.text)?.format)?.type === 'text' &&
  list(response.output).every((item) => object(item)?.type !== 'message' || list(object(item)?.content).length > 0)

/** The official SDK's reading of a stream; it throws on wrong order. */
const accumulated = async (wireText: string): Promise<JsonObject> => {
  const fetch = async () => new Response(wireText, { headers: { 'content-type': 'text/event-stream' } })
  const client = new OpenAI({ apiKey: 'none', baseURL: 'http://127.0.0.1:9/v1', maxRetries: 0, fetch })
  const final = await client.responses.stream({ model: 'm', input: 'hi' }).finalResponse()
  return JSON.parse(JSON.stringify(final, (key, value) => (key.startsWith('parsed') ? undefined : value)))
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()

type Recording = (typeof recordings)[number]

/** How many recordings were used, by what was checked. */
const used = { requests: 0, answers: 0, openAnswers: 0, streams: 0, openStreams: 0, failures: 0 }

/** Checks that decoding and encoding a request yields it again, as far as `ChatRequest` represents it. */
const checkRequest = (provider: Recording['provider'], body: JsonObject): void => {
  used.requests++
  const decoded = codec.decodeRequest(body)
  assert.ok(decoded.ok, decoded.ok ? '' : decoded.failure.message)
  const { body: again, losses } = codec.encodeRequest(decoded.value, { model: text(body.model) ?? '' })
  assert.deepEqual(
    losses.filter(({ essential }) => essential),
    [],
  )
  const second = codec.decodeRequest(again)
  assert.ok(second.ok, second.ok ? '' : second.failure.message)
  assert.deepEqual(plain(second.value), plain(decoded.value))
  if (provider === 'openai' && problemsIfPresent('openai', 'CreateResponse', body) === undefined)
    valid('openai', 'CreateResponse', again)
}

/** Checks that a decoded answer, and the answer encoded from it, have the content of the recorded one. */
const checkAnswer = (response: JsonObject, body: JsonObject): void => {
  const events = codec.decodeAnswer(response)
  used.answers++
  assert.equal(fold(events).failure, undefined)
  const expected = opinion(response)
  assert.deepEqual(summaryOf(events), expected)
  const again = codec.encodeAnswer(fold(events), context(body))
  if (expected.status === 'queued') return
  if (isKnown(again)) valid('openai:wire', 'Response', again)
  assert.deepEqual({ ...opinion(again), tokens: expected.tokens }, expected)
  if (isOpen(again)) {
    used.openAnswers++
    valid('openresponses', 'ResponseResource', again)
  }
}

const isTerminal = ({ type }: JsonObject): boolean => /^response\.(completed|incomplete|failed)$/.test(text(type) ?? '')

/** Joins chunks to the text of a stream. */
const wireOf = (chunks: readonly string[]): string => chunks.map((chunk) => `${chunk}\n\n`).join('')

/** A few fixtures contain two answers; nothing is read after the end of the first. */
const firstAnswer = (chunks: readonly string[]): readonly string[] => {
  const isEnd = (chunk: string) => /"type": ?"response\.(completed|incomplete|failed)"/.test(chunk)
  return chunks.slice(0, chunks.findIndex(isEnd) + 1 || chunks.length)
}

/** Checks the written and the passed-through form of a stream. */
const checkStream = async (chunks: readonly string[], body: JsonObject): Promise<void> => {
  const wireText = wireOf(chunks)
  const frames = run(sseFrames(), [wireOf(firstAnswer(chunks))])
  const steps = stepsOf(run(sseFrames(), [wireText]))
  const events = eventsOf(steps)
  assert.deepEqual(eventsOf(stepsOf(run(sseFrames(), wireText))), events, 'one character at a time')
  const rewritten = write(codec.encodeStream(context(body)), steps)
  const written = wellFormed(rewritten)
  const passed = write(codec.passing.passStream(context(body)), steps)
  const { failure } = fold(events)
  if (failure) {
    used.failures++
    assert.ok(!events.some(isContent) || failure.kind === 'truncated')
    assert.equal(written.status, 'failed')
    checkPassedFailure(passed)
    return
  }
  used.streams++
  const final = jsonOf(frames).findLast(isTerminal)
  assert.ok(final)
  const expected = opinion(finalOf(jsonOf(frames), object(final.response) ?? {}))
  assert.deepEqual(summaryOf(events), expected)
  assert.deepEqual({ ...opinion(written), tokens: expected.tokens }, expected)
  if (isOpen(written)) used.openStreams++
  assert.deepEqual(opinion(await accumulated(rewritten)), opinion(written))
  checkPassedAnswer(passed, frames)
}

/** A failed stream that is passed through ends with the error, in the numbering and under the ID of the events before. */
const checkPassedFailure = (passed: string): void => {
  const frames = run(sseFrames(), [passed])
  const kinds = frames.map(({ event, data }) => event ?? data)
  assert.deepEqual(kinds.slice(-3), ['error', 'response.failed', '[DONE]'])
  const events = jsonOf(frames)
  assert.equal(new Set(events.flatMap((event) => object(event.response)?.id ?? [])).size, 1)
  assert.deepEqual(
    events.slice(-2).map((event) => event.sequence_number),
    [events.length - 2, events.length - 1],
  )
}

/** A stream that is passed through keeps its bytes; missing event names and the end marker are added. */
const checkPassedAnswer = (passed: string, frames: readonly Frame[]): void => {
  const named = frames
    .filter(({ data }) => data !== '[DONE]')
    .map((frame) =>
      frame.event === undefined && frame.data !== ''
        ? `event: ${JSON.parse(frame.data).type}\n${frame.raw}`
        : frame.raw,
    )
    .join('')
  const whole = `${named}${writeFrame(undefined, '[DONE]')}`
  const isNumbered = (events: readonly JsonObject[]) =>
    events.every(({ sequence_number }, place) => sequence_number === place)
  assert.ok(isNumbered(jsonOf(run(sseFrames(), [passed]))))
  if (isNumbered(jsonOf(frames))) assert.equal(passed, whole)
  // Early recordings have no numbers, or gaps between them.
  else assert.equal(withoutNumbers(passed), withoutNumbers(whole))
}

const checkFailure = (status: number, response: Recording['response']): void => {
  used.failures++
  const failure = codec.decodeFailure(status, response, () => undefined)
  assert.equal(failure.status, status)
  const recorded = object(object(response)?.error)
  assert.equal(failure.upstream?.code, text(recorded?.code))
  valid('openai:wire', 'ErrorResponse', codec.encodeFailure(failure, { requestId: 'req_abc' }))
}

const withoutNumbers = (wire: string): string => wire.replaceAll(/"sequence_number": ?\d+, ?/g, '')

/**
 * The answer of a stream: each item in its final state, the rest from the last event. Some streams omit items from that, and
 * its encrypted content differs.
 */
const finalOf = (events: readonly JsonObject[], final: JsonObject): JsonObject => {
  const items = [...list(final.output)]
  for (const { type, item, output_index } of events)
    if (type === 'response.output_item.done') items[number(output_index) ?? 0] = item ?? null
  return { ...final, output: items }
}

/** A request without expected differences: paths, names, explicit defaults, reasoning without a signature. */
const plain = (request: ChatRequest): unknown =>
  JSON.parse(
    JSON.stringify(request, (key, value) => {
      if (key === 'content') return value.filter((part: JsonObject) => part.type !== 'reasoning' || part.signature)
      if (key === 'signature') return { ...value, id: undefined }
      if (key === 'format' && value.value?.kind === 'text') return undefined
      return key === 'at' ||
        key === 'paths' ||
        key === 'extras' ||
        key === 'store' ||
        (key === 'detail' && value === 'auto')
        ? undefined
        : value
    }),
  )

describe('responses: recordings', () => {
  for (const { id: name, provider, status, request, response, chunks } of recordings) {
    const body = object(request) ?? {}
    const isGood = status === null || status === 200

    if (isGood && isObject(request) && body.model !== undefined && (body.input ?? body.prompt) !== undefined)
      test(`${name}: request`, () => checkRequest(provider, body))

    if (isGood && isObject(response))
      test(`${name}: answer`, (t) => {
        const reason = reasonFor(EXCEPT.answer, name)
        if (reason === undefined) return checkAnswer(response, body)
        assert.equal(fold(codec.decodeAnswer(response)).failure?.kind, 'malformed')
        t.diagnostic(reason)
      })

    if (isGood && chunks) test(`${name}: stream`, () => checkStream(chunks, body))

    if (status !== null && status >= 400) test(`${name}: failure`, () => checkFailure(status, response))
  }

  test('all recordings were used', (t) => {
    const { requests, answers, openAnswers, streams, openStreams, failures } = used
    t.diagnostic(
      `${requests} requests, ${answers} answers (${openAnswers} Open Responses), ${streams} streams (${openStreams}), ${failures} failures`,
    )
    assert.ok(requests > 25 && answers > 15 && streams > 15 && failures > 5)
    if (!recordingsPresent) return
    assert.ok(requests > 300 && answers > 250 && streams > 100 && failures > 15)
    assert.ok(openAnswers > 150 && openStreams > 50)
  })
})
