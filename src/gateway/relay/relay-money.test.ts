/** What relayed calls cost: the ledger has the nano-dollars of the units, whatever format an answer has, and nothing unknown is free. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryJournal, testAccounts, testBudget, testClient } from '../../../test/support/accounts.ts'
import { receivedForm } from '../../../test/support/form.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { ALL_RELAYS } from '../../../test/support/relays.ts'
import type { PriceOverride } from '../../core/accounts.ts'
import type { RelayName } from '../../core/relay.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { serveRelay } from './serve-relay.ts'

type Answer = { readonly status?: number; readonly type?: string; readonly body: string }

const form = (fields: Readonly<Record<string, string>>, file = 'x'.repeat(40_000)) =>
  Buffer.from(
    [
      `--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${file}\r\n`,
      ...Object.entries(fields).map(
        ([name, value]) => `--B\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
      ),
      '--B--\r\n',
    ].join(''),
    'latin1',
  )

const paid = async (
  name: RelayName,
  body: object,
  prices: PriceOverride,
  { status = 200, type = 'application/json', body: answer }: Answer,
) => {
  const { gateway, world } = gatewayHarness([instance('a', ['k1'], { relays: ALL_RELAYS })], (call) =>
    respondWith.raw(call, status, { 'content-type': type }, answer),
  )
  const { journal, records } = memoryJournal({ later: (_ms, run) => world.later(0, run) })
  const rule = { id: 'prc_aaaaaaaaaaaa', provider: 'a', model: 'm', effectiveFrom: 0, prices, managed: 'file' } as const
  const book = priceBook(() => undefined, [rule])
  const scopes = [budgetScope(testBudget(1_000_000_000_000))]
  const accounts = testAccounts(world, { budgets: () => scopes, prices: () => book, journal: () => journal })
  const isForm = body instanceof Uint8Array
  const reply = new CapturedReply()
  const done = serveRelay(
    { ...gateway, accounts },
    {
      name,
      received: {
        id: 'req_a',
        method: 'POST',
        path: '/v1/x',
        query: '',
        headers: (header) => (isForm && header === 'content-type' ? 'multipart/form-data; boundary=B' : undefined),
        body: isForm ? receivedForm(body) : { text: JSON.stringify(body) },
        client: testClient(),
      },
      responseWriter: reply,
    },
  )
  await world.advance(700_000)
  await done
  const opened = records.find((record) => record.type === 'attempt_opened')
  const closed = records.find((record) => record.type === 'attempt_closed')
  return {
    reply,
    reserved: opened?.type === 'attempt_opened' ? opened.reserved : undefined,
    cost: closed?.type === 'attempt_closed' ? closed.cost : undefined,
    source: closed?.type === 'attempt_closed' ? closed.usageSource : undefined,
    units: closed?.type === 'attempt_closed' ? closed.units : undefined,
    spent: accounts.budgetStates()[0]?.spent,
  }
}

const SECONDS = { perUnit: { seconds: 100_000 } }
const IMAGES = { perUnit: { images: 40_000_000, 'images/1024x1024': 50_000_000, 'images/1024x1024/hd': 80_000_000 } }
const data = (count: number, more: object = {}) =>
  JSON.stringify({ created: 1, data: Array.from({ length: count }, () => ({ url: 'https://x.test/a' })), ...more })
const events = (list: readonly object[]) => list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
const SSE = 'text/event-stream'

/** Endpoint, request, prices, answer, cost in nano-dollars (null: unknown), reservation. */
const CASES: readonly (readonly [string, RelayName, object, PriceOverride, Answer, number | null, number])[] = [
  // developers.openai.com/api/reference (whisper-1): seconds are rounded up.
  [
    'seconds of the usage',
    'transcriptions',
    form({ model: 'm' }),
    SECONDS,
    { body: '{"text":"a","usage":{"type":"duration","seconds":9}}' },
    900_000,
    1_000_000,
  ],
  [
    'the duration of verbose_json',
    'transcriptions',
    form({ model: 'm', response_format: 'verbose_json' }),
    SECONDS,
    { body: '{"task":"transcribe","duration":8.470000267028809,"text":"a"}' },
    900_000,
    1_000_000,
  ],
  [
    'a duration as text',
    'transcriptions',
    form({ model: 'm' }),
    SECONDS,
    { body: '{"duration":"8.47","text":"a"}' },
    900_000,
    1_000_000,
  ],
  [
    'events with a duration',
    'transcriptions',
    form({ model: 'm', stream: 'true' }),
    SECONDS,
    {
      type: SSE,
      body: events([
        { type: 'transcript.text.delta', delta: 'a' },
        { type: 'transcript.text.done', text: 'a', usage: { type: 'duration', seconds: 9 } },
      ]),
    },
    900_000,
    1_000_000,
  ],
  [
    'a duration of years',
    'transcriptions',
    form({ model: 'm' }),
    SECONDS,
    { body: '{"text":"a","usage":{"type":"duration","seconds":99999999}}' },
    null,
    1_000_000,
  ],
  [
    'a negative duration',
    'translations',
    form({ model: 'm' }),
    SECONDS,
    { body: '{"text":"a","duration":-1}' },
    null,
    1_000_000,
  ],
  [
    'subtitles, which state no duration',
    'transcriptions',
    form({ model: 'm', response_format: 'srt' }),
    SECONDS,
    { type: 'text/plain', body: '1\n' },
    null,
    1_000_000,
  ],
  [
    'tokens, where tokens are billed',
    'transcriptions',
    form({ model: 'm' }),
    { input: 6_000, output: 10_000 },
    { body: '{"text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":4}}' },
    14 * 6_000 + 4 * 10_000,
    167 * 6_000 + 34 * 10_000,
  ],
  [
    'no output rate',
    'transcriptions',
    form({ model: 'm' }),
    { ...SECONDS, output: 0 },
    { body: '{"text":"a","usage":{"type":"duration","seconds":9}}' },
    900_000,
    1_000_000,
  ],
  [
    'a factor',
    'transcriptions',
    form({ model: 'm' }),
    { ...SECONDS, factor: 0.5 },
    { body: '{"text":"a","usage":{"type":"duration","seconds":9}}' },
    450_000,
    500_000,
  ],
  [
    'characters',
    'speech',
    { model: 'm', input: 'grüß 😀', voice: 'v' },
    { perUnit: { characters: 15_000 } },
    { type: 'audio/mpeg', body: 'bytes' },
    6 * 15_000,
    6 * 15_000,
  ],
  [
    'characters, with events',
    'speech',
    { model: 'm', input: 'hello', voice: 'v', stream_format: 'sse' },
    { perUnit: { characters: 15_000 } },
    {
      type: SSE,
      body: events([
        { type: 'speech.audio.delta', audio: 'AA' },
        { type: 'speech.audio.done', usage: { input_tokens: 14, output_tokens: 101, total_tokens: 115 } },
      ]),
    },
    75_000,
    75_000,
  ],
  ['images', 'images', { model: 'm', prompt: 'p', n: 3 }, IMAGES, { body: data(3) }, 120_000_000, 120_000_000],
  [
    'fewer images than were asked for',
    'images',
    { model: 'm', prompt: 'p', n: 3 },
    IMAGES,
    { body: data(2) },
    80_000_000,
    120_000_000,
  ],
  ['no image at all', 'images', { model: 'm', prompt: 'p' }, IMAGES, { body: data(0) }, 0, 40_000_000],
  [
    'a size',
    'images',
    { model: 'm', prompt: 'p', size: '1024x1024' },
    IMAGES,
    { body: data(1) },
    50_000_000,
    50_000_000,
  ],
  [
    'a size and a quality',
    'images',
    { model: 'm', prompt: 'p', size: '1024x1024', quality: 'HD' },
    IMAGES,
    { body: data(1) },
    80_000_000,
    80_000_000,
  ],
  [
    'an unlisted quality of a size',
    'images',
    { model: 'm', prompt: 'p', size: '1024x1024', quality: 'low' },
    IMAGES,
    { body: data(1) },
    50_000_000,
    50_000_000,
  ],
  [
    'a size that the answer states',
    'images',
    { model: 'm', prompt: 'p', size: 'auto' },
    IMAGES,
    { body: data(1, { size: '1024x1024', quality: 'hd' }) },
    80_000_000,
    40_000_000,
  ],
  [
    'a size without a price',
    'images',
    { model: 'm', prompt: 'p', size: '512x512' },
    { perUnit: { 'images/256x256': 1_000, 'images/1024x1024': 5_000 } },
    { body: data(1) },
    null,
    5_000,
  ],
  [
    'images as events',
    'images',
    { model: 'm', prompt: 'p', n: 2, stream: true },
    IMAGES,
    {
      type: SSE,
      body: events([
        { type: 'image_generation.partial_image', b64_json: 'A' },
        { type: 'image_generation.completed', b64_json: 'A' },
        { type: 'image_generation.completed', b64_json: 'B' },
      ]),
    },
    80_000_000,
    80_000_000,
  ],
  [
    'edits of a form',
    'image-edits',
    form({ model: 'm', prompt: 'p', n: '2', size: '1024x1024' }),
    IMAGES,
    { body: data(2) },
    100_000_000,
    100_000_000,
  ],
  [
    'search units',
    'rerank',
    { model: 'm', query: 'q', documents: ['a'] },
    { perUnit: { queries: 2_000_000 } },
    { body: '{"results":[],"meta":{"billed_units":{"search_units":2}}}' },
    4_000_000,
    2_000_000,
  ],
  // maximhq/bifrost#4321, BerriAI/litellm#35194: no count is one query per 100 documents, and not free.
  [
    'no search units',
    'rerank',
    { model: 'm', query: 'q', documents: Array(101).fill('a') },
    { perUnit: { queries: 2_000_000 } },
    { body: '{"results":[]}' },
    4_000_000,
    4_000_000,
  ],
  [
    'tokens of rerank',
    'rerank',
    { model: 'm', query: 'q', documents: ['a'] },
    { input: 50, output: 0 },
    { body: '{"data":[],"usage":{"total_tokens":26}}' },
    1_300,
    50 * 1,
  ],
]

