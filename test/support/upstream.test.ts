import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { dialer } from '../../src/transport/client/dial.ts'
import { type AnswerContent, answerBody, answerWith, errorBody, failWith, piecesOf, replay } from './answers.ts'
import { type Act, refusingUrl, startUpstream, type UpstreamRequest, until } from './upstream.ts'

const { dial, close } = dialer()
after(close)

type Got = { status: number; text: string; failure: string | undefined }

const post = (url: string, body: object | string): Promise<Got> =>
  new Promise((resolve) => {
    const got: Got = { status: 0, text: '', failure: undefined }
    const decoder = new TextDecoder()
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    dial(
      { method: 'POST', url, headers: { authorization: 'Bearer key-1' }, body: text, connectTimeout: 1_000 },
      {
        onHeaders(status) {
          got.status = status
        },
        onBody(chunk) {
          got.text += decoder.decode(chunk, { stream: true })
          return true
        },
        onEnd: () => resolve(got),
        onFailure({ kind }) {
          got.failure = kind
          resolve(got)
        },
      },
    )
  })

const requestTo = (path: string, json: UpstreamRequest['json'] = {}): UpstreamRequest => ({
  number: 0,
  method: 'POST',
  path,
  headers: {},
  body: '',
  json,
  model: 'm',
  stream: json.stream === true,
  key: 'k',
  connection: 0,
})

