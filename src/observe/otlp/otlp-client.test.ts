/** The exporter against receivers that fail, over real sockets. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { type OtlpAnswer, startReceiver } from '../../../test/support/otlp.ts'
import { refusingUrl } from '../../../test/support/upstream.ts'
import { DIRECT, plainEgress } from '../../core/egress.ts'
import { OtlpClient } from './otlp-client.ts'
import type { BatchResult } from './signal-queue.ts'
import { KIND, type OtlpSpan, resourceOf, spanOf } from './span.ts'

const receiver = await startReceiver()
after(() => receiver.close())

const span: OtlpSpan = spanOf(
  {
    name: 'chat m',
    kind: KIND.client,
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    spanId: '00f067aa0ba902b7',
    parentId: null,
    isParentRemote: false,
    state: null,
    from: 1_000,
    to: 2_000,
    hasFailed: false,
    facts: { model: 'm' },
    events: [],
  },
  resourceOf({ 'service.name': 'x' }),
  '1',
)

const clientTo = (url: string, timeout = 300) => {
  const client = new OtlpClient<OtlpSpan[], ReturnType<typeof ProtobufTraceSerializer.deserializeResponse>>(
    {
      url,
      headers: { 'x-key': 'canary' },
      format: 'json',
      compression: 'gzip',
      egress: plainEgress(DIRECT, url, null),
      timeout,
    },
    {
      serializers: { protobuf: ProtobufTraceSerializer, json: JsonTraceSerializer },
      refused: 'rejectedSpans',
    },
  )
  after(() => client.close())
  return client
}

const cases: readonly (readonly [string, OtlpAnswer, Extract<BatchResult, { ok: false }>['reason'] | 'accepted'])[] = [
  ['200', 200, 'accepted'],
  ['400', 400, 'refused'],
  ['401', 401, 'refused'],
  ['429', 429, 'failed'],
  ['503', 503, 'failed'],
  ['no answer', 'never', 'failed'],
  ['an answer that never ends', 'trickle', 'failed'],
]
for (const [name, answer, expected] of cases)
  test(`otlp client: ${name}`, async () => {
    receiver.answer = () => answer
    const since = performance.now()
    const result = await clientTo(`${receiver.url}/v1/traces`).send([span])
    assert.ok(performance.now() - since < 5_000)
    assert.equal(result.ok ? 'accepted' : result.reason, expected)
    assert.doesNotMatch(result.why ?? '', /canary|127\.0\.0\.1/)
  })

test('otlp client: a receiver that is busy for a moment', async () => {
  const before = receiver.posts.length
  receiver.answer = ({ number }) => (number === before ? 503 : 200)
  assert.deepEqual(await clientTo(`${receiver.url}/v1/traces`, 4_000).send([span]), { ok: true, refused: 0, why: null })
  assert.equal(receiver.posts.length, before + 2)
  assert.equal(receiver.posts.at(-1)?.headers['x-key'], 'canary')
})

test('otlp client: nothing listens', async () => {
  const result = await clientTo(await refusingUrl()).send([span])
  assert.ok(!result.ok)
  assert.deepEqual(
    [result.reason, result.why],
    ['failed', 'The receiver cannot be reached: The connection was refused (ECONNREFUSED).'],
  )
})

test('otlp client: a receiver that takes a part of a batch', async () => {
  receiver.answer = () => ({ refused: 1 })
  const result = await clientTo(`${receiver.url}/v1/traces`).send([span, span])
  assert.deepEqual(result, { ok: true, refused: 1, why: 'The receiver refused a part of a batch.' })
})
