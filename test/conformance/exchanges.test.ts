/**
 * Checks translation with the project's own exchanges (`test/exchanges/README.md`), which every clone has. Recordings add
 * real traffic where they are present.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { type ChatAnswer, type ChatEvent, fold, type UpstreamProtocolName } from '../../src/core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { sharedProtocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { ACCEPTS_ALL } from '../support/accepts-all.ts'
import {
  absences,
  asRecordings,
  type Exchange,
  exchanges,
  features,
  featureTable,
  formatNames,
  README,
  readingOf,
} from '../support/exchanges.ts'
import { type Recording, recordingsPresent } from '../support/recordings.ts'
import { eventsOf as definitions, problemsOf, type SchemaName } from '../support/schemas.ts'
import { finishKindOf, joinReasoning } from './answer-oracle.ts'
import { Tally } from './tally.ts'
import {
  byteByByte,
  bytesOf,
  decodeSteps,
  EXCHANGES,
  eventsOf,
  payloadsOf,
  testTranslations,
} from './translation-suite.ts'
import { upstreamReaders } from './upstream-view.ts'

const tally = new Tally('own exchanges')
/** A tally of its own, because a clone without the published schemas has no such rows. */
const schemaTally = new Tally('own exchanges by schema')

const all = exchanges()

/** The exchange of a feature in a format. */
const find = (protocol: UpstreamProtocolName, feature: string): Exchange | undefined =>
  all.find((exchange) => exchange.protocol === protocol && exchange.feature === feature)