for (const [title, name, body, prices, answer, cost, reserved] of CASES)
  test(`relay money: ${title}`, async () => {
    const found = await paid(name, body, prices, answer)
    assert.equal(found.reply.status, 200, found.reply.text)
    assert.equal(found.cost, cost)
    assert.equal(found.reserved, reserved)
    // What is not known is charged as it was reserved.
    assert.equal(found.spent, cost ?? reserved)
    if (cost !== null && prices.perUnit) assert.equal(found.source, 'exact')
  })

test('relay money: images that were generated when the stream broke are charged as asked for', async () => {
  const body = { model: 'm', prompt: 'p', n: 3, stream: true }
  const broken = events([
    { type: 'image_generation.partial_image', b64_json: 'A' },
    { error: { message: 'The server had an error', type: 'server_error' } },
  ])
  const { cost } = await paid('images', body, IMAGES, { type: SSE, body: broken })
  assert.equal(cost, 120_000_000)
})

for (const n of ['1e999', '-1', '"x"', '0.5'])
  test(`relay money: a count of ${n} reserves a finite amount`, async () => {
    const body = JSON.parse(`{"model":"m","prompt":"p","n":${n}}`)
    const { reserved } = await paid('images', body, IMAGES, { body: data(1) })
    assert.ok(reserved === 40_000_000 || reserved === 40_000_000_000, `${reserved}`)
  })

