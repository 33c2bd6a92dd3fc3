/** Requests and answers of messages, decoded and encoded again: on the project's own exchanges, and on recordings where they are present. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { answerContext } from '../../../test/support/builders.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { readWire, requireRecordings, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent } from '../../../test/support/schemas.ts'
import { type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import { textOf } from '../../core/encoded-text.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { anthropicMessages } from './index.ts'

const recordings = evidenceOf('anthropic-messages')

const valid = (schema: 'anthropic' | 'anthropic:wire', definition: string, value: unknown): void =>
  assert.equal(problemsIfPresent(schema, definition, value), undefined, JSON.stringify(value).slice(0, 800))

/** Recordings excluded from a case, with the reason. */
const EXCEPT = {
  request: new Map([
    ['messages-test-tool-availability-portability', 'a system message with a block of a kind no published schema has'],
  ]),
  answer: new Map([['messages-anthropic-fallback', 'a block of a kind no published schema has']]),
  stop: new Map([
    [
      'messages-anthropic-programmatic-tool-calling-1-c48dbfaf',
      'the fixture joins several turns: it has tool calls and stop reason end_turn',
    ],
  ]),
  published: new Map([
    ['code_execution_20260521', 'a tool newer than the published schema'],
    ['advisor_20260301', 'members newer than the published schema'],
    ['advisor_result', 'members newer than the published schema'],
  ]),
}
const why = (exceptions: ReadonlyMap<string, string>, name: string): string | undefined =>
  [...exceptions].find(([part]) => name.includes(part))?.[1]

const context = (request?: ChatRequest): AnswerContext =>
  answerContext({ ...(request && { request }), created: 0, model: 'model', requestId: 'req_x' })

// ── Independent reading of answers, without the codec ───────────────────────────────────────────────────────────────

type Said = {
  text: string
  calls: { id: Json; name: Json; input: Json }[]
  thoughts: Json[]
  foreign: Json[]
  stop: Json
  sequence: Json
  usage: { [count: string]: number }
  model: Json
  explanation: string
}

const usageOf = (raw: JsonObject): Said['usage'] =>
  Object.fromEntries(
    ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'].map((name) => [
      name,
      Number(raw[name] ?? 0),
    ]),
  )

const saidIn = (message: JsonObject): Said => {
  const blocks = list(message.content).map((block) => object(block) ?? {})
  const stop = object(message.stop_details)
  return {
    text: blocks.flatMap((block) => (block.type === 'text' ? [text(block.text) ?? ''] : [])).join(''),
    calls: blocks.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id ?? null, name: block.name ?? null, input: block.input ?? null }] : [],
    ),
    thoughts: blocks.flatMap((block) =>
      block.type === 'thinking'
        ? [[block.thinking ?? null, block.signature ?? null]]
        : block.type === 'redacted_thinking'
          ? [[block.data ?? null]]
          : [],
    ),
    foreign: blocks.filter(
      ({ type }) => !['text', 'tool_use', 'thinking', 'redacted_thinking'].includes(text(type) ?? ''),
    ),
    stop: message.stop_reason ?? null,
    sequence: message.stop_sequence ?? null,
    usage: usageOf(object(message.usage) ?? {}),
    model: message.model ?? null,
    explanation: text(stop?.explanation) ?? '',
  }
}

/** The first message of a stream, assembled. */
const assembled = (events: readonly JsonObject[]): JsonObject => {
  let message: { [member: string]: Json } = {}
  const blocks: { [member: string]: Json }[] = []
  const inputs = new Map<number, string>()
  for (const event of events) {
    const index = Number(event.index)
    const delta = object(event.delta) ?? {}
    const block = blocks[index]
    if (event.type === 'message_start') message = { ...(event.message as JsonObject) } as typeof message
    else if (event.type === 'content_block_start') blocks[index] = { ...(event.content_block as typeof message) }
    else if (event.type === 'content_block_delta' && block) {
      if (delta.type === 'text_delta') block.text = `${block.text}${delta.text}`
      else if (delta.type === 'thinking_delta') block.thinking = `${block.thinking}${delta.thinking}`
      else if (delta.type === 'signature_delta') block.signature = delta.signature ?? null
      else if (delta.type === 'input_json_delta') inputs.set(index, `${inputs.get(index) ?? ''}${delta.partial_json}`)
      else if (delta.type === 'compaction_delta') block.content = delta.content ?? null
    } else if (event.type === 'content_block_stop' && block) {
      const input = inputs.get(index)
      if (input) block.input = JSON.parse(input)
    } else if (event.type === 'message_delta') {
      const usage = { ...object(message.usage), ...object(event.usage) } as JsonObject
      message = { ...message, ...(delta as typeof message), usage }
    } else if (event.type === 'message_stop') break
  }
  return { ...message, content: blocks }
}

const eventsIn = (chunks: readonly string[]): JsonObject[] =>
  chunks.flatMap((chunk) => {
    const data = chunk
      .split('\n')
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(5))
      .join('\n')
    return data.trim() === '' ? [] : [JSON.parse(data)]
  })