/** Runs a check over all exchanges of each format, a row of the table for each. */
const eachFormat = (title: string, check: (exchange: Exchange) => string | undefined): void => {
  for (const name of formatNames)
    test(`exchanges: ${title}: ${name}`, () => {
      const wrong = tally.checkEach(
        `${upstreamProtocols[name].style} ${title}`,
        all.filter(({ protocol }) => protocol === name),
        ({ feature }) => feature,
        check,
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
}

after(() => {
  tally.print()
  schemaTally.print()
})

// ── The files ────────────────────────────────────────────────────────────────────────────────────────────────────

test('exchanges: each format has each feature, or absent.json has the reason', () => {
  const absent = absences()
  assert.ok(features().length >= 20)
  for (const feature of features())
    for (const name of formatNames) {
      const why = absent.get(feature)?.get(name)
      assert.notEqual(find(name, feature) === undefined, why === undefined, `${name} ${feature}`)
      assert.notEqual(why, '')
    }
  for (const feature of absent.keys()) assert.ok(features().includes(feature), `absent.json: no feature ${feature}`)
})

test('exchanges: each file has the members of the README, and no others', () => {
  const known = ['protocol', 'feature', 'about', 'request', 'whole', 'stream', 'reading']
  for (const exchange of all) {
    const name = `${exchange.protocol}/${exchange.feature}`
    assert.deepEqual(
      Object.keys(exchange).filter((member) => !known.includes(member)),
      [],
      name,
    )
    assert.ok(exchange.about && object(exchange.request) && object(exchange.reading), name)
    assert.ok(exchange.whole ?? exchange.stream, `${name} has no answer`)
  }
})

test('exchanges: the table of the README is current', () =>
  assert.ok(README().includes(featureTable()), `test/exchanges/README.md needs this table:\n\n${featureTable()}`))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The format of the original request: chat completions, unless it lacks the feature. */
const sourceFormat = (feature: string) =>
  feature === 'tool-result-image' ? sharedProtocols['anthropic-messages'] : sharedProtocols['openai-chat']

const encode = (name: UpstreamProtocolName, feature: string, stream: boolean): JsonObject => {
  const from = sourceFormat(feature)
  const body = find(from.name, feature)?.request
  assert.ok(body, `${from.name} lacks ${feature}`)
  const request = from.decodeRequest({ ...body, stream })
  assert.ok(request.ok, JSON.stringify(request))
  const encoded = upstreamProtocols[name].encodeRequest(request.value, {
    model: 'example-model',
    outputLimit: 8_192,
    ...ACCEPTS_ALL,
  })
  const unfit = encoded.losses.filter((loss) => loss.essential)
  assert.deepEqual(unfit, [])
  return encoded.body
}

eachFormat('request (whole)', ({ protocol, feature, request }) => {
  if (protocol === sourceFormat(feature).name) return 'the original request'
  assert.deepEqual(encode(protocol, feature, false), request)
  return undefined
})

/** Members whose value differs when a stream is requested. */
const STREAMED = ['stream', 'stream_options']

eachFormat('request (stream)', ({ protocol, feature, request }) => {
  if (protocol === sourceFormat(feature).name) return 'the original request'
  const without = (body: JsonObject) =>
    Object.fromEntries(Object.entries(body).filter(([name]) => !STREAMED.includes(name)))
  assert.deepEqual(without(encode(protocol, feature, true)), without(request))
  return undefined
})

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const hasIds = ({ reading }: Exchange): boolean => reading.calls?.every(({ id }) => id !== undefined) ?? true

const decoded = (
  recording: Recording,
  name: UpstreamProtocolName,
  pieces: Iterable<Uint8Array>,
): readonly ChatEvent[] => eventsOf(decodeSteps(recording, upstreamProtocols[name], pieces))

const assertReading = (exchange: Exchange, answer: ChatAnswer): void =>
  assert.deepEqual(readingOf(answer, !hasIds(exchange)), exchange.reading)

/** Whole or streamed, in one piece. */
eachFormat('decoded', (exchange) => {
  for (const recording of asRecordings(exchange))
    assertReading(exchange, fold(decoded(recording, exchange.protocol, [bytesOf(recording)])))
  return undefined
})

/** The counts that the independent readers read. They compare neither what is billed nor the calls of hosted tools. */
const tokensIn = ({ billed: _, toolCalls: __, ...tokens }: Exchange['reading']['usage'] = {}) => tokens

/** A reader that shares no code with the decoders finds the same content. */
eachFormat('independent reader', ({ protocol, reading, whole, stream, request }) => {
  if (reading.failure) return 'an error'
  const { readWhole, readStream } = upstreamReaders[protocol]
  const expected = {
    text: reading.text ?? '',
    refusal: reading.refusal ?? '',
    reasoning: joinReasoning([reading.reasoning ?? '']),
    calls: (reading.calls ?? []).map(({ id = '', name, input }) => ({ id, name, input })),
    citedUrls: reading.cited ?? [],
    finish: reading.finish,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0, ...tokensIn(reading.usage) },
  }
  const answers = asRecordings({ protocol, feature: '', about: '', request, reading, ...(stream && { stream }) })
  const observed = [
    ...(whole ? [readWhole(whole.body)] : []),
    ...answers.map((recording) => readStream(payloadsOf(recording))),
  ]
  for (const one of observed) {
    const { foreign, finishReason: _, ...rest } = one
    assert.deepEqual({ ...rest, finish: finishKindOf(one) }, expected)
    assert.deepEqual(foreign, [])
  }
  return undefined
})

// ── Cuts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Chunk boundaries do not matter; `exchange-cuts.test.ts` cuts at every position. */
eachFormat('byte by byte', (exchange) => {
  for (const recording of asRecordings(exchange)) {
    const bytes = bytesOf(recording)
    const events = decoded(recording, exchange.protocol, [bytes])
    assert.deepEqual(decoded(recording, exchange.protocol, byteByByte(bytes)), events)
  }
  return undefined
})

// ── Signatures ───────────────────────────────────────────────────────────────────────────────────────────────────

const FOLLOW_UPS = {
  'openai-chat': (body: JsonObject) => {
    const message = object(object(list(body.choices)[0])?.message) ?? {}
    return {
      messages: [
        { role: 'user', content: 'What is the weather?' },
        message,
        ...list(message.tool_calls).map((call) => {
          return { role: 'tool', tool_call_id: object(call)?.id ?? null, content: 'clear' }
        }),
      ],
    }
  },
  'anthropic-messages': (body: JsonObject) => ({
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'What is the weather?' },
      { role: 'assistant', content: body.content ?? null },
      {
        role: 'user',
        content: list(body.content).flatMap((block) => {
          const { type, id = null } = object(block) ?? {}
          return type === 'tool_use' ? [{ type: 'tool_result', tool_use_id: id, content: 'clear' }] : []
        }),
      },
    ],
  }),
  'openai-responses': (body: JsonObject) => ({
    input: [
      { role: 'user', content: 'What is the weather?' },
      ...list(body.output),
      ...list(body.output).flatMap((item) => {
        const { type, call_id = null } = object(item) ?? {}
        return type === 'function_call' ? [{ type: 'function_call_output', call_id, output: 'clear' }] : []
      }),
    ],
  }),
} as const

const FIRST_REQUESTS = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  'openai-responses': { model: 'm', input: 'hi', include: ['reasoning.encrypted_content'] },
  'anthropic-messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
} as const satisfies { readonly [style in keyof typeof FOLLOW_UPS]: JsonObject }

/** The next request of a client that received the answer, encoded for the provider of the answer. */
const followUp = (answer: ChatAnswer, style: keyof typeof FOLLOW_UPS, name: UpstreamProtocolName): JsonObject => {
  const client = sharedProtocols[style]
  const first = client.decodeRequest(FIRST_REQUESTS[style])
  assert.ok(first.ok)
  const body = client.encodeAnswer(answer, {
    request: first.value,
    body: FIRST_REQUESTS[style],
    id: (prefix: string) => `${prefix}_made`,
    created: 1,
    model: 'm',
    requestId: 'req_made',
  })
  const next = { ...FIRST_REQUESTS[style], ...FOLLOW_UPS[style](body) }
  const target = {
    model: 'm',
    outputLimit: 100,
    accepts: { ...ACCEPTS_ALL.accepts, reasoning: ['reasoning_details'] },
  } as const
  // Client and provider use the same format: the body passes through.
  if (style === name) return client.passing.adaptRequest(next, target)
  const request = client.decodeRequest(next)
  assert.ok(request.ok, JSON.stringify(request))
  return upstreamProtocols[name].encodeRequest(request.value, target).body
}

