/** Metrics of the conventions for generative AI: names, units, attributes, bounds, and sums against what was sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bodyFor, stage } from '../../e2e/support/stage.ts'
import { answerWith, failWith } from '../../support/answers.ts'
import { metricsIn, startReceiver } from '../../support/otlp.ts'
import { type Act, type UpstreamRequest, until } from '../../support/upstream.ts'
import { metricViolations } from './registry.ts'

const { gateway, upstream, keep } = stage()

test('metrics: sums are those of the calls, sampled or not, and conform to the registry', async () => {
  const answer = (request: UpstreamRequest): Act =>
    request.number % 2 === 0
      ? failWith(request, 503, { type: 'server_error', message: 'x' })
      : answerWith(request, { text: 'Hello', input: 11, output: 7 })
  const [one, two, otlp] = [await upstream(answer), await upstream(answer), await startReceiver()]
  keep(() => otlp.close())
  const it = await gateway(
    {
      providers: { one: { baseUrl: `${one.url}/v1` }, two: { baseUrl: `${two.url}/v1` } },
      routes: { r: { targets: ['one/m', 'two/m'] } },
      circuit: { errorThreshold: 100, consecutiveFailures: 0 },
      otel: { endpoint: otlp.url, protocol: 'http/json', metrics: { interval: 1_000 }, traces: { exporter: 'none' } },
    },
    { OTEL_TRACES_SAMPLER: 'always_off' },
  )
  const answered = []
  for (let number = 0; number < 12; number++) {
    const response = await fetch(`${it.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(bodyFor('chat', 'r', number % 3 === 0)),
    })
    await response.text()
    assert.equal(response.headers.get('traceresponse'), null)
    if (response.status === 200) answered.push(number)
  }
  assert.ok(answered.length > 6)
  const attempts = [one, two].flatMap(({ requests }) => requests.filter(({ method }) => method === 'POST')).length
  const latest = () => metricsIn(otlp.posts.at(-1)?.text ?? '{}')
  const sumOf = (name: string, what: 'sum' | 'count') =>
    latest()
      .filter((metric) => metric.name === name)
      .reduce((sum, { points }) => sum + points.reduce((all, point) => all + (point[what] ?? 0), 0), 0)
  await until('all attempts are counted', () => sumOf('gen_ai.client.inference.duration', 'count') === attempts)
  assert.equal(sumOf('gen_ai.client.inference.usage.input_tokens', 'sum'), 11 * answered.length)
  assert.equal(sumOf('gen_ai.client.inference.usage.output_tokens', 'sum'), 7 * answered.length)
  assert.equal(sumOf('gen_ai.client.inference.operation.output_tokens', 'count'), attempts)
  assert.equal(sumOf('gen_ai.server.request.duration', 'count'), answered.length)
  const failed = latest()
    .find(({ name }) => name === 'gen_ai.client.inference.duration')
    ?.points.filter(({ attributes }) => attributes['error.type'] === 'overloaded')
  assert.equal(
    failed?.reduce((sum, { count = 0 }) => sum + count, 0),
    attempts - answered.length,
  )
  assert.deepEqual(latest().flatMap(metricViolations), [])
  assert.ok(otlp.posts.every(({ path }) => path === '/v1/metrics'))
  for (const { points, isCumulative } of latest()) {
    assert.ok(isCumulative)
    for (const { count, buckets } of points)
      if (buckets)
        assert.equal(
          buckets.reduce((sum, one) => sum + one, 0),
          count,
        )
  }
})
