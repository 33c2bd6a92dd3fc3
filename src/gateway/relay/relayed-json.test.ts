import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { Provider } from '../../core/provider.ts'
import type { RelayName } from '../../core/relay.ts'
import cohere from '../../providers/cohere.ts'
import groq from '../../providers/groq.ts'
import { serveRelay } from './serve-relay.ts'

const relaying = (id: string, relays: NonNullable<Provider['relays']>) => instance(id, ['k1'], { relays })
const rerank = { rerank: { models: ['m'] } } as const

const asking = async (
  name: RelayName,
  body: object,
  instances: readonly ReturnType<typeof relaying>[],
  script: (asked: ScriptedCall) => void,
) => {
  const made = gatewayHarness(instances, script, {})
  const reply = new CapturedReply()
  const received = {
    id: 'req_test',
    method: 'POST',
    path: '/v1/x',
    query: '',
    headers: () => undefined,
    body: { text: JSON.stringify(body) },
    client: ANONYMOUS,
  }
  const done = serveRelay(made.gateway, { name, received, responseWriter: reply })
  await made.world.advance(700_000)
  await done
  const trace = made.events.flatMap((item) => (item.event === 'request' ? item.trace : []))
  return { reply, called: made.world.calls, used: trace.find((fact) => fact.type === 'usage') }
}

const from = (asked: ScriptedCall) => new URL(asked.url).host.split('.')[0]

// ── Rerank ───────────────────────────────────────────────────────────────────────────────────────────────────────

const QUERY = { model: 'm', query: 'a capital', documents: ['Paris', { text: 'Rome' }] }
/** docs.cohere.com/reference/rerank, its example. */
const COHERE =
  '{"results":[{"index":1,"relevance_score":0.999071}],"id":"07734bd2","meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}'
/** An answer of Voyage (docs.voyageai.com/reference/reranker-api). */
const VOYAGE = '{"object":"list","data":[{"relevance_score":0.4375,"index":0}],"model":"m","usage":{"total_tokens":26}}'

for (const [title, members, expected] of [
  ['top_n goes to the shape of Cohere', { top_n: 1 }, 'cohere'],
  ['top_k goes to the shape of Voyage', { top_k: 1 }, 'voyage'],
] as const)
  test(`relayed rerank: ${title}`, async () => {
    const { reply, called } = await asking(
      'rerank',
      { ...QUERY, ...members },
      [
        relaying('voyage', { rerank: { models: ['m'], refuses: { top_n: /^/ } } }),
        relaying('cohere', { rerank: { ...cohere.relays.rerank, models: ['m'] } }),
      ],
      (asked) => respondWith.json(asked, 200, from(asked) === 'cohere' ? COHERE : VOYAGE),
    )
    assert.equal(reply.headers['x-headgate-provider'], expected, reply.text)
    assert.deepEqual(JSON.parse(called[0]?.body ?? ''), { ...QUERY, ...members })
  })

test('relayed rerank: a request that no target reads is refused, with the member', async () => {
  const { reply, called } = await asking(
    'rerank',
    { ...QUERY, top_k: 1 },
    [relaying('cohere', { rerank: { ...cohere.relays.rerank, models: ['m'] } })],
    (asked) => respondWith.json(asked, 200, COHERE),
  )
  assert.equal(reply.status, 400, reply.text)
  assert.match(reply.text, /top_k/)
  assert.equal(called.length, 0)
})

test('relayed rerank: the answer passes unchanged, and its tokens are exact', async () => {
  const { reply, used } = await asking('rerank', QUERY, [relaying('a', rerank)], (asked) =>
    respondWith.json(asked, 200, VOYAGE),
  )
  assert.equal(reply.text, VOYAGE)
  assert.ok(used?.type === 'usage' && !used.estimated)
  assert.equal(used.usage.input, 26)
})

test('relayed rerank: an answer without tokens is not free', async () => {
  const { used } = await asking('rerank', QUERY, [relaying('a', rerank)], (asked) =>
    respondWith.json(asked, 200, COHERE),
  )
  assert.ok(used?.type === 'usage' && used.estimated && used.usage.input > 0)
})

test('relayed rerank: another provider of the same model takes over', async () => {
  const { reply } = await asking('rerank', QUERY, [relaying('a', rerank), relaying('b', rerank)], (asked) =>
    from(asked) === 'a' ? respondWith.error(asked, 503) : respondWith.json(asked, 200, COHERE),
  )
  assert.equal(reply.headers['x-headgate-provider'], 'b')
})

// ── Images ───────────────────────────────────────────────────────────────────────────────────────────────────────

const images = { images: { models: ['m'] } } as const
/** developers.openai.com/api/reference/resources/images (gpt-image-1). */
const IMAGE =
  '{"created":1713833628,"data":[{"b64_json":"iVBORw0KGgo="}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}'

test('relayed images: the answer passes unchanged with its usage', async () => {
  const { reply, used } = await asking(
    'images',
    { model: 'm', prompt: 'a cat', n: 2 },
    [relaying('a', images)],
    (asked) => respondWith.json(asked, 200, IMAGE),
  )
  assert.equal(reply.text, IMAGE)
  assert.deepEqual(used?.type === 'usage' && [used.usage.input, used.usage.output, used.usage.imageInput], [50, 50, 40])
})

test('relayed images: events are forwarded, and the last one has the usage', async () => {
  const partial = { type: 'image_generation.partial_image', partial_image_index: 0, b64_json: 'iVBO' }
  const last = { type: 'image_generation.completed', b64_json: 'iVBORw0', usage: { input_tokens: 7, output_tokens: 9 } }
  const { reply, used } = await asking(
    'images',
    { model: 'm', prompt: 'a cat', stream: true, partial_images: 1 },
    [relaying('a', images)],
    (asked) => respondWith.stream(asked, [partial, last].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')),
  )
  assert.match(reply.headers['content-type'] ?? '', /event-stream/)
  assert.match(reply.text, /partial_image[\s\S]*completed/)
  assert.deepEqual(used?.type === 'usage' && [used.usage.input, used.usage.output], [7, 9])
})

test('relayed images: without a count each image is estimated', async () => {
  const { used } = await asking('images', { model: 'm', prompt: 'a cat', n: 3 }, [relaying('a', images)], (asked) =>
    respondWith.json(asked, 200, '{"created":1,"data":[{"url":"https://x.test/1"}]}'),
  )
  assert.ok(used?.type === 'usage' && used.estimated)
  assert.equal(used.usage.output, 3 * 6_240)
})

for (const [status, expected] of [
  [500, 1],
  [503, 2],
] as const)
  test(`relayed images: after status ${status} there are ${expected} attempts`, async () => {
    const { called } = await asking(
      'images',
      { model: 'm', prompt: 'a cat' },
      [relaying('a', images), relaying('b', images)],
      (asked) => (from(asked) === 'a' ? respondWith.error(asked, status) : respondWith.json(asked, 200, IMAGE)),
    )
    assert.equal(called.length, expected)
  })

test('relayed audio: subtitles go to a provider that has them', async () => {
  const { relays } = groq
  for (const [format, expected] of [
    ['srt', 'b'],
    ['json', 'a'],
  ]) {
    const { reply } = await asking(
      'transcriptions',
      { model: 'm', response_format: format },
      [
        relaying('a', { transcriptions: { ...relays.transcriptions, models: ['m'] } }),
        relaying('b', { transcriptions: { models: ['m'] } }),
      ],
      (asked) => respondWith.json(asked, 200, '{"text":"a"}'),
    )
    assert.equal(reply.headers['x-headgate-provider'], expected)
  }
})
