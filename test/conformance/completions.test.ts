/**
 * Everything upstreams were recorded to say, told to a client of the older completions, whole and as a stream: valid by
 * the published schema, the same text, the same end, the same counts. And everything such clients were recorded to ask,
 * asked of every upstream format: valid there, or refused by name.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { type ChatEvent, fold } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { AnswerContext, UpstreamProtocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { findProvider, loadProviders } from '../../src/edge/load-providers.ts'
import { readerFor } from '../../src/gateway/reader.ts'
import { refusalOf } from '../../src/gateway/refusal.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { openaiCompletions } from '../../src/protocols/openai-completions/index.ts'
import { fromChunk } from '../support/event-stream.ts'
import { type RecordedApi, type Recording, recordingsAreHere, recordingsOf, skip } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { Board } from './board.ts'

/** After the published CreateCompletionResponse. A chunk may lack usage, or have none but usage. */
const answer = (ends: object): object => ({
  type: 'object',
  additionalProperties: false,
  required: ['id', 'object', 'created', 'model', 'choices'],
  properties: {
    id: { type: 'string' },
    object: { const: 'text_completion' },
    created: { type: 'integer' },
    model: { type: 'string' },
    system_fingerprint: { type: 'string' },
    choices: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['text', 'index', 'logprobs', 'finish_reason'],
        properties: {
          text: { type: 'string' },
          index: { type: 'integer' },
          finish_reason: ends,
          logprobs: {
            type: ['object', 'null'],
            additionalProperties: false,
            properties: {
              text_offset: { type: 'array', items: { type: 'integer' } },
              token_logprobs: { type: 'array', items: { type: 'number' } },
              tokens: { type: 'array', items: { type: 'string' } },
              top_logprobs: {
                type: 'array',
                items: { type: 'object', additionalProperties: { type: 'number' } },
              },
            },
          },
        },
      },
    },
    usage: {
      type: ['object', 'null'],
      required: ['prompt_tokens', 'completion_tokens', 'total_tokens'],
      properties: {
        prompt_tokens: { type: 'integer' },
        completion_tokens: { type: 'integer' },
        total_tokens: { type: 'integer' },
      },
    },
  },
})
const REASONS = ['stop', 'length', 'content_filter']
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true })
const isWhole = ajv.compile(answer({ enum: REASONS }))
const isChunk = ajv.compile(answer({ enum: [...REASONS, null] }))

const providers = await loadProviders()
const board = new Board()

const CONTEXT: AnswerContext = (() => {
  const body = { model: 'm', prompt: 'x', stream: true, stream_options: { include_usage: true } }
  const request = openaiCompletions.decodeRequest(body)
  assert.ok(request.ok)
  return { request: request.value, body, id: (prefix) => `${prefix}_made`, created: 1, model: 'm', requestId: 'req_x' }
})()

/** The media types of streams, by how their events are told apart. */
const STREAMS: { readonly [framing: string]: string } = {
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson',
  'aws-eventstream': 'application/vnd.amazon.eventstream',
}

const bytesOf = ({ chunks, framing, response }: Recording): Uint8Array => {
  if (chunks && framing === 'aws-eventstream') return Buffer.concat(chunks.flatMap(fromChunk))
  const between = framing === 'ndjson' ? '\n' : '\n\n'
  const whole = typeof response === 'string' ? response : JSON.stringify(response)
  return new TextEncoder().encode(chunks ? chunks.join(between) + between : whole)
}

const read = (protocol: UpstreamProtocol, recording: Recording): readonly ChatEvent[] => {
  const { chunks, framing, status, response_headers: heads } = recording
  const type = heads?.['content-type'] ?? (chunks ? (STREAMS[framing ?? 'sse'] ?? '') : 'application/json')
  const reader = readerFor(
    { status: status ?? 200, headers: (name) => (name === 'content-type' ? type : heads?.[name]) },
    {
      protocol,
      quirks: findProvider(providers, recording.provider)?.quirks,
      translated: null,
      stream: chunks !== null,
      date: 0,
    },
  )
  return run(reader, [bytesOf(recording)]).flatMap(({ events }) => events)
}

