/**
 * A client and an upstream of the same style: the running gateway passes bytes unchanged except where documented. Recorded
 * answers are passed to clients of the same and translated for clients of the other style.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { survey } from '../../src/core/json-text.ts'
import { piecesOf, replay } from '../support/answers.ts'
import { evidenceOf } from '../support/exchanges.ts'
import { withReasoningContent } from '../support/reasoning-names.ts'
import { type Recording, recordingsPresent, requireRecordings } from '../support/recordings.ts'
import { eventsOf, problemsIfPresent } from '../support/schemas.ts'
import {
  type Act,
  type RecordedRequest,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

const STYLES = ['chat', 'responses'] as const
type Style = (typeof STYLES)[number]
const PATHS = { chat: '/chat/completions', responses: '/responses' } as const

let upstream: Upstream
let gateway: Started
/** The upstream's next behaviour. */
let act: Act | ((upstreamRequest: UpstreamRequest) => Act)
before(async () => {
  upstream = await startUpstream((upstreamRequest) => {
    if (upstreamRequest.method === 'GET') return { do: 'answer', body: { data: [] } }
    return typeof act === 'function' ? act(upstreamRequest) : act
  })
  const base = `${upstream.url}/v1`
  gateway = await start({
    env: {
      // A provider for each set of formats.
      BOTH_API_KEY: 'sk-0000000000000000',
      BOTH_BASE_URL: base,
      BOTH_STYLES: 'chat,responses',
      CHAT_ONLY_API_KEY: 'sk-0000000000000000',
      CHAT_ONLY_BASE_URL: base,
      CHAT_ONLY_STYLES: 'chat',
      RESPONSES_ONLY_API_KEY: 'sk-0000000000000000',
      RESPONSES_ONLY_BASE_URL: base,
      RESPONSES_ONLY_STYLES: 'responses',
      FALLBACK: 'none',
      // Failures of one recording must not affect the next.
      CIRCUIT_WHEN_ALL_OPEN: 'try',
    },
  })
})
after(async () => {
  await gateway.stop()
  await upstream.close()
})

const lastRequest = (): RecordedRequest => {
  const upstreamRequest = upstream.requests.findLast(({ method }) => method === 'POST')
  assert.ok(upstreamRequest)
  return upstreamRequest
}

/** A small answer of each style, with unusual formatting. */
const WHOLE: Readonly<Record<Style, string>> = {
  chat: '{ "id":"chatcmpl-\\u0041","object":"chat.completion", "created":1, "model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"h\\u00e9 \\ud83d\\ude00"},"finish_reason":"stop"}],\n"big":12345678901234567890123,"float":1.50e+2,"x_new":{"b":1,"a":[ ]},"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n',
  responses:
    '{"id":"resp_1","object":"response","created_at":1.0,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"h\\u00e9","annotations":[]}]}], "big":98765432109876543210,"x_new":[{}],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}',
}

/** Request members that must pass unchanged. */
const ODD_MEMBERS = [
  '"big" : 123456789012345678901234567890',
  '"tiny":1e-7',
  '"float":1.0',
  '"escaped":"\\u00e9\\/\\ud83d\\ude00\\u2028"',
  '"raw":"é😀 \\" } ] , {"',
  '"nested":{ "b":1, "a" : [ 1,2 , {"model":"not this one"} ], "n":null }',
  '"stop":null',
  '"x-unknown":[]',
]

/**
 * The gateway stores this response, so it has a gateway id and the request's settings, and no member is missing. Every
 * other byte is the upstream's.
 */
