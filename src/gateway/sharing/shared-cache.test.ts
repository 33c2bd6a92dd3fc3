/** The second level of the response cache, which two gateways share, on the whole request path. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { ANONYMOUS, type Client } from '../../core/accounts.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { ResponseCache, type SharedCache, type SharedHit } from './response-cache.ts'

const RULES = { ttl: 300, scope: 'key', anyTemperature: false, tools: false, requestControl: true } as const
const client = (id: string): Client => ({ ...ANONYMOUS, id, owner: id, cache: RULES })

/** What gateways share. `age`: of its answers. */
const shared = () => {
  const rows = new Map<string, SharedHit>()
  const state = { age: 5_000, isAway: false, asked: 0 }
  const cache: SharedCache = {
    async find(name) {
      state.asked++
      const found = state.isAway ? undefined : rows.get(name)
      return found ? { ...found, age: state.age } : null
    },
    put(name, answer, ttl) {
      rows.set(name, { answer, age: 0, left: ttl - state.age })
    },
    purge: async () => (state.isAway ? null : 0),
    close: async () => {},
  }
  return { rows, state, cache }
}

const gatewayWith = (second: SharedCache | undefined) => {
  const made = gatewayHarness([instance('a')], (asked) => respondWith.json(asked, 200, chatAnswer.whole('good day')))
  const { world } = made
  const cache = new ResponseCache({ world, fingerprint: (text) => text, limit: () => 1_000_000, shared: second })
  const gateway = { ...made.gateway, cache }
  const ask = async (as = 'key_ann', control?: string) => {
    const reply = new CapturedReply()
    const received = {
      id: 'req_1',
      method: 'POST',
      path: '/v1/chat/completions',
      query: '',
      headers: (name: string) => (name === 'cache-control' ? control : undefined),
      body: { text: JSON.stringify({ model: 'm', temperature: 0, messages: [{ role: 'user', content: 'hello' }] }) },
      client: client(as),
    }
    reply.done = serveChat(gateway, { protocol: protocols['openai-chat'], received, responseWriter: reply })
    await world.settle()
    return reply
  }
  return { ...made, cache, ask, calls: () => world.calls.length }
}

const two = () => {
  const level = shared()
  return { ...level, one: gatewayWith(level.cache), other: gatewayWith(level.cache) }
}

test('a second gateway sends the answer of the first, and keeps it', async () => {
  const { one, other, state } = two()
  const first = await one.ask()
  const second = await other.ask()
  assert.deepEqual([first.headers['x-headgate-cache'], second.headers['x-headgate-cache']], ['miss', 'hit; age=5'])
  assert.deepEqual([second.text, other.calls(), second.headers['x-headgate-attempts']], [first.text, 0, '0'])
  const asked = state.asked
  await other.world.advance(1_000)
  const third = await other.ask()
  assert.deepEqual([third.headers['x-headgate-cache'], state.asked], ['hit; age=6', asked])
  // It expires with the answer of the first one.
  await other.world.advance(294_001)
  state.isAway = true
  const last = await other.ask()
  assert.deepEqual([last.headers['x-headgate-cache'], other.calls()], ['miss', 1])
})

test('another key does not receive it', async () => {
  const { one, other } = two()
  await one.ask('key_ann')
  assert.equal((await other.ask('key_bob')).headers['x-headgate-cache'], 'miss')
})

const controls: readonly (readonly [string, string | undefined, number, string])[] = [
  ['an answer that is too old', 'max-age=4', 1, 'miss'],
  ['an answer that is young enough', 'max-age=5', 0, 'hit; age=5'],
  ['no-cache', 'no-cache', 1, 'miss'],
  ['no-store', 'no-store', 1, 'bypass; why=no-store'],
  ['only-if-cached', 'only-if-cached', 0, 'hit; age=5'],
]
for (const [name, control, calls, result] of controls)
  test(`the request decides: ${name}`, async () => {
    const { one, other } = two()
    await one.ask()
    const second = await other.ask('key_ann', control)
    assert.deepEqual([second.headers['x-headgate-cache'], other.calls()], [result, calls])
  })

test('without the second level the model is called, and only-if-cached is refused', async () => {
  const { one, other, state } = two()
  await one.ask()
  state.isAway = true
  assert.equal((await other.ask('key_ann', 'only-if-cached')).status, 504)
  assert.equal((await other.ask()).headers['x-headgate-cache'], 'miss')
  assert.equal(await other.cache.purgeShared({}), null)
})

test('a gateway without a second level looks here only', async () => {
  const alone = gatewayWith(undefined)
  await alone.ask()
  assert.equal((await alone.ask()).headers['x-headgate-cache'], 'hit; age=0')
  assert.deepEqual([alone.cache.isShared, await alone.cache.purgeShared({})], [false, 0])
})
