/** The response cache for relayed endpoints: those of which equal requests have equal answers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { ALL_RELAYS } from '../../../test/support/relays.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { RELAY_ROWS, type RelayName } from '../../core/relay.ts'
import { serveRelay } from './serve-relay.ts'

const cache = { ttl: 300, scope: 'key', anyTemperature: false, tools: false, requestControl: true } as const
const ANSWER = '{"results": [{"index":0}],  "data":[],"text":"a"}'

const given = () => {
  const made = gatewayHarness([instance('a', ['k1'], { relays: ALL_RELAYS })], (call) =>
    respondWith.json(call, 200, ANSWER),
  )
  const send = async (name: RelayName, body: object, key = 'key_ann') => {
    const reply = new CapturedReply()
    const received = {
      id: 'req_a',
      method: 'POST',
      path: `/v1/${name}`,
      query: '',
      headers: () => undefined,
      body: { text: JSON.stringify(body) },
      client: { ...ANONYMOUS, id: key, owner: key, cache },
    }
    const done = serveRelay(made.gateway, { name, received, responseWriter: reply })
    await made.world.advance(1_000)
    await done
    return reply
  }
  return { ...made, send }
}

const BODIES = {
  moderations: { model: 'm', input: 'a text' },
  rerank: { model: 'm', query: 'q', documents: ['a'] },
}

for (const [name, body] of Object.entries(BODIES) as [keyof typeof BODIES, object][])
  test(`relay cache: an equal request of ${name} is answered without a call`, async () => {
    const { send, world } = given()
    const [first, second] = [await send(name, body), await send(name, body)]
    assert.equal(first.headers['x-headgate-cache'], 'miss')
    assert.match(second.headers['x-headgate-cache'] ?? '', /^hit/)
    assert.equal(second.text, ANSWER)
    assert.equal(second.headers['content-type'], 'application/json')
    assert.equal(second.headers['x-headgate-cost'], '0.000000000')
    assert.equal(world.calls.length, 1)
    await send(name, { ...body, other: 1 })
    await send(name, body, 'key_ben')
    assert.equal(world.calls.length, 3)
  })

test('relay cache: no other endpoint uses it', async () => {
  for (const [name] of RELAY_ROWS.filter(([own]) => !Object.hasOwn(BODIES, own))) {
    const { send, world } = given()
    for (let times = 0; times < 2; times++) await send(name, { model: 'm', input: 'hi', prompt: 'hi' })
    assert.equal(world.calls.length, 2, name)
  }
})
