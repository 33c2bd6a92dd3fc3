/** `x-headgate-dropped` on answers and errors, and above the length limit of a header. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { fail } from '../../core/failure.ts'
import { droppedLine } from '../call/recorder.ts'

const asked = { model: 'x', messages: [{ role: 'user', content: 'hello' }], verbosity: 'low', seed: 7 }
const claude = (id: string) => instance(id, ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })

const errors = [
  ['a bad request', (call: Parameters<typeof respondWith.error>[0]) => respondWith.error(call, 400)],
  ['a server error', (call: Parameters<typeof respondWith.error>[0]) => respondWith.error(call, 500)],
  ['a rate limit', (call: Parameters<typeof respondWith.error>[0]) => respondWith.error(call, 429)],
  [
    'a lost connection',
    (call: Parameters<typeof respondWith.error>[0]) => call.fail(fail('reset', 'connection reset')),
  ],
] as const
for (const [name, plays] of errors)
  for (const stream of [false, true])
    test(`dropped: named on ${name}${stream ? ' of a stream' : ''}`, async () => {
      const { send, world } = gatewayHarness([claude('a')], plays)
      const reply = send({ ...asked, stream })
      await world.advance(100_000)
      assert.ok((reply.status ?? 0) >= 400, String(reply.status))
      assert.equal(reply.headers['x-headgate-dropped'], 'seed, verbosity')
    })

test('dropped: an error reports the last attempt, an answer the target that answered', async () => {
  const [first, second] = [claude('a'), instance('b')]
  const { send, world } = gatewayHarness([first, second], (call) =>
    call.url.includes('//a.') ? respondWith.error(call, 500) : respondWith.json(call, 200, chatAnswer.whole('Hello')),
  )
  const reply = send(asked)
  await world.advance(0)
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['x-headgate-dropped'], undefined)
})

test('dropped: a request without attempts reports nothing', async () => {
  const { send, world } = gatewayHarness([claude('a')], () => assert.fail('not to be called'))
  const reply = send({ ...asked, n: 2 })
  await world.advance(0)
  assert.equal(reply.status, 400)
  assert.equal(reply.headers['x-headgate-dropped'], undefined)
})

const path = (index: number) => `messages[${index}].name`
const paths = (count: number) => Array.from({ length: count }, (_, index) => path(index))
const lines = [
  ['nothing', [], ''],
  ['one', ['a'], 'a'],
  ['two', ['a', 'b[0].c'], 'a, b[0].c'],
  ['a name that is not ASCII', ['é', 'b'], '%C3%A9, b'],
] as const
for (const [name, given, expected] of lines)
  test(`dropped: ${name} as a header`, () => assert.equal(droppedLine(given), expected))

test('dropped: paths that do not fit are counted', () => {
  for (const count of [50, 53, 54, 55, 56, 57, 200, 10_000]) {
    const line = droppedLine(paths(count))
    assert.ok(line.length <= 1_024, `${count}: ${line.length}`)
    const listed = line.split(', ')
    const more = /^\.\.\. \+(\d+)$/.exec(listed.at(-1) ?? '')
    assert.equal(listed.length - (more ? 1 : 0) + Number(more?.[1] ?? 0), count)
    for (const [index, one] of listed.entries()) if (index < listed.length - 1 || !more) assert.equal(one, path(index))
  }
  assert.match(droppedLine(['x'.repeat(5_000), 'b', 'c']), /^x{900,}\.\.\.(?:, b, c|, \.\.\. \+2)$/)
})

// ── Output ────────────────────────────────────────────────────────────────────────────────────────────────────────

const picture = {
  candidates: [
    {
      content: {
        role: 'model',
        parts: [{ text: 'Here.' }, { inlineData: { mimeType: 'image/png', data: 'iVBORw0K' } }],
      },
      finishReason: 'STOP',
    },
  ],
}
const painter = () => instance('a', ['k1'], { speaks: [{ protocol: 'gemini' }] })
const lostIn = (events: ReturnType<typeof gatewayHarness>['events']) =>
  events.flatMap((one) =>
    one.event === 'request' ? one.trace.flatMap((f) => (f.type === 'dropped' ? f.paths : [])) : [],
  )

test('dropped: an image that a whole answer cannot carry is in the header and the log', async () => {
  const { send, world, events } = gatewayHarness([painter()], (call) =>
    respondWith.json(call, 200, JSON.stringify(picture)),
  )
  const reply = send({ ...asked, max_tokens: 10 }, 'anthropic-messages')
  await world.advance(0)
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['x-headgate-dropped'], 'verbosity, seed, output.image')
  assert.deepEqual(lostIn(events), ['verbosity', 'seed', 'output.image'])
})

test('dropped: in a stream a comment reports it once, and the log', async () => {
  const event = `data: ${JSON.stringify(picture)}\n\n`
  const { send, world, events } = gatewayHarness([painter()], (call) =>
    respondWith.stream(call, event.replace('"finishReason":"STOP"', '"index":0') + event),
  )
  const reply = send({ ...asked, max_tokens: 10, stream: true }, 'anthropic-messages')
  await world.advance(0)
  assert.equal(reply.headers['x-headgate-dropped'], 'verbosity, seed')
  assert.equal(reply.text.match(/^: headgate dropped=output\.image$/gm)?.length, 1)
  assert.match(reply.text, /message_stop/)
  assert.deepEqual(lostIn(events), ['verbosity', 'seed', 'output.image'])
})

test('dropped: a carried image is not reported', async () => {
  const { send, world } = gatewayHarness([painter()], (call) => respondWith.json(call, 200, JSON.stringify(picture)))
  const reply = send({ model: 'x', messages: asked.messages })
  await world.advance(0)
  assert.equal(reply.headers['x-headgate-dropped'], undefined)
  assert.equal(reply.json.choices[0].message.images[0].image_url.url, 'data:image/png;base64,iVBORw0K')
})
