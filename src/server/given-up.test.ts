/**
 * An attempt that was sent and given up is charged its reservation, or its own count if it is read to its end: on every path
 * that can spend, to the nano-dollar. What sends nothing, or only counts tokens, is free.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryJournal, testAccounts, testBudget, testClient } from '../../test/support/accounts.ts'
import {
  CapturedReply,
  chatAnswer,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../test/support/gateway.ts'
import type { ScriptedCall } from '../../test/support/still-world.ts'
import { type Failure, fail } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import { createResponse } from '../gateway/responses/create-response.ts'
import { memoryResponseStore } from '../gateway/responses/memory-response-store.ts'
import { budgetScope } from '../policy/accounts/budget-scope.ts'
import { priceBook } from '../policy/accounts/price-book.ts'
import { handlersFor } from './handlers.ts'
import { handlerOf, ROUTES, type RouteName } from './routes.ts'

const messages = [{ role: 'user', content: 'x' }]
const STREAM = { stream: true }
const PRICE = { input: 10, output: 40 }
/** Tokens of output that are reserved without `max_tokens`. */
const USUAL = 1_024
const AMOUNT = 1e12
const CLIENT = testClient()

const PARTS = { embeds: { protocol: 'openai-embeddings', models: ['m'] } } as const

const given = (
  script: (call: ScriptedCall) => void,
  settings: SettingsInput = {},
  instances = [instance('a', ['k'], PARTS)],
) => {
  const base = { retry: { maxAttempts: 1 }, hedge: { percent: 0 } }
  const harness = gatewayHarness(instances, script, { ...base, ...settings })
  const { world } = harness
  const { journal, records } = memoryJournal(world)
  const prices = priceBook(() => ({ prices: PRICE }), [])
  const scopes = [budgetScope(testBudget(AMOUNT))]
  const accounts = testAccounts(world, { budgets: () => scopes, prices: () => prices, journal: () => journal })
  const gateway = { ...harness.gateway, accounts }
  const handlers = handlersFor({
    ...{ gateway, version: '0', started: 0, uptime: () => 0, keyed: () => true },
    ...{ draining: () => false, loading: () => false, problems: () => [], metrics: () => '' },
    clientPages: () => Promise.reject(new Error('not used')),
  })
  let number = 0
  const received = (name: RouteName, body: object, key?: string): IncomingRequest => ({
    ...{ id: `req_${number++}`, method: 'POST', path: ROUTES[name].path, query: '' },
    headers: (header) => (header === 'idempotency-key' ? key : undefined),
    body: { text: JSON.stringify(body) },
    client: CLIENT,
  })
  const ask = (name: RouteName, body: object, key?: string) => {
    const reply = new CapturedReply()
    reply.done = Promise.resolve(handlerOf(handlers, name)(received(name, body, key), reply, ''))
    return reply
  }
  /** What each attempt reserved and costs; the counter has the sum of the costs, and holds nothing. */
  const settled = () => {
    const reserved = records.flatMap((one) => (one.type === 'attempt_opened' ? [one.reserved] : []))
    const costs = records.flatMap((one) => (one.type === 'attempt_closed' ? [one.cost] : []))
    const [state] = accounts.budgetStates()
    const total = costs.reduce<number>((sum, cost) => sum + (cost ?? Number.NaN), 0)
    assert.deepEqual([state?.spent ?? 0, state?.reserved ?? 0], [total, 0])
    return { reserved, costs }
  }
  return { ...harness, gateway, ask, received, settled }
}
type Given = ReturnType<typeof given>

const REVOKED = fail('unauthenticated', 'The key was revoked.')
const cancelled = ({ gateway }: Given, reason: Failure) => gateway.activeCalls.cancelOf(CLIENT.id, reason)

/** Who gives up. */
const WAYS: readonly (readonly [who: string, giveUp: (harness: Given, reply: CapturedReply) => unknown])[] = [
  ['its client', (_, reply) => reply.disconnect()],
  ['an operator who cuts the key', (harness) => cancelled(harness, REVOKED)],
  ['the end of its time', (harness) => cancelled(harness, fail('deadline', 'Too late.'))],
  ['the end of the process', (harness) => cancelled(harness, fail('shutdown', 'It ends.'))],
]

const CASES: readonly (readonly [name: RouteName, body: object, output: number])[] = [
  ['chat', { model: 'm', messages }, USUAL],
  ['chat', { model: 'm', messages, ...STREAM }, USUAL],
  ['chat', { model: 'm', messages, max_tokens: 300 }, 300],
  ['chat', { model: 'm', messages, max_tokens: 300, n: 2, ...STREAM }, 600],
  ['completions', { model: 'm', prompt: 'x' }, USUAL],
  ['completions', { model: 'm', prompt: 'x', ...STREAM }, USUAL],
  ['responses', { model: 'm', input: 'x' }, USUAL],
  ['responses', { model: 'm', input: 'x', ...STREAM }, USUAL],
  ['compact', { model: 'm', input: 'x' }, USUAL],
  ['messages', { model: 'm', max_tokens: 70, messages }, 70],
  ['messages', { model: 'm', max_tokens: 70, messages, ...STREAM }, 70],
  ['embeddings', { model: 'm', input: 'x' }, 0],
]

/** How far the answer has come. */
const BEGUN: readonly (readonly [state: string, begin: (call: ScriptedCall) => void])[] = [
  ['before its answer', () => {}],
  [
    'within its answer',
    (call) => {
      const isStream = call.headers.accept === 'text/event-stream'
      call.head(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' })
      call.send(isStream ? chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }) : '{"id":"chatcmpl-1","choices":[')
    },
  ],
]