const framesOf = (pieces: readonly string[]): Frame[] => run(sseFrames(), pieces)

/** Compares answers after decoding and encoding: an explanation becomes text, the rest is equal. */
const expected = (said: Said): Said => ({ ...said, text: said.text + said.explanation })

const same = (actual: Said, before: Said): void => {
  const { explanation: _, ...given } = actual
  const { explanation: __, ...was } = expected(before)
  assert.deepEqual(given, was)
}

const written = (writer: StreamWriter, steps: readonly StreamStep[]): string[] => run(writer, steps).map(textOf)

const checkStream = (pieces: readonly string[], before: Said): void => {
  for (const piece of pieces) assert.match(piece, /^event: [a-z_]+\ndata: [^\n]+\n\n$/)
  const events = eventsIn(pieces)
  for (const event of events)
    if (event.type !== 'ping') valid('anthropic:wire', String(DEFS[String(event.type)]), event)
  const indexes = events.filter(({ type }) => type === 'content_block_start').map(({ index }) => index)
  assert.deepEqual(indexes, [...indexes.keys()])
  same(saidIn(assembled(events)), before)
}

const DEFS: { readonly [type: string]: string } = {
  message_start: 'BetaMessageStartEvent',
  message_delta: 'BetaMessageDeltaEvent',
  message_stop: 'BetaMessageStopEvent',
  content_block_start: 'BetaContentBlockStartEvent',
  content_block_delta: 'BetaContentBlockDeltaEvent',
  content_block_stop: 'BetaContentBlockStopEvent',
}

const noFailure = (events: readonly ChatEvent[]): void =>
  assert.equal(
    events.find(({ type }) => type === 'failure'),
    undefined,
  )

requireRecordings()

describe('answers', () => {
  for (const { id: name, status, response, chunks } of recordings) {
    if (status !== 200 || response === null || chunks) continue
    test(name, () => {
      const given = saidIn(object(response) ?? {})
      const before = why(EXCEPT.stop, name) ? { ...given, stop: 'tool_use' } : given
      const events = anthropicMessages.decodeAnswer(response)
      noFailure(events)
      const answer = fold(events)
      const again = anthropicMessages.encodeAnswer(answer, context())
      same(saidIn(again), before)
      if (!why(EXCEPT.answer, name)) valid('anthropic:wire', 'BetaMessage', again)
      if (!why(EXCEPT.answer, name))
        checkStream(written(anthropicMessages.encodeStream(context()), [{ events }]), before)
    })
  }
})

describe('streams', () => {
  for (const { id: name, status, chunks } of recordings) {
    if (status !== 200 || !chunks) continue
    test(name, () => {
      const source = chunks.map((chunk) => `${chunk}\n\n`)
      const before = saidIn(assembled(eventsIn(chunks)))
      const frames = framesOf(source)
      const decoder = anthropicMessages.decodeStream()
      const steps: StreamStep[] = frames.map((frame) => ({ frame, events: decoder.push(frame) }))
      steps.push({ events: decoder.end() })
      const events = steps.flatMap((step) => step.events)
      noFailure(events)
      assert.equal(events.filter(({ type }) => type === 'finish').length, 1)
      const answer = fold(events)
      same(saidIn(anthropicMessages.encodeAnswer(answer, context())), before)
      checkStream(
        written(
          anthropicMessages.encodeStream(context()),
          steps.map((step) => ({ events: step.events })),
        ),
        before,
      )
      // Passing: byte for byte up to the first end, plus event names missing in some fixtures.
      const passed = written(anthropicMessages.passing.passStream(context()), steps).join('')
      const last = source.findIndex((chunk) => chunk.includes('"message_stop"'))
      const named = source.slice(0, last + 1).map((chunk) => {
        const type = /"type":\s*"([a-z_]+)"/.exec(chunk)?.[1]
        return chunk.startsWith('event:') ? chunk : `event: ${type}\n${chunk}`
      })
      assert.equal(passed, named.join(''))
      // One character at a time the events are the same.
      assert.deepEqual(run(anthropicMessages.decodeStream(), framesOf([...source.join('')])), events)
    })
  }
})

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A request in canonical form: strings for single texts, explicit defaults. */
const normal = (body: JsonObject): JsonObject => {
  const said = JSON.parse(
    JSON.stringify(body, (name, value) => (value === null && UNSAID.has(name) ? undefined : value)),
  )
  return plain(said)
}

const UNSAID = new Set(['cache_control', 'citations', 'title', 'context'])

const plain = (body: JsonObject): JsonObject => {
  const { stream, system, messages, tools, output_format, output_config, ...rest } = body
  const config = { ...object(output_config), ...(output_format ? { format: output_format } : {}) }
  return {
    ...rest,
    ...(stream === true && { stream }),
    ...(system !== undefined && { system: blocksOf(system) }),
    ...(Object.keys(config).length > 0 && { output_config: config }),
    ...(isList(tools) && tools.length > 0 && { tools: tools.map(normalTool) }),
    messages: merged(list(messages)),
    ...(isObject(rest.tool_choice) && { tool_choice: normalChoice(rest.tool_choice) }),
  }
}

