/** Traces of requests, as a receiver of OTLP gets them: spans, their parents, and their attributes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Started } from '../../e2e/support/process.ts'
import { bodyFor, stage } from '../../e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../../support/answers.ts'
import { type FakeReceiver, type ReceivedSpan, startReceiver } from '../../support/otlp.ts'
import { type Act, type UpstreamRequest, until } from '../../support/upstream.ts'
import { violations } from './registry.ts'

const { gateway, upstream, keep } = stage()
const [TRACE, PARENT] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']

const receiver = async (): Promise<FakeReceiver> => {
  const made = await startReceiver()
  keep(() => made.close())
  return made
}

const otelOf = ({ url }: FakeReceiver, more: object = {}) => ({
  endpoint: url,
  protocol: 'http/json',
  ...more,
})

const call = async ({ url }: Started, path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

const answer = (request: UpstreamRequest): Act => answerWith(request, { text: 'Hello', input: 11, output: 7 })
const overloaded = (request: UpstreamRequest): Act => failWith(request, 503, { type: 'server_error', message: 'x' })

const spansOf = async ({ spans }: FakeReceiver, count: number): Promise<readonly ReceivedSpan[]> => {
  await until(`${count} spans are received`, () => spans().length >= count)
  return spans()
}

const conforms = (spans: readonly ReceivedSpan[]) => assert.deepEqual(spans.flatMap(violations), [])

test('traces: a fallback has one span of the server and one of a client for each attempt', async () => {
  const [bad, good, otlp] = [await upstream(overloaded), await upstream(answer), await receiver()]
  const it = await gateway({
    providers: { bad: { baseUrl: `${bad.url}/v1` }, good: { baseUrl: `${good.url}/v1` } },
    routes: { fast: { targets: ['bad/m', 'good/m'] } },
    otel: otelOf(otlp, {
      propagate: ['good'],
      serviceName: 'llm',
      resourceAttributes: ['deployment.environment.name=a%20b'],
    }),
  })
  const sent = await call(
    it,
    '/v1/chat/completions',
    { ...bodyFor('chat', 'fast', false), max_tokens: 50, temperature: 0.5, seed: 7 },
    { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1', baggage: 'secret=canary' },
  )
  assert.equal(sent.status, 200)
  const spans = await spansOf(otlp, 3)
  const [server, first, second] = spans
  assert.ok(server && first && second)
  assert.deepEqual(
    spans.map(({ name, kind, parentSpanId }) => [name, kind, parentSpanId]),
    [
      ['POST /v1/chat/completions', 2, PARENT],
      ['chat m', 3, server.spanId],
      ['chat m', 3, server.spanId],
    ],
  )
  for (const { traceId, traceState, schemaUrl } of spans)
    assert.deepEqual(
      [traceId, traceState, schemaUrl],
      [TRACE, 'vendor=1', 'https://opentelemetry.io/schemas/gen-ai/0.1.0'],
    )
  assert.equal(new Set(spans.map(({ spanId }) => spanId)).size, 3)
  // The client learns the span that it has caused, and only the configured provider the one of its attempt.
  assert.equal(sent.headers.get('traceresponse'), `00-${TRACE}-${server.spanId}-01`)
  const headersOf = (one: typeof bad) => one.requests.find(({ method }) => method === 'POST')?.headers ?? {}
  assert.equal(headersOf(good).traceparent, `00-${TRACE}-${second.spanId}-01`)
  assert.equal(headersOf(good).tracestate, 'vendor=1')
  assert.equal(headersOf(bad).traceparent, undefined)
  for (const one of [bad, good]) assert.equal(headersOf(one).baggage, undefined)

  const { 'headgate.request.id': id, 'headgate.overhead_us': overhead, ...facts } = server.attributes
  assert.match(String(id), /^req_[a-z]{20}$/)
  assert.ok(Number(overhead) > 0)
  assert.deepEqual(facts, {
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'url.path': '/v1/chat/completions',
    'url.scheme': 'http',
    'http.response.status_code': 200,
    'headgate.route': 'fast',
    'headgate.cache': 'off',
    'headgate.attempts': 2,
    'headgate.outcome': 'answered',
    'headgate.team': server.attributes['headgate.team'],
  })
  assert.deepEqual([first.hasFailed, second.hasFailed], [true, false])
  assert.deepEqual(first.events, ['retry'])
  assert.equal(first.attributes['error.type'], 'overloaded')
  assert.equal(first.attributes['gen_ai.usage.input_tokens'], undefined)
  assert.deepEqual(
    Object.fromEntries(Object.entries(second.attributes).filter(([name]) => !name.startsWith('headgate.'))),
    {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai-compatible',
      'gen_ai.request.model': 'm',
      'gen_ai.request.max_tokens': 50,
      'gen_ai.request.temperature': 0.5,
      'gen_ai.request.seed': 7,
      'gen_ai.response.id': second.attributes['gen_ai.response.id'],
      'gen_ai.response.model': 'm',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 11,
      'gen_ai.usage.output_tokens': 7,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(good.url).port),
    },
  )
  assert.deepEqual([server.resource['service.name'], server.resource['deployment.environment.name']], ['llm', 'a b'])
  assert.ok(server.from <= first.from && first.to <= second.from && second.to <= server.to)
  conforms(spans)
})

test('traces: streams, formats and refusals conform to the registry', async () => {
  const [one, otlp] = [await upstream(answer), await receiver()]
  const it = await gateway({
    providers: {
      one: { baseUrl: `${one.url}/v1` },
      anthropic: { kind: 'anthropic', baseUrl: one.url },
      gemini: { kind: 'gemini', baseUrl: one.url },
    },
    fallback: 'none',
    unknownModel: 'reject',
    otel: otelOf(otlp),
  })
  for (const stream of [false, true]) {
    await call(it, '/v1/chat/completions', bodyFor('chat', 'one/m', stream))
    await call(it, '/v1/responses', bodyFor('responses', 'one/m', stream))
    await call(it, '/v1/messages', { ...bodyFor('chat', 'anthropic/m', stream), max_tokens: 9 })
    await call(
      it,
      '/v1/chat/completions',
      bodyFor('chat', 'gemini/m', stream, { response_format: { type: 'json_object' } }),
    )
  }
  assert.equal((await call(it, '/v1/chat/completions', bodyFor('chat', 'unknown', false))).status, 404)
  const spans = await spansOf(otlp, 17)
  conforms(spans)
  const clients = spans.filter(({ kind }) => kind === 3)
  assert.equal(clients.length, 8)
  const seen = (name: string) => [...new Set(clients.map(({ attributes }) => attributes[name]))].sort()
  assert.deepEqual(seen('gen_ai.provider.name'), ['anthropic', 'gcp.gemini', 'openai-compatible'])
  assert.deepEqual(seen('gen_ai.operation.name'), ['chat', 'generate_content'])
  const streamed = clients.filter(({ attributes }) => attributes['gen_ai.request.stream'] === true)
  assert.equal(streamed.length, 4)
  for (const { attributes, events } of streamed) {
    assert.ok(Number(attributes['gen_ai.response.time_to_first_chunk']) >= 0)
    assert.deepEqual(events, ['first_chunk'])
  }
  const refused = spans.find(({ attributes }) => attributes['http.response.status_code'] === 404)
  assert.deepEqual([refused?.hasFailed, refused?.attributes['error.type']], [false, 'model_not_found'])
})

test('traces: a hedge has a span, and the cancelled attempt too', async () => {
  const late = (request: UpstreamRequest): Act =>
    request.stream
      ? { do: 'stream', pieces: piecesOf(request, { text: 'slow' }), first: 60_000 }
      : { do: 'answer', body: {}, after: 60_000 }
  const [slow, quick, otlp] = [await upstream(late), await upstream(answer), await receiver()]
  const it = await gateway({
    providers: { slow: { baseUrl: `${slow.url}/v1` }, quick: { baseUrl: `${quick.url}/v1` } },
    routes: { r: { targets: ['slow/m', 'quick/m'] } },
    hedge: { percent: 100, delay: 50 },
    otel: otelOf(otlp),
  })
  await call(it, '/v1/chat/completions', bodyFor('chat', 'r', true))
  const spans = await spansOf(otlp, 3)
  const clients = spans.filter(({ kind }) => kind === 3)
  const facts = clients.map(({ attributes: { 'headgate.attempt.outcome': how, 'headgate.attempt.hedge': hedge } }) => [
    how,
    hedge,
  ])
  assert.deepEqual(facts.sort(), [
    ['abandoned', undefined],
    ['ok', true],
  ])
  conforms(spans)
})

test('traces: the caller decides whether its trace is exported, but failures are kept', async () => {
  const [bad, good, otlp] = [await upstream(overloaded), await upstream(answer), await receiver()]
  const it = await gateway({
    providers: { bad: { baseUrl: `${bad.url}/v1` }, good: { baseUrl: `${good.url}/v1` } },
    fallback: 'none',
    otel: otelOf(otlp),
  })
  const unsampled = { traceparent: `00-${TRACE}-${PARENT}-00` }
  const sent = await call(it, '/v1/chat/completions', bodyFor('chat', 'good/m', false), unsampled)
  assert.match(sent.headers.get('traceresponse') ?? '', new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  await call(it, '/v1/chat/completions', bodyFor('chat', 'bad/m', false), unsampled)
  await call(it, '/v1/chat/completions', bodyFor('chat', 'good/m', false), { traceparent: 'ff-bad' })
  const spans = await spansOf(otlp, 4)
  const servers = spans.filter(({ kind }) => kind === 2)
  assert.deepEqual(
    servers.map(({ attributes, traceId }) => [attributes['http.response.status_code'], traceId === TRACE]),
    [
      [502, true],
      [200, false],
    ],
  )
})

test('traces: without a receiver there is no header, and no record in the journal', async () => {
  const good = await upstream(answer)
  const it = await gateway(
    { providers: { good: { baseUrl: `${good.url}/v1` } } },
    { OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' },
  )
  const sent = await call(it, '/v1/chat/completions', bodyFor('chat', 'good/m', false), {
    traceparent: `00-${TRACE}-${PARENT}-01`,
  })
  assert.equal(sent.headers.get('traceresponse'), null)
  assert.equal(good.requests.find(({ method }) => method === 'POST')?.headers.traceparent, undefined)
})