for (const [name, body, output] of CASES)
  for (const [state, begin] of BEGUN)
    for (const [who, giveUp] of WAYS)
      test(`given up ${state} by ${who}: ${name} ${JSON.stringify(body)}`, async () => {
        const harness = given(begin)
        const { ask, world, settled } = harness
        const reply = ask(name, body)
        await world.advance(1_000)
        giveUp(harness, reply)
        await world.advance(700_000)
        await reply.done
        const { reserved, costs } = settled()
        assert.equal(world.calls.length, 1)
        assert.deepEqual(costs, reserved)
        const input = (reserved[0] ?? 0) - output * PRICE.output
        assert.ok(input > 0 && input < 200 * PRICE.input, `${reserved} with ${output} tokens of output`)
      })

describe('given up', () => {
  for (const [state, begin] of BEGUN)
    for (const [who, giveUp] of [
      ...WAYS.slice(1),
      ['its owner', ({ gateway }: Given) => Promise.all([...gateway.jobs.values()].map((job) => job.cancel()))],
    ] as const)
      test(`a background response ${state}, by ${who}`, async () => {
        const harness = given(begin)
        const { ask, world, settled } = harness
        const reply = ask('responses', { model: 'm', input: 'x', background: true })
        await world.advance(1_000)
        assert.equal(reply.json.status, 'queued')
        void giveUp(harness, reply)
        await world.advance(700_000)
        const { reserved, costs } = settled()
        assert.equal(reserved.length, 1)
        assert.deepEqual(costs, reserved)
      })

  for (const [state, begin] of BEGUN)
    for (const [who, giveUp] of WAYS)
      test(`a turn over a WebSocket ${state}, by ${who}`, async () => {
        const harness = given(begin)
        const { gateway, received, world, settled } = harness
        const reply = new CapturedReply()
        const turn = received('responses', { model: 'm', input: 'x', ...STREAM })
        const done = createResponse(gateway, turn, reply, memoryResponseStore(100))
        await world.advance(1_000)
        giveUp(harness, reply)
        await world.advance(700_000)
        await done
        const { reserved, costs } = settled()
        assert.equal(reserved.length, 1)
        assert.deepEqual(costs, reserved)
      })

  test('a whole answer that comes after its client has left costs what the provider counts', async () => {
    for (const name of ['chat', 'completions', 'responses', 'messages'] as const) {
      const { ask, world, settled } = given(() => {})
      const body = {
        chat: { messages },
        completions: { prompt: 'x' },
        responses: { input: 'x' },
        messages: { messages, max_tokens: 70 },
      }
      const reply = ask(name, { model: 'm', ...body[name] })
      await world.advance(1_000)
      reply.disconnect()
      await world.advance(5_000)
      respondWith.json(world.calls[0] ?? assert.fail(), 200, chatAnswer.whole('Hello'))
      await world.advance(1)
      await reply.done
      assert.deepEqual(settled().costs, [3 * PRICE.input + 2 * PRICE.output], name)
    }
  })

  test('a hedge that lost after the head and a part of its answer', async () => {
    const begin = BEGUN[1]?.[1] ?? assert.fail()
    const hedge = { percent: 100, delay: 100 }
    const settings = { hedge, retry: { maxAttempts: 3 } }
    const { ask, world, settled } = given(() => {}, settings, [instance('a'), instance('b')])
    const reply = ask('chat', { model: 'm', messages })
    await world.advance(5_000)
    const [first, second] = world.calls
    begin(second ?? assert.fail())
    await world.advance(1)
    respondWith.json(first ?? assert.fail(), 200, chatAnswer.whole('Hello'))
    await world.advance(5_000)
    assert.equal(reply.status, 200)
    const { reserved, costs } = settled()
    assert.deepEqual([...costs].sort(), [3 * PRICE.input + 2 * PRICE.output, reserved[1]].sort())
  })

  test('a call with an Idempotency-Key, and its repetitions cost nothing', async () => {
    const { ask, world, settled } = given(() => {}, { idempotency: { finish: 60_000 } })
    const body = { model: 'm', messages, ...STREAM }
    const first = ask('chat', body, 'k')
    await world.advance(1_000)
    const second = ask('chat', body, 'k')
    await world.advance(1_000)
    first.disconnect()
    await world.advance(1_000)
    const stream = chatAnswer.stream('Hel', 'lo').replace(chatAnswer.done, '')
    const counts = 'data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    respondWith.stream(world.calls[0] ?? assert.fail(), stream + counts + chatAnswer.done)
    await world.advance(1)
    const third = ask('chat', body, 'k')
    await world.advance(120_000)
    await Promise.all([first.done, second.done, third.done])
    assert.deepEqual([second.status, third.status, world.calls.length], [200, 200, 1])
    assert.deepEqual(settled().costs, [3 * PRICE.input + 2 * PRICE.output])
  })

  test('a call with an Idempotency-Key without a client that waits for it', async () => {
    const { ask, world, settled } = given(() => {}, { idempotency: { finish: 10_000 } })
    const reply = ask('chat', { model: 'm', messages, ...STREAM }, 'k')
    await world.advance(1_000)
    reply.disconnect()
    await world.advance(700_000)
    await reply.done
    const { reserved, costs } = settled()
    assert.deepEqual(costs, reserved)
  })

  test('counts of tokens and explanations of routes are free', async () => {
    for (const [name, body] of [
      ['countTokens', { model: 'm', messages }],
      ['inputTokens', { model: 'm', input: 'x' }],
      ['explain', { model: 'm', messages }],
    ] as const) {
      const { ask, world, settled } = given(() => {})
      const reply = ask(name, body)
      await world.advance(1)
      reply.disconnect()
      await world.advance(700_000)
      await reply.done
      assert.ok(
        settled().costs.every((cost) => cost === 0),
        name,
      )
    }
  })
})
