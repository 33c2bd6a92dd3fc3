/** What Cohere really said, through the codec, and on to clients of every style. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Recording, recordingsAreHere, recordingsOf, skip } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sharedProtocols } from '../index.ts'
import { sseFrames } from '../sse.ts'
import { cohere } from './index.ts'

/** The older version of the API has another address and another shape; nobody is spoken to in it. */
const isOlder = ({ request, response, chunks }: Recording): boolean =>
  Object.hasOwn(object(request) ?? {}, 'message') ||
  Object.hasOwn(object(response) ?? {}, 'generation_id') ||
  chunks?.some((chunk) => chunk.includes('"event_type"')) === true

const everything = recordingsOf('cohere')
const recordings = everything.filter((recording) => !isOlder(recording) && recording.status !== 404)

// ── A second opinion: what an answer says, read from the wire without the codec ──────────────────────────────────

type Said = {
  id: Json
  text: string
  thoughts: string
  plan: string
  calls: { id: Json; name: Json; args: Json }[]
  /** Of the text: the words, and where they are from. */
  cited: Json[]
  reason: Json
  usage: { input: number; output: number; reasoning: number; cached: number }
}

const newSaid = (): Said => ({
  id: null,
  text: '',
  thoughts: '',
  plan: '',
  calls: [],
  cited: [],
  reason: null,
  usage: { input: 0, output: 0, reasoning: 0, cached: 0 },
})

const count = (value: Json | undefined): number => Number(value ?? 0)
const spent = (usage: JsonObject | undefined): Said['usage'] => {
  const tokens = object(usage?.tokens)
  return {
    input: count(tokens?.input_tokens) + count(tokens?.image_tokens),
    output: count(tokens?.output_tokens),
    reasoning: count(tokens?.reasoning_tokens),
    cached: count(usage?.cached_tokens),
  }
}
const citedIn = (citation: Json): Json[] =>
  list(object(citation)?.sources).map((source) => [object(citation)?.text ?? null, object(source)?.id ?? null])
const argsOf = (written: string): Json => JSON.parse(written === '' || written === 'null' ? '{}' : written)

const saidIn = (body: JsonObject): Said => {
  const message = object(body.message) ?? {}
  const content = list(message.content).map((one) => object(one) ?? {})
  const of = (member: string) => content.map((one) => text(one[member]) ?? '').join('')
  return {
    id: body.id ?? null,
    text: of('text'),
    thoughts: of('thinking'),
    plan: text(message.tool_plan) ?? '',
    calls: list(message.tool_calls).map((one) => {
      const call = object(object(one)?.function)
      return { id: object(one)?.id ?? null, name: call?.name ?? null, args: argsOf(String(call?.arguments)) }
    }),
    cited: list(message.citations).flatMap(citedIn),
    reason: body.finish_reason ?? null,
    usage: spent(object(body.usage)),
  }
}

const saidInStream = (events: readonly JsonObject[]): Said => {
  const said = newSaid()
  const written: string[] = []
  for (const event of events) {
    const delta = object(event.delta)
    const message = object(delta?.message)
    const content = object(message?.content)
    const call = object(message?.tool_calls)
    const called = object(call?.function)
    if (event.type === 'message-start') said.id = event.id ?? null
    said.text += text(content?.text) ?? ''
    said.thoughts += text(content?.thinking) ?? ''
    said.plan += text(message?.tool_plan) ?? ''
    if (event.type === 'tool-call-start') {
      said.calls.push({ id: call?.id ?? null, name: called?.name ?? null, args: {} })
      written.push('')
    }
    if (called) written[written.length - 1] += text(called.arguments) ?? ''
    if (event.type === 'citation-start') said.cited.push(...citedIn(message?.citations ?? null))
    if (event.type === 'message-end') {
      said.reason = delta?.finish_reason ?? null
      said.usage = spent(object(delta?.usage))
    }
  }
  for (const [index, call] of said.calls.entries()) call.args = argsOf(written[index] ?? '')
  return said
}

const KINDS: { readonly [reason: string]: string } = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  TOOL_CALL: 'tool-calls',
  MAX_TOKENS: 'length',
}

const check = (events: readonly ChatEvent[], said: Said): void => {
  const answer = fold(events)
  assert.equal(answer.failure, undefined)
  assert.equal(answer.id ?? null, said.id)
  const words = (type: string, planned: boolean) =>
    answer.blocks
      .filter((block) => block.type === type && (block.proof?.value === 'tool_plan') === planned)
      .map((block) => block.text)
      .join('')
  assert.equal(words('text', false), said.text)
  assert.equal(words('reasoning', false), said.thoughts)
  assert.equal(words('reasoning', true), said.plan)
  assert.deepEqual(
    answer.blocks.flatMap((block) =>
      block.type === 'tool-call' ? [{ id: block.id, name: block.name, args: JSON.parse(block.text) }] : [],
    ),
    said.calls,
  )
  const citations = answer.blocks.flatMap((block) => (block.citations ?? []).map((one) => ({ ...one, of: block.text })))
  assert.deepEqual(
    citations.map(({ raw, start, end, of }) => [
      of.slice(start, end),
      object(list(object(raw)?.sources)[0])?.id ?? null,
    ]),
    said.cited,
  )
  const { input, output, reasoning = 0, cacheRead = 0 } = answer.usage ?? { input: 0, output: 0 }
  assert.deepEqual({ input, output, reasoning, cached: cacheRead }, said.usage)
  assert.ok(cacheRead <= input && reasoning <= output)
  assert.equal(events.filter(({ type }) => type === 'finish').length, 1)
  assert.deepEqual(answer.finish, { kind: KINDS[String(said.reason)], raw: said.reason })
  assert.equal(said.calls.length > 0, answer.finish?.kind === 'tool-calls')
}

