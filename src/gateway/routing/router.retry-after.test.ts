/** All targets are rate limited for a short time: the request waits for the first limit to end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'

const question = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const keyOf = ({ headers }: ScriptedCall) => (headers.authorization ?? '').replace('Bearer sk-', '')

/** Responses by key, in order: ms of a rate limit, `limit` without a time, a status, or `ok`. The last one repeats. */
type Says = Readonly<Record<string, readonly (number | 'limit' | '500' | 'ok')[]>>

const given = (says: Says, settings = {}) => {
  const names = Map.groupBy(Object.keys(says), (name) => name.split('-')[0] ?? '')
  const instances = [...names].map(([id, keys]) =>
    instance(
      id,
      keys.map((name) => name.split('-')[1] ?? ''),
    ),
  )
  const asked = new Map<string, number>()
  return gatewayHarness(
    instances,
    (call) => {
      const key = keyOf(call)
      const nth = asked.get(key) ?? 0
      asked.set(key, nth + 1)
      const lines = says[key] ?? []
      const line = lines[Math.min(nth, lines.length - 1)]
      if (line === 'ok') respondWith.json(call, 200, chatAnswer.whole('yes'))
      else if (line === '500') respondWith.error(call, 500)
      else respondWith.error(call, 429, {}, typeof line === 'number' ? { 'retry-after-ms': String(line) } : {})
    },
    { keyStrategy: 'round-robin', ...settings },
  )
}

/** [name, responses by key, settings, status, calls with their times (ms)] */
const cases: readonly (readonly [string, Says, object, number, readonly string[]])[] = [
  ['the only key', { 'a-1': [300, 'ok'] }, {}, 200, ['a-1 0', 'a-1 300']],
  ['two keys: the sooner', { 'a-1': [500], 'a-2': [300, 'ok'] }, {}, 200, ['a-1 0', 'a-2 0', 'a-2 300']],
  ['two keys: the sooner is the first', { 'a-1': [200, 'ok'], 'a-2': [300] }, {}, 200, ['a-1 0', 'a-2 0', 'a-1 200']],
  ['two providers', { 'a-1': [700], 'b-1': [400, 'ok'] }, {}, 200, ['a-1 0', 'b-1 0', 'b-1 400']],
  ['one soon, one not', { 'a-1': [9_000], 'b-1': [1_900, 'ok'] }, {}, 200, ['a-1 0', 'b-1 0', 'b-1 1900']],
  [
    'one limit with a time, one without',
    { 'a-1': ['limit'], 'b-1': [800, 'ok'] },
    {},
    200,
    ['a-1 0', 'b-1 0', 'b-1 800'],
  ],
  ['only once', { 'a-1': [300], 'a-2': [310] }, {}, 429, ['a-1 0', 'a-2 0', 'a-1 300']],
  ['longer than two seconds', { 'a-1': [2_001], 'a-2': [2_500] }, {}, 429, ['a-1 0', 'a-2 0']],
  ['just two seconds', { 'a-1': [2_000, 'ok'], 'a-2': [2_500] }, {}, 200, ['a-1 0', 'a-2 0', 'a-1 2000']],
  ['no limit has a time', { 'a-1': ['limit'], 'a-2': ['limit'] }, {}, 429, ['a-1 0', 'a-2 0']],
  [
    'a quarter of the time left',
    { 'a-1': [300], 'a-2': [400] },
    { timeout: { request: 1_199 } },
    429,
    ['a-1 0', 'a-2 0'],
  ],
  [
    'within a quarter of the time left',
    { 'a-1': [300, 'ok'], 'a-2': [400] },
    { timeout: { request: 1_200 } },
    200,
    ['a-1 0', 'a-2 0', 'a-1 300'],
  ],
  ['another failure', { 'a-1': ['500'], 'b-1': [300, 'ok'] }, {}, 502, ['a-1 0', 'b-1 0']],
  [
    'no attempt is left for it',
    { 'a-1': [300, 'ok'], 'a-2': [300, 'ok'] },
    { retry: { maxAttempts: 2 } },
    429,
    ['a-1 0', 'a-2 0'],
  ],
]
for (const [name, says, settings, status, calls] of cases)
  test(`at a limit: ${name}`, async () => {
    const { send, world } = given(says, settings)
    const start = world.now()
    const reply = send(question)
    await world.advance(5_000)
    const seenCalls = world.calls.map((call) => `${keyOf(call)} ${call.at - start}`)
    // The order of a provider's keys does not matter.
    assert.deepEqual([...seenCalls.slice(0, 2).sort(), ...seenCalls.slice(2)], calls)
    assert.equal(reply.status, status, reply.text)
  })