const acts: [name: string, act: Act, status: number, text: string | RegExp, failure: string | undefined][] = [
  ['an answer', { do: 'answer', body: { a: 1 } }, 200, '{"a":1}', undefined],
  [
    'a status with headers',
    { do: 'answer', status: 429, headers: { 'retry-after': '3' }, body: 'x' },
    429,
    'x',
    undefined,
  ],
  ['a page', { do: 'answer', headers: { 'content-type': 'text/html' }, body: '<html>' }, 200, '<html>', undefined],
  ['a stream', { do: 'stream', pieces: ['a', 'b'] }, 200, 'ab', undefined],
  ['a stream byte by byte', { do: 'stream', pieces: ['häß'], slice: 1 }, 200, 'häß', undefined],
  ['a stream cut off', { do: 'stream', pieces: ['a', 'b'], gap: 1, ending: 'close' }, 200, 'ab', 'truncated'],
  ['a stream reset', { do: 'stream', pieces: ['a', 'b'], gap: 1, ending: 'reset' }, 200, /^ab?$/, 'reset'],
  ['a stream without a length', { do: 'stream', pieces: ['a'], untilClose: true }, 200, 'a', undefined],
  ['a reset', { do: 'reset' }, 0, '', 'reset'],
  ['a close', { do: 'close' }, 0, '', 'reset'],
  [
    'a lie about its length',
    { do: 'raw', bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab' },
    200,
    'ab',
    'truncated',
  ],
]
for (const [name, act, status, text, failure] of acts)
  test(`upstream: plays ${name}`, async () => {
    const upstream = await startUpstream(() => act)
    const got = await post(`${upstream.url}/v1/chat/completions`, { model: 'm', stream: true })
    assert.equal(got.status, status)
    if (typeof text === 'string') assert.equal(got.text, text)
    else assert.match(got.text, text)
    assert.equal(got.failure, failure)
    assert.equal(upstream.requests[0]?.model, 'm')
    assert.equal(upstream.requests[0]?.stream, true)
    assert.equal(upstream.requests[0]?.key, 'key-1')
    await until('the end is recorded', () => upstream.requests[0]?.ended !== 'open')
    await upstream.close()
  })

for (const act of [{ do: 'hang' }, { do: 'stream', pieces: ['x'], ending: 'stall' }] as const)
  test(`upstream: records that a client left during ${act.do}, and closes completely`, async () => {
    const upstream = await startUpstream(() => act)
    const socket = connect(upstream.port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
    await until('seen', () => upstream.requests.length === 1)
    assert.equal(upstream.requests[0]?.ended, 'open')
    socket.destroy()
    await until('noted', () => upstream.requests[0]?.ended === 'aborted')
    await upstream.close()
    assert.equal(upstream.open(), 0)
  })

test('upstream: a script decides by number, key and model, and can be replaced', async () => {
  const upstream = await startUpstream(({ number, model, key }) => ({ do: 'answer', body: { number, model, key } }))
  const url = `${upstream.url}/x`
  await post(url, {})
  assert.equal((await post(url, { model: 'b' })).text, '{"number":1,"model":"b","key":"key-1"}')
  upstream.play(() => ({ do: 'answer', body: 'changed' }))
  assert.equal((await post(url, 'not json')).text, 'changed')
  assert.equal(upstream.requests[2]?.body, 'not json')
  await upstream.close()
})

test('upstream: refusingUrl refuses connections', async () => {
  assert.equal((await post(await refusingUrl(), {})).failure, 'refused')
})

// ── Its answers satisfy the published schemas ────────────────────────────────────────────────────────────────────

const folder = new URL('../../../shared/wire/', import.meta.url)
const missing = !existsSync(folder)
const schemas = missing && process.env.HEADGATE_CI !== '1' ? 'the published schemas are not present' : false

const judge = () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  for (const name of ['openai', 'anthropic'])
    ajv.addSchema(JSON.parse(readFileSync(new URL(`${name}.wire.schema.json`, folder), 'utf8')))
  return (name: string, value: unknown) => {
    const validate = ajv.getSchema(`urn:wire:${name}`)
    assert.ok(validate, name)
    assert.ok(validate(value), `${name}: ${JSON.stringify(validate.errors?.slice(0, 3))} in ${JSON.stringify(value)}`)
  }
}

const contents: [string, AnswerContent][] = [
  ['text', { text: 'Grüße aus 東京 😀', output: 7 }],
  ['text that was cut', { text: 'and so', cut: true }],
  [
    'two calls',
    {
      tools: [
        { id: 'call_a', name: 'f', arguments: '{"x":"é"}' },
        { id: 'call_b', name: 'g', arguments: '{}' },
      ],
    },
  ],
  ['text and a call', { text: 'Let me see.', tools: [{ id: 'call_a', name: 'f', arguments: '{"x":1}' }] }],
]
const ANTHROPIC: { readonly [type: string]: string } = {
  message_start: 'BetaMessageStartEvent',
  message_delta: 'BetaMessageDeltaEvent',
  message_stop: 'BetaMessageStopEvent',
  content_block_start: 'BetaContentBlockStartEvent',
  content_block_delta: 'BetaContentBlockDeltaEvent',
  content_block_stop: 'BetaContentBlockStopEvent',
}

for (const [name, what] of contents) {
  test(`answers: ${name}, whole, in each format`, { skip: schemas }, () => {
    const valid = judge()
    valid('openai:wire#/$defs/CreateChatCompletionResponse', answerBody(requestTo('/v1/chat/completions'), what))
    valid('openai:wire#/$defs/Response', answerBody(requestTo('/v1/responses'), what))
    valid('anthropic:wire#/$defs/BetaMessage', answerBody(requestTo('/v1/messages'), what))
  })
  test(`answers: ${name}, streamed, in each format`, { skip: schemas }, () => {
    const valid = judge()
    const events = (path: string, json: UpstreamRequest['json'] = {}) =>
      piecesOf(requestTo(path, { stream: true, ...json }), what).map((piece) => {
        assert.ok(piece.endsWith('\n\n'))
        return piece
          .replace(/^event: .*\n/, '')
          .slice('data: '.length)
          .trim()
      })
    for (const json of [{}, { stream_options: { include_usage: true } }]) {
      const chunks = events('/v1/chat/completions', json)
      assert.equal(chunks.pop(), '[DONE]')
      for (const chunk of chunks) valid('openai:wire#/$defs/CreateChatCompletionStreamResponse', JSON.parse(chunk))
    }
    for (const [at, event] of events('/v1/responses').entries()) {
      const value = JSON.parse(event)
      valid('openai:wire#/$defs/ResponseStreamEvent', value)
      assert.equal(value.sequence_number, at)
    }
    for (const event of events('/v1/messages')) {
      const value = JSON.parse(event)
      const def = ANTHROPIC[value.type]
      if (value.type !== 'ping') valid(`anthropic:wire#/$defs/${def}`, value)
    }
  })
}

test('answers: an error has the shape of its format', () => {
  const error = { type: 'overloaded_error', message: 'busy' }
  assert.deepEqual(errorBody(requestTo('/v1/messages'), error), { type: 'error', error, request_id: 'req_test' })
  assert.deepEqual(errorBody(requestTo('/v1/responses'), error), { error: { ...error, param: null, code: null } })
  assert.deepEqual(failWith(requestTo('/v1/responses'), 503, error).do, 'answer')
})

test('answers: built and recorded answers follow the request’s format', async () => {
  const upstream = await startUpstream((one) => answerWith(one, { text: 'Hallo' }))
  assert.match((await post(`${upstream.url}/v1/messages`, { model: 'm' })).text, /"text":"Hallo"/)
  assert.match((await post(`${upstream.url}/v1/responses`, { stream: true })).text, /^event: response\.created\n/)
  upstream.play(() =>
    replay({ status: 200, stream: true, framing: 'sse', chunks: ['event: a\ndata: 1', 'data: [DONE]'] }),
  )
  assert.equal((await post(upstream.url, {})).text, 'event: a\ndata: 1\n\ndata: [DONE]\n\n')
  upstream.play(() => replay({ status: 404, stream: false, framing: null, response: { error: 'no' } }))
  assert.deepEqual(await post(upstream.url, {}), { status: 404, text: '{"error":"no"}', failure: undefined })
  assert.throws(() => replay({ status: 200, stream: true, framing: 'aws-eventstream', chunks: ['{}'] }))
  await upstream.close()
})