// ── To clients ───────────────────────────────────────────────────────────────────────────────────────────────────

const SCHEMAS = {
  'openai-chat': ['openai:wire', 'CreateChatCompletionResponse'],
  'openai-responses': ['openai:wire', 'Response'],
  'anthropic-messages': ['anthropic:wire', 'BetaMessage'],
} as const

const context = (): AnswerContext => {
  const request: ChatRequest = { model: 'm', stream: true, messages: [], tools: [], settings: {}, extras: [] }
  let made = 0
  return { request, body: {}, id: (prefix) => `${prefix}_made${made++}`, created: 1, model: 'm', requestId: 'req_x' }
}

/** Every style of client is told the same answer, whole and streamed, by its published schema. */
const tellClients = (events: readonly ChatEvent[], said: Said): void => {
  for (const style of Object.values(sharedProtocols)) {
    const [schema, definition] = SCHEMAS[style.name]
    const whole = style.encodeAnswer(fold(events), context())
    assert.equal(problemsOf(schema, definition, whole), undefined, style.name)
    const stream = run(style.encodeStream(context()), [{ events }])
    const again = fold(run(style.decodeStream(), run(sseFrames(), stream)))
    assert.equal(again.failure, undefined)
    for (const told of [again, fold(style.decodeAnswer(whole))]) {
      const texts = told.blocks.flatMap((block) => (block.type === 'text' ? [block.text] : []))
      assert.equal(texts.join(''), said.text, style.name)
      const calls = told.blocks.filter((block) => block.type === 'tool-call')
      assert.deepEqual(
        calls.map((block) => ({ id: block.id, name: block.name, args: JSON.parse(block.text) })),
        said.calls,
      )
      const thoughts = told.blocks.flatMap((block) => (block.type === 'reasoning' ? [block] : []))
      assert.equal(thoughts.map((block) => block.text).join(''), said.plan + said.thoughts, style.name)
    }
    replay(style.name, whole, said)
  }
}

/** A client's next question, after an answer it kept as it was told. */
const AGAIN: { readonly [style in keyof typeof SCHEMAS]: (whole: JsonObject) => JsonObject } = {
  'openai-chat': ({ choices }) => ({
    model: 'm',
    messages: [{ role: 'user', content: 'q' }, object(list(choices)[0])?.message ?? null],
  }),
  'openai-responses': ({ output }) => ({ model: 'm', input: [{ role: 'user', content: 'q' }, ...list(output)] }),
  'anthropic-messages': ({ content }) => ({
    model: 'm',
    max_tokens: 9,
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: content ?? null },
    ],
  }),
}

/** Whoever keeps what it was told sends the plan back to where it came from, and the thoughts. */
const replay = (style: keyof typeof SCHEMAS, whole: JsonObject, said: Said): void => {
  const request = sharedProtocols[style].decodeRequest(AGAIN[style](whole))
  assert.ok(request.ok, style)
  const { body, losses } = cohere.encodeRequest(request.value, { model: 'command-a-reasoning-08-2025' })
  assert.deepEqual(
    losses.filter(({ at }) => !/\.(refusal|annotations|citations)$/.test(at)),
    [],
    style,
  )
  const sent = object(list(body.messages)[1]) ?? {}
  assert.equal(sent.tool_plan ?? '', said.plan, style)
  const kept = list(sent.content).map((one) => text(object(one)?.thinking) ?? '')
  assert.equal(kept.join(''), said.thoughts, style)
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

recordingsAreHere()

test('recordings of cohere: all that are left out are of the older version', { skip }, () => {
  const left = everything.filter((recording) => !recordings.includes(recording))
  for (const { id, status, response, chunks } of left)
    assert.ok(status === 404 || chunks || object(response)?.generation_id !== undefined, id)
  assert.ok(recordings.length >= 43, String(recordings.length))
})

describe('recorded answers of v2/chat', { skip }, () => {
  for (const { id, status, response, chunks } of recordings) {
    if (status !== 200 || chunks) continue
    test(id, () => {
      assert.ok(isObject(response))
      const said = saidIn(response)
      const events = cohere.decodeAnswer(response)
      check(events, said)
      tellClients(events, said)
    })
  }
})

describe('recorded streams of v2/chat', { skip }, () => {
  for (const { id, status, chunks } of recordings) {
    if (status !== 200 || !chunks) continue
    test(id, () => {
      const source = chunks.map((chunk) => `${chunk}\n\n`)
      const frames = run(sseFrames(), source)
      const wire = frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
      const said = saidInStream(wire)
      const events = run(cohere.decodeStream(), frames)
      check(events, said)
      tellClients(events, said)
      // One character at a time the events are the same.
      assert.deepEqual(run(cohere.decodeStream(), run(sseFrames(), [...source.join('')])), events)
      // Cut anywhere before its last event it is never taken for complete.
      const last = wire.findIndex(({ type }) => type === 'message-end')
      for (let cut = 0; cut < last; cut++) {
        const heard = run(cohere.decodeStream(), frames.slice(0, cut))
        assert.deepEqual(heard.at(-1)?.type, 'failure')
        assert.ok(heard.every(({ type }) => type !== 'finish'))
      }
    })
  }
})

describe('recorded errors of v2/chat', { skip }, () => {
  let seen = 0
  for (const { id, status, response } of everything) {
    if (status === 200 || status === null) continue
    seen++
    test(id, () => {
      const failure = cohere.decodeFailure(status, response, () => undefined)
      assert.equal(failure.kind, status === 404 ? 'model_missing' : 'context_length')
      assert.equal(failure.upstream?.message, object(response)?.message)
      assert.equal(failure.upstream?.requestId, object(response)?.id)
    })
  }
  test('there are some', () => assert.ok(seen >= 3, String(seen)))
})