const assertPassed = (style: Style, received: string, sent: string, id = ''): void => {
  if (style === 'chat') return assert.equal(received, sent, id)
  if (sent.startsWith('{')) return assertKept(received, sent, id)
  // A frame that carries the response is rewritten, with the event name first.
  const named = sent.replace(/^(data: .*"response":\{.*)\n(event: .*)$/gm, '$2\n$1')
  const [ours, theirs] = [received.split('\n'), named.split('\n')]
  assert.equal(ours.length, theirs.length, id)
  for (const [at, line] of theirs.entries()) {
    const mine = ours[at] ?? ''
    const response = membersOf(line.slice(6)).get('response')
    const kept = membersOf(mine.slice(6)).get('response')
    if (response === undefined || kept === undefined) assert.equal(mine, line, id)
    else {
      assert.equal(
        mine.replace(kept, () => ''),
        line.replace(response, () => ''),
        id,
      )
      assertKept(kept, response, id)
    }
  }
}

const OURS = new Set(['id', 'store', 'background', 'previous_response_id'])
/** Members that older servers omit. */
const FILLED = new Set(['text', 'tools', 'reasoning', 'usage', 'completed_at'])

const assertKept = (received: string, sent: string, id: string): void => {
  const kept = membersOf(received)
  for (const [name, theirs] of membersOf(sent)) {
    if (OURS.has(name) || theirs === 'null') continue
    const ours = kept.get(name) ?? ''
    if (FILLED.has(name) && ours !== theirs) assert.notDeepEqual(JSON.parse(ours), JSON.parse(theirs), `${id}: ${name}`)
    else assert.equal(ours, theirs, `${id}: ${name}`)
  }
  assert.match(kept.get('id') ?? '', /^"resp_hg[a-z]{24}"$/, id)
}

/** The source text of each member of a JSON object; empty for any other text. */
const membersOf = (source: string): ReadonlyMap<string, string> => {
  const found = source.trimStart().startsWith('{') ? survey(source, 1_000) : undefined
  return new Map(found?.ok ? found.members.map(({ key, value, end }) => [key, source.slice(value, end)]) : [])
}

describe('passing: requests of the same style', () => {
  for (const style of STYLES)
    for (const odd of [false, true])
      for (const renamed of [false, true])
        test(`${style}: ${odd ? 'unknown members' : 'a plain body'}, model ${renamed ? 'renamed' : 'unchanged'}`, async () => {
          act = { do: 'answer', body: WHOLE[style] }
          const asks =
            style === 'chat'
              ? '"messages":[ {"role":"user", "content":"h\\u00e9llo","x":1.0} ]'
              : '"input":[ {"role":"user", "content":"h\\u00e9llo"} ]'
          const members = (model: string) => [`"model": "${model}"`, asks, ...(odd ? ODD_MEMBERS : [])]
          // Where no models are configured, an unknown name passes unchanged, and so does every byte.
          const source = `{\n  ${members(renamed ? 'both/the-model' : 'the-model').join(' ,\n  ')}\n}\n`
          const answer = await post(gateway.base + PATHS[style], source)
          assert.equal(answer.status, 200, answer.text)
          assertPassed(style, answer.text, WHOLE[style])
          const { body, json } = lastRequest()
          assert.equal(json.model, 'the-model')
          if (renamed) assert.equal(body, `{${members('the-model').join(',')}}`)
          else assert.equal(body, source)
        })

  for (const [name, given, sent] of [
    ['not requested', '', ',"stream_options":{"include_usage":true}'],
    ['requested', ', "stream_options":{ "include_usage" :true}', ', "stream_options":{ "include_usage" :true}'],
    ['refused', ',"stream_options":{"include_usage":false,"x":1}', ',"stream_options":{"include_usage":true,"x":1}'],
  ] as const)
    test(`chat: a stream's usage ${name}`, async () => {
      act = { do: 'stream', pieces: [STREAM.chat] }
      const rest = '"messages":[{"role":"user","content":"x"}],"stream":true'
      await post(`${gateway.base}/chat/completions`, `{"model":"both/m",${rest}${given}}`)
      assert.equal(lastRequest().body.replace(/,\s+/g, ', '), `{"model":"m",${rest}${sent}}`.replace(/, "s/, ',"s'))
    })
})

/** Valid streams with unusual formatting. */
const STREAM: Readonly<Record<Style, string>> = {
  chat: [
    ': a comment of the upstream\n\n',
    'data:{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"h\\u00e9"},"finish_reason":null}], "big":12345678901234567890}\r\n\r\n',
    'event: odd\ndata: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}],"x_new":[ ]}\n\n',
    'data: [DONE]\n\n',
  ].join(''),
  responses: [
    'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1.0,"status":"in_progress","model":"m","output":[]}}\n\n',
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"h\\u00e9", "obfuscation":"xyz"}\n\n',
    'event: response.new.kind\ndata: {"type":"response.new.kind","sequence_number":2,"big":12345678901234567890}\n\n',
    `event: response.completed\ndata: {"type":"response.completed","sequence_number":3,"response":${WHOLE.responses}}\n\n`,
  ].join(''),
}

describe('passing: streams of the same style', () => {
  for (const style of STYLES)
    for (const slice of [undefined, 1, 7, 1_000])
      test(`${style}: ${slice === undefined ? 'whole' : `${slice} bytes at a time`}`, async () => {
        act = { do: 'stream', pieces: [STREAM[style]], ...(slice && { slice }) }
        const asks = style === 'chat' ? { messages: [{ role: 'user', content: 'x' }] } : { input: 'x' }
        const answer = await post(gateway.base + PATHS[style], { model: 'both/m', stream: true, ...asks })
        assert.equal(answer.status, 200)
        const done = style === 'chat' ? '' : 'data: [DONE]\n\n'
        assertPassed(style, answer.text, STREAM[style] + done)
      })

  test('chat: event ids and unrequested usage are omitted', async () => {
    const [comment = '', first = '', ...rest] = STREAM.chat.split(/(?<=\n\n|\r\n\r\n)/)
    const usage =
      'data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
    act = { do: 'stream', pieces: [comment, `id: 7\n${first}`, ...rest.slice(0, -1), usage, 'data:  [DONE] \n\n'] }
    const body = { model: 'both/m', stream: true, messages: [{ role: 'user', content: 'x' }] }
    assert.equal((await post(`${gateway.base}/chat/completions`, body)).text, STREAM.chat)
    const wanted = await post(`${gateway.base}/chat/completions`, { ...body, stream_options: { include_usage: true } })
    assert.equal(wanted.text, STREAM.chat.replace('data: [DONE]', `${usage}data: [DONE]`))
  })
})

// ── Recorded answers ─────────────────────────────────────────────────────────────────────────────────────────────

const frameOf = (
  chunk: string,
): { readonly event: string | undefined; readonly data: string; readonly json: JsonObject | undefined } => {
  const lines = chunk.split(/\r?\n/)
  const data = lines
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).trim())
    .join('\n')
  const event = lines
    .find((line) => line.startsWith('event:'))
    ?.slice(6)
    .trim()
  return { event, data, json: data.startsWith('{') ? object(JSON.parse(data)) : undefined }
}

