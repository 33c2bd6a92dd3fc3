/** What a request reserves that asks for a speed or a region which multiplies its price (ccusage/ccusage#886). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryJournal, testAccounts, testBudget, testClient } from '../../../test/support/accounts.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { Catalogue } from '../../core/config.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'

const catalogue: Catalogue = () => ({ prices: { input: 10, output: 40, service: { fast: 6, us: 1.1, flex: 0.5 } } })
const question = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] }
const usage = { input_tokens: 100, output_tokens: 10 }

const ask = async (asked: object, stated: object, amount: number) => {
  const body = {
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'ok' }],
    stop_reason: 'end_turn',
    usage: { ...usage, ...stated },
  }
  const instances = [instance('a', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })]
  const { gateway, world } = gatewayHarness(
    instances,
    (call) => respondWith.json(call, 200, JSON.stringify(body)),
    {},
    catalogue,
  )
  const { journal, records } = memoryJournal({ later: (_ms, run) => world.later(0, run) })
  const prices = priceBook(catalogue, [])
  const scopes = [budgetScope(testBudget(amount))]
  const accounts = testAccounts(world, { budgets: () => scopes, prices: () => prices, journal: () => journal })
  const reply = new CapturedReply()
  reply.done = serveChat(
    { ...gateway, accounts },
    {
      protocol: protocols['anthropic-messages'],
      received: {
        id: 'req_a',
        method: 'POST',
        path: '/messages',
        query: '',
        headers: () => undefined,
        body: { text: JSON.stringify({ ...question, ...asked }) },
        client: testClient(),
      },
      responseWriter: reply,
    },
  )
  await world.advance(10)
  const reserved = records.flatMap((record) => (record.type === 'attempt_opened' ? [record.reserved] : []))
  const cost = records.flatMap((record) => (record.type === 'attempt_closed' ? [record.cost] : []))
  return { reply, reserved: reserved[0], cost: cost[0], spent: accounts.budgetStates()[0]?.spent }
}

const COST = 100 * 10 + 10 * 40
const ROOM = 1_000_000

test('asked service: a fast request reserves and costs its multiple, and the budget counts it', async () => {
  const { reserved: plain = 0 } = await ask({}, {}, ROOM)
  const { reserved = 0, cost, spent } = await ask({ speed: 'fast' }, { speed: 'fast' }, ROOM)
  // The member itself makes the body a few tokens longer.
  assert.ok(reserved >= 6 * plain && reserved < 7.5 * plain, `${reserved} and ${plain}`)
  assert.deepEqual([cost, spent], [6 * COST, 6 * COST])
})

test('asked service: a budget that cannot pay for the multiple refuses', async () => {
  const { reserved: plain = 0 } = await ask({}, {}, ROOM)
  assert.equal((await ask({}, {}, 2 * plain)).reply.status, 200)
  assert.equal((await ask({ speed: 'fast' }, {}, 2 * plain)).reply.status, 402)
})

test('asked service: speed and region multiply each other, and what the answer states applies', async () => {
  const both = await ask({ speed: 'fast', inference_geo: 'us' }, { speed: 'fast', inference_geo: 'us' }, ROOM)
  assert.equal(both.cost, Math.round(6.6 * COST))
  const standard = await ask({ speed: 'fast' }, { speed: 'standard' }, ROOM)
  assert.equal(standard.cost, COST)
  const unstated = await ask({ speed: 'fast' }, {}, ROOM)
  assert.equal(unstated.cost, 6 * COST)
})