const told = (protocol: UpstreamProtocol, recording: Recording): string | undefined => {
  const events = read(protocol, recording)
  const said = fold(events)
  if (said.failure) {
    const { body } = refusalOf(openaiCompletions, said.failure, { requestId: 'req_x', soonest: null })
    assert.equal(problemsOf('openai:wire', 'ErrorResponse', JSON.parse(body)), undefined)
    return (recording.status ?? 200) < 400 ? `${said.failure.kind} behind a 200` : undefined
  }
  if (!said.finish) return 'asked in the background, or about something else: not an answer'
  const whole = openaiCompletions.encodeAnswer(said, CONTEXT)
  assert.ok(isWhole(whole), JSON.stringify(isWhole.errors))
  const words = said.blocks.flatMap((block) => (block.type === 'text' || block.type === 'refusal' ? [block.text] : []))
  const choice = object(list(whole.choices)[0])
  assert.equal(choice?.text, words.join(''))
  if (said.usage) assert.equal(object(whole.usage)?.total_tokens, said.usage.input + said.usage.output)

  const frames = run(
    openaiCompletions.encodeStream(CONTEXT),
    events.map((event) => ({ events: [event] })),
  )
  assert.equal(frames.at(-1), 'data: [DONE]\n\n')
  const chunks = frames.slice(0, -1).map((frame): JsonObject => JSON.parse(frame.replace(/^data: /, '')))
  for (const chunk of chunks) assert.ok(isChunk(chunk), JSON.stringify(isChunk.errors))
  const choices = chunks.flatMap((chunk) => list(chunk.choices).map(object))
  assert.equal(choices.map((one) => text(one?.text) ?? '').join(''), choice?.text)
  assert.equal(choices.findLast((one) => one?.finish_reason !== null)?.finish_reason, choice?.finish_reason)
  if (said.usage) assert.deepEqual(chunks.at(-1)?.usage, whole.usage)
  return undefined
}

/** Where the recordings of a format are called otherwise than the format's style. */
const APIS: { readonly [style: string]: RecordedApi } = { bedrock: 'bedrock-converse' }

recordingsAreHere()

describe('recorded answers, told to a client of the older completions', { skip }, () => {
  for (const protocol of Object.values(upstreamProtocols)) {
    // A style is the name of its recordings, save where the table says otherwise.
    const api = APIS[protocol.style] ?? (protocol.style as RecordedApi)
    const recordings = recordingsOf(api)
    test(`${api} to a completions client`, () => {
      assert.ok(recordings.length > 10, String(recordings.length))
      const wrong = board.each(
        `${api} → completions`,
        recordings,
        ({ id }) => id,
        (recording) => told(protocol, recording),
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  }

  const asked = recordingsOf('completions').flatMap(({ id, request, status }) =>
    isObject(request) ? [{ id, request, status: status ?? 200 }] : [],
  )
  test('completions: enough of them', () => assert.ok(asked.length >= 20, String(asked.length)))
  for (const protocol of Object.values(upstreamProtocols))
    test(`completions asked of ${protocol.name}`, () => {
      const wrong = board.each(
        `completions request → ${protocol.style}`,
        asked,
        ({ id }) => id,
        ({ request, status }) => asks(protocol, request, status),
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  after(() => board.print())
})

/** Where a published schema says what may be asked; the other formats are held to theirs in their own tests. */
const PUBLISHED: { readonly [name: string]: Parameters<typeof problemsOf>[0] | undefined } = {
  'openai-chat': 'openai',
  'openai-responses': 'openai',
  'anthropic-messages': 'anthropic',
  gemini: 'gemini',
}
const DEFINITIONS: { readonly [name: string]: string } = {
  'openai-chat': 'CreateChatCompletionRequest',
  'openai-responses': 'CreateResponse',
  'anthropic-messages': 'BetaCreateMessageParams',
  gemini: 'GenerateContentRequest',
}

const asks = (protocol: UpstreamProtocol, body: JsonObject, status: number): string | undefined => {
  const request = openaiCompletions.decodeRequest(body)
  if (!request.ok) {
    const { param, kind } = request.failure
    if (status >= 400) return 'refused here as it was refused upstream'
    assert.equal(kind, 'unsupported')
    return `refused: ${param} ${shapeOf(body[param ?? ''])}`
  }
  const { body: sent, losses } = protocol.encodeRequest(request.value, { model: 'm', outputLimit: 8_192 })
  for (const { at, unfit } of losses) {
    assert.ok(Object.hasOwn(body, at), `a loss that is not in the request: ${at}`)
    assert.equal(unfit, false, at)
  }
  const schema = PUBLISHED[protocol.name]
  if (schema) assert.equal(problemsOf(schema, DEFINITIONS[protocol.name] ?? '', sent), undefined)
  return undefined
}

const shapeOf = (value: Json | undefined): string =>
  Array.isArray(value) ? `a list of ${typeof value[0]}s` : String(value)