/** Whether a recording is a complete success. Other tests cover failures. */
const isAnswer = ({ api, status, framing, response, chunks }: Recording): boolean => {
  if ((status ?? 200) !== 200) return false
  if (!chunks) return isObject(response) && !response.error && response.status !== 'failed' && hasEnd(response, api)
  if (framing !== 'sse') return false
  const frames = chunks.map(frameOf)
  const failed = frames.some(
    ({ event, json }) => event === 'error' || json?.error || json?.type === 'error' || json?.type === 'response.failed',
  )
  const ended = frames.some(
    ({ data, json }) =>
      data === '[DONE]' ||
      (json && hasEnd(json, api)) ||
      /^response\.(?:completed|incomplete)$/.test(String(json?.type)),
  )
  return !failed && ended
}
/** Some recordings are filed under another style. */
const hasEnd = (body: JsonObject, api: string): boolean =>
  api === 'responses'
    ? Array.isArray(body.output)
    : list(body.choices).some((choice) => text(object(choice)?.finish_reason) !== undefined)

/** All own exchanges, and every nth recording, deterministically. */
const sample = (style: Style, every: number): readonly Recording[] =>
  evidenceOf(style === 'chat' ? 'openai-chat' : 'openai-responses')
    .filter(isAnswer)
    .filter(({ id }, at) => id.startsWith('own ') || at % every === 0)

/** The recorded request with another model; a minimal one where the recording has no complete request. */
const requestOf = (recording: Recording, style: Style, model: string): JsonObject => {
  const stream = recording.chunks !== null
  const recorded = object(recording.request)
  const whole = recorded && !recording.trimmed && (style === 'chat' ? recorded.messages : recorded.input) !== undefined
  const plain: JsonObject = style === 'chat' ? { messages: [{ role: 'user', content: 'x' }] } : { input: 'x' }
  const { stream: _, ...rest } = whole ? recorded : plain
  return { ...rest, model, ...(stream && { stream }) }
}

/** The expected bytes for a client of the same style: the recording with the documented changes. */
const passedOn = ({ chunks, response }: Recording, style: Style, request: JsonObject): string => {
  if (!chunks) return named(style, JSON.stringify(response))
  const wantsUsage = object(request.stream_options)?.include_usage === true
  const frames: string[] = []
  for (const chunk of chunks) {
    const { event, data, json } = frameOf(chunk)
    if (data === '[DONE]') break
    if (style === 'chat' && !wantsUsage && json?.usage && list(json.choices).length === 0 && json.choices) continue
    const eventLine =
      style === 'responses' && event === undefined && json?.type !== undefined ? `event: ${json.type}\n` : ''
    frames.push(`${eventLine}${chunk}\n\n`)
    if (/^response\.(?:completed|incomplete)$/.test(String(json?.type))) break
  }
  return named(style, `${frames.join('')}data: [DONE]\n\n`)
}

/** Chat clients get reasoning under both names. */
const named = (style: Style, received: string): string => (style === 'chat' ? withReasoningContent(received) : received)

requireRecordings()