test('at a limit: a request that arrives while all targets are limited waits for the first, and tries none before', async () => {
  const { send, world } = given({ 'a-1': [1_500, 'ok'], 'a-2': [1_800] })
  const start = world.now()
  const first = send(question)
  await world.advance(1_000)
  first.disconnect()
  const reply = send(question)
  await world.advance(499)
  assert.equal(world.calls.length, 2)
  await world.advance(2_000)
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(
    world.calls.slice(2).map((call) => `${keyOf(call)} ${call.at - start}`),
    ['a-1 1500'],
  )
  assert.equal(reply.headers['x-headgate-attempts'], '1')
})

test('at a limit: no attempt follows when the client leaves during the wait', async () => {
  const { send, world } = given({ 'a-1': [1_000, 'ok'], 'a-2': [1_500] })
  const reply = send(question)
  await world.advance(500)
  reply.disconnect()
  await world.advance(5_000)
  assert.equal(world.calls.length, 2)
  assert.equal(world.timers(), 0)
})

// ── Waits that a provider states outside of headers ──────────────────────────────────────────────────────────────────

const MINUTE = 60_000
/** [source, error, whether a stream, the rest of the key in ms] */
const stated: readonly (readonly [string, object, boolean, number])[] = [
  [
    'Gemini, diegosouzapw/OmniRoute#9504',
    { code: 429, message: 'You exceeded your current quota.\nPlease retry in 36.4s.', status: 'RESOURCE_EXHAUSTED' },
    false,
    36_400,
  ],
  [
    'Groq, continuedev/continue#11580',
    {
      message:
        'Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01kkzx6nksef6bhcgew8gyrq9e` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99926, Requested 1739. Please try again in 23m58.56s.',
      type: 'tokens',
      code: 'rate_limit_exceeded',
    },
    true,
    23 * MINUTE + 58_560,
  ],
  [
    'Azure, alex-wolf-ps/dbchatprov2#2: a day is reduced to an hour',
    {
      code: '429',
      message:
        'Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-05-01-preview have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 86400 seconds.',
    },
    false,
    60 * MINUTE,
  ],
  [
    'Codex, james-6-23/codex2api#9',
    { type: 'usage_limit_reached', message: 'The usage limit has been reached', resets_in_seconds: 1_200 },
    false,
    20 * MINUTE,
  ],
]
for (const [name, error, stream, rest] of stated)
  test(`a stated wait is the rest of the key, and the client receives it: ${name}`, async () => {
    const { send, world, gateway } = gatewayHarness([instance('a')], (call) => respondWith.error(call, 429, error), {
      retry: { maxAttempts: 1 },
    })
    const reply = send({ ...question, stream })
    await world.advance(0)
    assert.equal(reply.status, 429)
    assert.equal(reply.headers['retry-after'], String(Math.ceil(rest / 1_000)))
    const [candidate] = gateway.config().instances
    const [key] = candidate?.keys ?? []
    assert.ok(candidate && key)
    const target = { candidate: { instance: candidate, model: 'm', because: '', weight: 1 }, key }
    const refusal = gateway.health.peek(target, gateway.config().settings)
    assert.deepEqual([refusal?.why, Math.round((refusal?.until ?? 0) - world.now())], ['rate_limited', rest])
  })

test('a stated wait that the client wrote itself does not rest the key', async () => {
  const words = 'Please try again in 55 minutes'
  const { send, world } = gatewayHarness([instance('a')], (call) =>
    respondWith.error(call, 429, { message: `Too many requests for: ${words}.` }),
  )
  const reply = send({ model: 'm', messages: [{ role: 'user', content: words }] })
  await world.advance(0)
  assert.equal(reply.status, 429)
  assert.ok(Number(reply.headers['retry-after']) <= 2, reply.headers['retry-after'])
})
