/**
 * The project's own exchanges (`test/exchanges/README.md`): every clone has them, so every clone can check what the
 * gateway claims about translation. Recordings add real traffic where they are present.
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
import { endOf, plain } from './answer-oracle.ts'
import { byteByByte, bytesOf, EXCHANGES, eventsOf, heldIn, steps, sweep } from './sweep.ts'
import { Tally } from './tally.ts'
import { hearing } from './upstream-view.ts'

const board = new Tally('own exchanges')
/** Apart, since a clone without the schemas has no such rows. */
const valid = new Tally('own exchanges by schema')

const all = exchanges()

/** The exchange of a feature in a format. */
const find = (protocol: UpstreamProtocolName, feature: string): Exchange | undefined =>
  all.find((exchange) => exchange.protocol === protocol && exchange.feature === feature)

/** Runs a check over all exchanges of each format, a row of the table for each. */
const eachFormat = (title: string, check: (exchange: Exchange) => string | undefined): void => {
  for (const name of formatNames)
    test(`exchanges: ${title}: ${name}`, () => {
      const wrong = board.each(
        `${upstreamProtocols[name].style} ${title}`,
        all.filter(({ protocol }) => protocol === name),
        ({ feature }) => feature,
        check,
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
}

after(() => {
  board.print()
  valid.print()
})

// ── The files ────────────────────────────────────────────────────────────────────────────────────────────────────

test('exchanges: each format has each feature, or absent.json says why not', () => {
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

/** Asked in chat completions, except what that format cannot ask for. */
const askedIn = (feature: string) =>
  feature === 'tool-result-image' ? sharedProtocols['anthropic-messages'] : sharedProtocols['openai-chat']

const sent = (name: UpstreamProtocolName, feature: string, stream: boolean): JsonObject => {
  const from = askedIn(feature)
  const body = find(from.name, feature)?.request
  assert.ok(body, `${from.name} lacks ${feature}`)
  const request = from.decodeRequest({ ...body, stream })
  assert.ok(request.ok, JSON.stringify(request))
  const encoded = upstreamProtocols[name].encodeRequest(request.value, {
    ...{ model: 'example-model', outputLimit: 8_192 },
    ...ACCEPTS_ALL,
  })
  const unfit = encoded.losses.filter((loss) => loss.essential)
  assert.deepEqual(unfit, [])
  return encoded.body
}

eachFormat('request', ({ protocol, feature, request }) => {
  if (protocol === askedIn(feature).name) return 'the source of the others'
  assert.deepEqual(sent(protocol, feature, false), request)
  return undefined
})

/** Members whose value differs when a stream is requested. */
const STREAMED = ['stream', 'stream_options']

eachFormat('request for a stream', ({ protocol, feature, request }) => {
  if (protocol === askedIn(feature).name) return 'the source of the others'
  const without = (body: JsonObject) =>
    Object.fromEntries(Object.entries(body).filter(([name]) => !STREAMED.includes(name)))
  assert.deepEqual(without(sent(protocol, feature, true)), without(request))
  return undefined
})

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const hasIds = ({ reading }: Exchange): boolean => reading.calls?.every(({ id }) => id !== undefined) ?? true

const decoded = (
  recording: Recording,
  name: UpstreamProtocolName,
  pieces: Iterable<Uint8Array>,
): readonly ChatEvent[] => eventsOf(steps(recording, upstreamProtocols[name], pieces))

const assertReading = (exchange: Exchange, answer: ChatAnswer): void =>
  assert.deepEqual(readingOf(answer, !hasIds(exchange)), exchange.reading)

/** Whole or streamed, in one piece. */
eachFormat('reading', (exchange) => {
  for (const recording of asRecordings(exchange))
    assertReading(exchange, fold(decoded(recording, exchange.protocol, [bytesOf(recording)])))
  return undefined
})

/** A second reader, which shares no code with the decoders, agrees with the file. */
eachFormat('second reader', ({ protocol, reading, whole, stream, request }) => {
  if (reading.failure) return 'an error'
  const { whole: ofBody, streamed } = hearing[protocol]
  const wanted = {
    text: reading.text ?? '',
    refusal: reading.refusal ?? '',
    reasoning: plain([reading.reasoning ?? '']),
    calls: (reading.calls ?? []).map(({ id = '', name, input }) => ({ id, name, input })),
    cited: reading.cited ?? [],
    finish: reading.finish,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0, ...reading.usage },
  }
  const answers = asRecordings({ ...{ protocol, feature: '', about: '', request, reading }, ...(stream && { stream }) })
  const said = [...(whole ? [ofBody(whole.body)] : []), ...answers.map((recording) => streamed(heldIn(recording)))]
  for (const one of said) {
    const { foreign, reason: _, ...rest } = one
    assert.deepEqual({ ...rest, finish: endOf(one) }, wanted)
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

const answeredIn = {
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

const QUESTIONS = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  'openai-responses': { model: 'm', input: 'hi', include: ['reasoning.encrypted_content'] },
  'anthropic-messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
} as const satisfies { readonly [style in keyof typeof answeredIn]: JsonObject }

/** The request that follows when a client of this style got the answer, as it goes to the provider of the answer. */
const followUp = (answer: ChatAnswer, style: keyof typeof answeredIn, name: UpstreamProtocolName): JsonObject => {
  const client = sharedProtocols[style]
  const asked = client.decodeRequest(QUESTIONS[style])
  assert.ok(asked.ok)
  const body = client.encodeAnswer(answer, {
    ...{ request: asked.value, body: QUESTIONS[style], id: (prefix: string) => `${prefix}_made`, created: 1 },
    ...{ model: 'm', requestId: 'req_made' },
  })
  const next = { ...QUESTIONS[style], ...answeredIn[style](body) }
  const target = {
    model: 'm',
    outputLimit: 100,
    accepts: { ...ACCEPTS_ALL.accepts, reasoning: ['reasoning_details'] },
  } as const
  // The same format on both sides: the body passes.
  if (style === name) return client.passing.adaptRequest(next, target)
  const request = client.decodeRequest(next)
  assert.ok(request.ok, JSON.stringify(request))
  return upstreamProtocols[name].encodeRequest(request.value, target).body
}

/**
 * The answer goes to a client, which sends it back with the result of the call: the signature returns unchanged. Those of
 * chat completions have no origin that another format could name, so they return through chat completions only.
 */
eachFormat('signature returned', (exchange) => {
  const { protocol, reading } = exchange
  const [proof] = reading.signatures ?? []
  if (proof === undefined) return 'without a signature'
  const styles = Object.keys(answeredIn) as (keyof typeof answeredIn)[]
  for (const style of protocol === 'openai-chat' ? (['openai-chat'] as const) : styles)
    for (const recording of asRecordings(exchange)) {
      const answer = fold(decoded(recording, protocol, [bytesOf(recording)]))
      const back = JSON.stringify(followUp(answer, style, protocol))
      assert.ok(back.includes(JSON.stringify(proof)), `lost by way of ${style}: ${back}`)
    }
  return undefined
})

// ── Published schemas ────────────────────────────────────────────────────────────────────────────────────────────

type Judges = {
  readonly request: readonly [SchemaName, string]
  readonly whole?: readonly [SchemaName, string]
  /** The definition of an event. */
  readonly event?: (event: JsonObject) => readonly [SchemaName, string] | undefined
  /** Of each of `choices`, where none of the whole body is usable. */
  readonly choice?: readonly [SchemaName, string]
  /** The definition of an error body. */
  readonly error?: readonly [SchemaName, string]
}

const byType = (schema: SchemaName, prefix: string) => (event: JsonObject) => {
  const type = text(event.type) ?? ''
  // No published document has it.
  if (type === 'ping') return undefined
  return [schema, definitions(schema, prefix).get(type) ?? `no event ${type}`] as const
}

/** Cohere and Ollama publish no schema; those of their requests are the project's own, from their documents. */
const JUDGES: { readonly [name in UpstreamProtocolName]: Judges } = {
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
  skip: recordingsPresent ? false : 'the published schemas are not here',
}, () => {
  for (const name of formatNames)
    test(`exchanges: every request, body and event of ${name} is valid`, () => {
      const { request, whole, choice, event, error } = JUDGES[name]
      const wrong = valid.each(
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

sweep(EXCHANGES, ...formatNames)