describe('passing: answers to a client of the same style', () => {
  for (const style of STYLES) {
    const recordings = sample(style, 7)
    test(`${style}: ${recordings.length} recordings, byte for byte`, async () => {
      assert.ok(recordings.length > (recordingsPresent ? 60 : 35), `${recordings.length} recordings`)
      for (const [at, recording] of recordings.entries()) {
        act = playing(recording, at)
        const request = requestOf(recording, style, 'both/m')
        const answer = await post(gateway.base + PATHS[style], request)
        assert.equal(answer.status, 200, `${recording.id}: ${answer.text}`)
        assertPassed(style, answer.text, passedOn(recording, style, request), recording.id)
      }
    })
  }
})

/** Sends a stream in pieces of an odd size that differs for each recording. */
const playing = ({ chunks, response, status }: Recording, at: number): Act =>
  replay(
    { status, stream: chunks !== null, framing: 'sse', response, ...(chunks && { chunks }) },
    chunks ? { slice: 1 + ((at * 37) % 900) } : {},
  )

const DEFINITIONS = {
  chat: { whole: 'CreateChatCompletionResponse', event: () => 'CreateChatCompletionStreamResponse' },
  responses: { whole: 'Response', event: (type: string) => eventsOf('openai:wire', 'Response').get(type) },
} as const

describe('passing: answers to a client of the other style', () => {
  for (const style of STYLES) {
    const other: Style = style === 'chat' ? 'responses' : 'chat'
    const recordings = sample(style, 11)
    test(`${recordings.length} ${style} recordings for ${other} clients`, async () => {
      assert.ok(recordings.length > (recordingsPresent ? 50 : 35), `${recordings.length} recordings`)
      for (const [at, recording] of recordings.entries()) {
        act = playing(recording, at)
        const plain = requestOf({ ...recording, request: null }, other, `${style}-only/m`)
        const answer = await post(gateway.base + PATHS[other], plain)
        assert.equal(answer.status, 200, `${recording.id}: ${answer.text}`)
        const problem = recording.chunks
          ? problemInStream(other, answer.text)
          : problemsIfPresent('openai:wire', DEFINITIONS[other].whole, answer.json())
        assert.equal(problem, undefined, `${recording.id}: ${problem}`)
      }
    })
  }
})

describe('passing: the terminal event ends the body', () => {
  const streamed = (style: Style) =>
    post(gateway.base + PATHS[style], {
      model: `${style}-only/m`,
      stream: true,
      ...(style === 'chat' ? { messages: [{ role: 'user', content: 'x' }] } : { input: 'x' }),
    })

  for (const style of STYLES)
    test(`${style}: even if the upstream keeps its connection open`, async () => {
      act = (upstreamRequest) => ({
        do: 'stream',
        pieces: piecesOf(upstreamRequest, { text: 'hello' }),
        ending: 'stall',
      })
      const answer = await streamed(style)
      assert.equal(lastRequest().ended, 'open', 'the body did not wait for the upstream')
      assert.ok(answer.text.endsWith('data: [DONE]\n\n'), answer.text)
      const last = lastRequest()
      await until('the call has ended', () => last.ended === 'aborted')
    })

  test('a connection is reused when its framing ends after the terminal event', async () => {
    // The last chunk arrives separately, after the terminal event.
    act = (upstreamRequest) => ({ do: 'stream', pieces: piecesOf(upstreamRequest, { text: 'hello' }), gap: 10 })
    const used = new Set<number>()
    for (let n = 0; n < 6; n++) {
      await streamed('chat')
      const last = lastRequest()
      await until('its framing has ended', () => last.ended === 'finished')
      used.add(last.connection)
    }
    assert.ok(used.size < 6, `${used.size} connections for six requests`)
  })
})

const problemInStream = (style: Style, wire: string): string | undefined => {
  const frames = wire
    .split('\n\n')
    .filter((frame) => frame !== '' && !frame.startsWith(':'))
    .map(frameOf)
  if (frames.at(-1)?.data !== '[DONE]') return 'the stream has no end'
  const bodies: Json[] = frames.slice(0, -1).map(({ json }) => json ?? null)
  if (style === 'responses') {
    const gap = bodies.findIndex((body, at) => object(body)?.sequence_number !== at)
    if (gap !== -1) return `event ${gap} has another number`
    if (!/^response\.(?:completed|incomplete)$/.test(String(object(bodies.at(-1))?.type)))
      return 'it ends as something else'
  }
  for (const body of recordingsPresent ? bodies : []) {
    const definition = DEFINITIONS[style].event(String(object(body)?.type))
    const problem =
      definition === undefined
        ? `an event of the type ${object(body)?.type}`
        : problemsIfPresent('openai:wire', definition, body)
    if (problem) return problem
  }
  return undefined
}