test('relay money: no seconds are not free', async () => {
  const answer = '{"text":"a","usage":{"type":"duration","seconds":0}}'
  const { cost, spent } = await paid('transcriptions', form({ model: 'm' }), SECONDS, { body: answer })
  assert.deepEqual([cost, spent], [null, 1_000_000])
})

test('relay money: an attempt that was refused costs nothing', async () => {
  const { cost, spent } = await paid('images', { model: 'm', prompt: 'p' }, IMAGES, {
    status: 400,
    body: '{"error":{}}',
  })
  assert.deepEqual([cost, spent], [0, 0])
})

test('relay money: the ledger names the unit, its kind and its count', async () => {
  for (const [name, body, prices, answer, units] of [
    [
      'images',
      { model: 'm', prompt: 'p', size: '1024x1024', quality: 'hd', n: 2 },
      IMAGES,
      data(2),
      'images/1024x1024/hd 2',
    ],
    ['transcriptions', form({ model: 'm' }), SECONDS, '{"text":"a","duration":8.2}', 'seconds 9'],
    ['moderations', { model: 'm', input: 'a' }, { input: 1, output: 1 }, '{"results":[]}', undefined],
  ] as const) {
    const { units: found } = await paid(name, body, prices, { body: answer })
    assert.equal(found ? `${found.unit} ${found.count}` : undefined, units)
  }
})