/**
 * A client receives the answer and sends it back with the tool result: the signature returns unchanged. Signatures of chat
 * completions have no origin that another format could express, so they return through chat completions only.
 */
eachFormat('signature returned', (exchange) => {
  const { protocol, reading } = exchange
  const [proof] = reading.signatures ?? []
  if (proof === undefined) return 'without a signature'
  const styles = Object.keys(FOLLOW_UPS) as (keyof typeof FOLLOW_UPS)[]
  for (const style of protocol === 'openai-chat' ? (['openai-chat'] as const) : styles)
    for (const recording of asRecordings(exchange)) {
      const answer = fold(decoded(recording, protocol, [bytesOf(recording)]))
      const back = JSON.stringify(followUp(answer, style, protocol))
      assert.ok(back.includes(JSON.stringify(proof)), `lost through ${style}: ${back}`)
    }
  return undefined
})

// ── Published schemas ────────────────────────────────────────────────────────────────────────────────────────────

type FormatSchemas = {
  readonly request: readonly [SchemaName, string]
  readonly whole?: readonly [SchemaName, string]
  /** The definition of an event. */
  readonly event?: (event: JsonObject) => readonly [SchemaName, string] | undefined
  /** The definition of each of `choices`, where that of the whole body is not usable. */
  readonly choice?: readonly [SchemaName, string]
  /** The definition of an error body. */
  readonly error?: readonly [SchemaName, string]
}

const byType = (schema: SchemaName, prefix: string) => (event: JsonObject) => {
  const type = text(event.type) ?? ''
  // No published schema has `ping`.
  if (type === 'ping') return undefined
  return [schema, definitions(schema, prefix).get(type) ?? `no event ${type}`] as const
}

/** Cohere and Ollama publish no schema; the schemas of their requests are written from their documentation. */
const SCHEMAS: { readonly [name in UpstreamProtocolName]: FormatSchemas } = {
  'openai-chat': {
    request: ['openai', 'CreateChatCompletionRequest'],
    whole: ['openai:wire', 'CreateChatCompletionResponse'],
    event: () => ['openai:wire', 'CreateChatCompletionStreamResponse'],
    error: ['openai:wire', 'ErrorResponse'],
  },
  'openai-responses': {
    request: ['openai', 'CreateResponse'],
    whole: ['openai:wire', 'Response'],
    event: byType('openai:wire', 'Response'),
    error: ['openai:wire', 'ErrorResponse'],
  },
  'anthropic-messages': {
    request: ['anthropic', 'BetaCreateMessageParams'],
    whole: ['anthropic:wire', 'BetaMessage'],
    event: byType('anthropic:wire', 'Beta'),
    error: ['anthropic:wire', 'ErrorResponse'],
  },
  gemini: {
    request: ['gemini', 'GenerateContentRequest'],
    whole: ['gemini', 'GenerateContentResponse'],
    event: () => ['gemini', 'GenerateContentResponse'],
  },
  'bedrock-converse': {
    request: ['bedrock', 'ConverseRequest'],
    whole: ['bedrock', 'ConverseResponse'],
    event: () => ['bedrock', 'ConverseStreamOutput'],
  },
  mistral: {
    request: ['mistral', 'ChatCompletionRequest'],
    // The published definition of a whole answer requires a member `data`, which no answer has.
    choice: ['mistral', 'ChatCompletionChoice'],
    event: () => ['mistral', 'CompletionChunk'],
  },
  cohere: { request: ['cohere', 'Request'] },
  ollama: { request: ['ollama', 'ChatRequest'] },
}

const assertValid = (by: readonly [SchemaName, string] | undefined, value: Json): void => {
  if (by) assert.equal(problemsOf(by[0], by[1], value), undefined, JSON.stringify(value))
}

const isError = (event: JsonObject): boolean =>
  event.error !== undefined || event.type === 'error' || event.object === 'error'

describe('exchanges: the published schemas', {
  skip: recordingsPresent ? false : 'the published schemas are not present',
}, () => {
  for (const name of formatNames)
    test(`exchanges: every request, body and event of ${name} is valid`, () => {
      const { request, whole, choice, event, error } = SCHEMAS[name]
      const wrong = schemaTally.checkEach(
        upstreamProtocols[name].style,
        all.filter(({ protocol }) => protocol === name),
        ({ feature }) => feature,
        (exchange) => {
          assertValid(request, exchange.request)
          if (exchange.whole) assertValid(exchange.whole.status < 400 ? whole : error, exchange.whole.body)
          for (const one of list(object(exchange.whole?.body)?.choices)) assertValid(choice, one)
          for (const one of exchange.stream ?? []) {
            const held = object(one)
            if (held && !isError(held)) assertValid(event?.(held), held)
          }
          return undefined
        },
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
})

// ── Translations ─────────────────────────────────────────────────────────────────────────────────────────────────

testTranslations(EXCHANGES, ...formatNames)