const normalChoice = ({ disable_parallel_tool_use, ...choice }: JsonObject): JsonObject => ({
  ...choice,
  ...(disable_parallel_tool_use === true && { disable_parallel_tool_use }),
})

const normalTool = (tool: Json): Json => {
  if (!isObject(tool)) return tool
  const { strict, ...rest } = tool
  return { ...rest, ...(strict === true && { strict }) }
}

const blocksOf = (content: Json | undefined): Json[] =>
  typeof content === 'string'
    ? [{ type: 'text', text: content }]
    : list(content).map((block) => {
        if (!isObject(block)) return block
        if (block.type !== 'tool_result') return block
        const { is_error, content: inner, ...rest } = block
        const blocks = blocksOf(inner)
        return { ...rest, content: blocks, ...(is_error === true && { is_error }) }
      })

const merged = (messages: readonly Json[]): Json[] => {
  const turns: { role: Json; content: Json[] }[] = []
  for (const message of messages) {
    if (!isObject(message)) continue
    const last = turns.at(-1)
    if (last && last.role === message.role) last.content.push(...blocksOf(message.content))
    else turns.push({ role: message.role ?? null, content: blocksOf(message.content) })
  }
  return turns
}

describe('requests', () => {
  for (const { id: name, request } of recordings) {
    if (!isObject(request) || why(EXCEPT.request, name)) continue
    test(name, (t) => {
      // Vertex has the version in the body and the model in the path.
      const { anthropic_version, ...rest }: JsonObject = request
      const body: JsonObject = { ...rest, model: request.model ?? 'model' }
      const decoded = anthropicMessages.decodeRequest(body)
      assert.ok(decoded.ok, JSON.stringify(decoded))
      const { body: again, losses } = anthropicMessages.encodeRequest(decoded.value, { model: String(body.model) })
      assert.deepEqual(losses, [])
      assert.deepEqual(normal(again), normal(body))
      const newer = why(EXCEPT.published, JSON.stringify(body))
      if (newer) {
        t.diagnostic(newer)
        assert.throws(() => valid('anthropic', 'BetaCreateMessageParams', body), 'no exception any more')
      } else valid('anthropic', 'BetaCreateMessageParams', again)
      const adapted = anthropicMessages.passing.adaptRequest(body, { model: 'other' })
      assert.equal(adapted.messages, body.messages)
      assert.deepEqual(adapted, { ...body, model: 'other' })
    })
  }
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const KINDS: { readonly [status: number]: readonly string[] } = {
  400: ['context_length', 'incompatible'],
  401: ['auth'],
  404: ['model_missing'],
  429: ['rate_limited'],
  529: ['overloaded'],
}

describe('errors', () => {
  for (const { id: name, status, response } of recordings) {
    if (status === 200 || status === null) continue
    test(name, () => {
      const failure = anthropicMessages.decodeFailure(status, response, () => undefined)
      assert.ok(KINDS[status]?.includes(failure.kind), failure.kind)
      assert.equal(failure.status, status)
      assert.equal(failure.message, text(object(object(response)?.error)?.message))
      assert.equal(failure.upstream?.requestId, text(object(response)?.request_id))
      valid(
        'anthropic:wire',
        'BetaErrorResponse',
        anthropicMessages.encodeFailure({ ...failure, kind: 'invalid_request' }, { requestId: 'req_x' }),
      )
    })
  }
})

/** Error bodies quoted in public threads, with their failure kind. */
const REPORTED: { readonly [id: string]: string } = {
  'anthropic-messages-529-0': 'overloaded',
  'anthropic-messages-200-1': 'overloaded',
  'anthropic-messages-200-2': 'error_in_stream',
  // Anthropic's error table classifies it as quota.
  'anthropic-messages-400-3': 'incompatible',
  'anthropic-messages-400-4': 'incompatible',
  'anthropic-messages-429-5': 'rate_limited',
}

describe('reported errors', { skip: skipWithoutRecordings }, () => {
  const reported = list(readWire('errors.reported.json')?.items).filter(isObject)
  for (const item of reported) {
    const id = String(item.id)
    if (item.api !== 'messages') continue
    test(id, () => {
      const kind = REPORTED[id]
      assert.ok(kind, `say what ${id} is`)
      const body = item.body ?? null
      const status = Number(item.status)
      assert.equal(anthropicMessages.decodeFailure(status, body, () => undefined).kind, kind)
      if (item.stream_event !== true) return
      const [event] = anthropicMessages.decodeStream().push({ event: 'error', data: JSON.stringify(body) })
      assert.equal(event?.type === 'failure' && event.failure.kind, kind)
    })
  }
})
