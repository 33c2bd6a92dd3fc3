/** Sticky keys end to end: each turn of a conversation goes to the key with its prompt cache. Also the cache of plans. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS, FULL_ACCESS } from '../../core/accounts.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { draftPlan } from '../../policy/routing/plan.ts'
import { createResponse } from '../responses/create-response.ts'
import { planFor } from './planner.ts'

const CHAT = { style: 'chat', client: ANONYMOUS, headers: () => undefined, members: {}, shape: null }
const KEYS = ['k1', 'k2', 'k3', 'k4', 'k5']
const keyOf = ({ headers }: ScriptedCall) => (headers.authorization ?? '').split('-').at(-1) ?? ''

const response = (text: string) =>
  JSON.stringify({
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    model: 'm',
    output: [{ type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text }] }],
  })

const sticky = (speaks: UpstreamProtocolName = 'openai-chat') =>
  gatewayHarness(
    [instance('a', KEYS, { speaks: [{ protocol: speaks }] })],
    (asked) => respondWith.json(asked, 200, speaks === 'openai-responses' ? response('yes') : chatAnswer.whole('yes')),
    { keyStrategy: 'sticky' },
  )

const TOOL = { name: 'f', description: 'f', input_schema: { type: 'object' } }

/** The turns of a conversation about `topic`, as clients send them. */
const styles: readonly (readonly [style: ClientProtocolName, turns: (topic: string) => readonly object[]])[] = [
  [
    'openai-chat',
    (topic) => {
      const first = [
        { role: 'system', content: 'be kind' },
        { role: 'user', content: topic },
      ]
      const more = [
        { role: 'assistant', content: 'yes' },
        { role: 'user', content: 'more' },
      ]
      return [first, [...first, ...more], [...first, ...more, ...more]].map((messages) => ({ model: 'm', messages }))
    },
  ],
  [
    'anthropic-messages',
    (topic) => {
      const first = [{ role: 'user', content: topic }]
      const more = [
        { role: 'assistant', content: [{ type: 'text', text: 'yes' }] },
        { role: 'user', content: [{ type: 'text', text: 'more', cache_control: { type: 'ephemeral' } }] },
      ]
      return [first, [...first, ...more], [...first, ...more, ...more]].map((messages) => ({
        model: 'm',
        max_tokens: 9,
        system: 'be kind',
        tools: [TOOL],
        messages,
      }))
    },
  ],
  [
    'openai-responses',
    (topic) => {
      const first = [{ role: 'user', content: topic }]
      const more = [
        { role: 'assistant', content: 'yes' },
        { role: 'user', content: 'more' },
      ]
      return [topic, [...first, ...more], [...first, ...more, ...more]].map((input) => ({
        model: 'm',
        instructions: 'be kind',
        input,
      }))
    },
  ],
]

for (const [style, turns] of styles)
  test(`sticky: all turns of a conversation use one key, and conversations are spread over all keys (${style})`, async () => {
    const { send, world } = sticky()
    const seen = new Set<string>()
    for (let n = 0; n < 30; n++) {
      world.calls.length = 0
      for (const body of turns(`question ${n}`)) {
        const reply = send(body, style)
        await world.advance(10)
        assert.equal(reply.status, 200, reply.text)
      }
      const keys = new Set(world.calls.map(keyOf))
      assert.equal(keys.size, 1, `conversation ${n}: ${[...keys]}`)
      seen.add([...keys].join())
    }
    assert.equal(seen.size, KEYS.length)
  })

test('sticky: all conversations of a session that requests name use one key, and sessions are spread over all keys', async () => {
  const { send, world } = sticky()
  const seen = new Set<string>()
  for (let n = 0; n < 30; n++) {
    world.calls.length = 0
    for (const question of ['one', 'two', 'three']) {
      send({ model: 'm', messages: [{ role: 'user', content: question }], metadata: { session_id: `s${n}` } })
      await world.advance(10)
    }
    const keys = new Set(world.calls.map(keyOf))
    assert.equal(keys.size, 1, `session ${n}: ${[...keys]}`)
    seen.add([...keys].join())
  }
  assert.equal(seen.size, KEYS.length)
})

for (const speaks of ['openai-chat', 'openai-responses'] as const)
  test(`sticky: a turn that only references the previous one uses the same key (${speaks})`, async () => {
    const { gateway, world } = sticky(speaks)
    const ask = (body: object) => {
      const reply = new CapturedReply()
      const received = {
        id: 'req_test',
        method: 'POST',
        path: '/v1/responses',
        query: '',
        headers: () => undefined,
        body: { text: JSON.stringify(body) },
        client: ANONYMOUS,
      }
      reply.done = createResponse(gateway, received, reply)
      return reply
    }
    for (let n = 0; n < 10; n++) {
      world.calls.length = 0
      let previous: string | undefined
      for (const input of [`question ${n}`, 'more', 'and more']) {
        const reply = ask({ model: 'm', input, previous_response_id: previous })
        await world.advance(10)
        assert.equal(reply.status, 200, reply.text)
        previous = reply.json.id
      }
      assert.equal(world.calls.length, 3)
      assert.equal(new Set(world.calls.map(keyOf)).size, 1, `conversation ${n}`)
    }
  })

test('sticky: a key in cooldown is skipped, and gets its conversations back afterwards', async () => {
  const { send, world } = gatewayHarness(
    [instance('a', KEYS)],
    (asked) => {
      if (limited === keyOf(asked)) respondWith.error(asked, 429, {}, { 'retry-after': '20' })
      else respondWith.json(asked, 200, chatAnswer.whole('yes'))
    },
    { keyStrategy: 'sticky' },
  )
  let limited = ''
  const by = async () => {
    const reply = send({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
    await world.advance(10)
    assert.equal(reply.status, 200)
    return keyOf(world.calls.at(-1) ?? assert.fail())
  }
  const first = await by()
  limited = first
  const second = await by()
  assert.notEqual(second, first)
  assert.equal(await by(), second)
  limited = ''
  assert.equal(await by(), second)
  await world.advance(20_000)
  assert.equal(await by(), first)
})

test('sticky: a busy conversation overflows to its next preferred keys', async () => {
  const { send, world } = gatewayHarness([instance('a', KEYS)], () => {}, { keyStrategy: 'sticky' })
  const hot = (count: number) => {
    for (let n = 0; n < count; n++) send({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  }
  hot(5)
  await world.advance(0)
  assert.equal(new Set(world.calls.map(keyOf)).size, 1)
  for (let n = 0; n < 95; n++) {
    hot(1)
    await world.advance(0)
  }
  const loads = Map.groupBy(world.calls, keyOf)
  // 4 + 1.25 × 100 ⁄ 5, and the request that exceeds it.
  for (const [key, calls] of loads) assert.ok(calls.length <= 30, `${key} has ${calls.length}`)
  assert.ok(loads.size >= 4)
})

test('spread: a key without remaining requests is skipped until its reset, without a refusal', async () => {
  const left = new Map<string, string>()
  const { send, world, gateway } = gatewayHarness([instance('a', ['k1', 'k2'])], (asked) =>
    respondWith.json(asked, 200, chatAnswer.whole('yes'), {
      'x-ratelimit-limit-requests': '100',
      'x-ratelimit-remaining-requests': left.get(keyOf(asked)) ?? '99',
      'x-ratelimit-reset-requests': '30s',
    }),
  )
  left.set('k1', '0')
  const asks = async (count: number) => {
    world.calls.length = 0
    for (let n = 0; n < count; n++) {
      send({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
      await world.advance(10)
    }
    return world.calls.map(keyOf)
  }
  const before = await asks(40)
  assert.equal(before.filter((key) => key === 'k1').length, 1)
  const one = gateway.config().instances[0] ?? assert.fail()
  const target = {
    candidate: { instance: one, model: 'm', because: '', weight: 1 },
    key: one.keys[0] ?? assert.fail(),
  }
  assert.equal(gateway.health.peek(target, gateway.config().settings), null)
  await world.advance(30_000)
  left.set('k1', '99')
  const after = await asks(40)
  assert.ok(after.includes('k1') && after.includes('k2'))
})

// ── The cache of plans ─────────────────────────────────────────────────────────────────────────────────────────

const routesNamed = (count: number, strategy: 'priority' | 'weighted') => {
  const names = Array.from({ length: count }, (_, n) => `route-${n}`)
  const targets = ['a', 'b'].map((provider) => ({ provider, model: 'm', weight: 1 }))
  return {
    instances: [instance('a', ['k1']), instance('b', ['k1'])],
    routes: new Map(names.map((name) => [name, { name, strategy, targets, fallback: [] }])),
    settings: defaultSettings,
  }
}

/** The model lists are the same object until they are fetched again. */
const planner = () => {
  const lists = new Map<string, readonly string[]>()
  return { ...gatewayHarness([], () => {}).gateway, lists: () => lists }
}

for (const strategy of ['priority', 'weighted'] as const)
  test(`planning: each of 5,000 routes is planned once (${strategy})`, () => {
    const gateway = planner()
    const config = routesNamed(5_000, strategy)
    let drafts = 0
    const counted: typeof draftPlan = (wanted) => {
      drafts++
      return draftPlan(wanted)
    }
    const plans = [1, 2, 3].map(() =>
      [...config.routes.keys()].map((name) => planFor(gateway, config, { ...CHAT, model: name, drafting: counted })),
    )
    assert.equal(drafts, 5_000)
    for (const made of plans.flat()) assert.ok(made.ok && made.value.candidates.length === 2)
    // State is cached by candidate, so the candidate must be the same object each time.
    const candidates = plans.map(([first]) => (first?.ok ? new Set(first.value.candidates) : assert.fail()))
    assert.deepEqual(candidates[0]?.symmetricDifference(candidates[2] ?? new Set()), new Set())
  })

test('planning: a route that is denied is denied in any case', () => {
  const gateway = planner()
  const config = routesNamed(2, 'priority')
  const access = [{ ...FULL_ACCESS, routes: ['*', '!Route-0'] }]
  for (const [model, is] of [
    ['route-0', false],
    ['ROUTE-0', false],
    [' Route-0 ', false],
    [' Route-1 ', true],
  ] as const)
    assert.equal(planFor(gateway, config, { ...CHAT, model, client: { ...CHAT.client, access } }).ok, is, model)
})

test('planning: a name that is denied is denied also where the name of its route is a glob', () => {
  const gateway = planner()
  const targets = [{ provider: 'a', model: 'm', weight: 1 }]
  const config = {
    ...routesNamed(0, 'priority'),
    routes: new Map([['big-*', { name: 'big-*', targets, fallback: [] }]]),
  }
  const access = [{ ...FULL_ACCESS, routes: ['*', '!big-one*'] }]
  for (const [model, is] of [
    ['big-two', true],
    ['Big-One-2', false],
  ] as const)
    assert.equal(planFor(gateway, config, { ...CHAT, model, client: { ...CHAT.client, access } }).ok, is, model)
})

test('planning: only the newest of the names that clients send are cached', () => {
  const gateway = planner()
  const config = routesNamed(1, 'priority')
  let drafts = 0
  const counted: typeof draftPlan = (wanted) => {
    drafts++
    return draftPlan(wanted)
  }
  const ask = (name: string) => {
    const before = drafts
    planFor(gateway, config, { ...CHAT, model: name, drafting: counted })
    return drafts === before ? 'known' : 'new'
  }
  for (let n = 0; n < 3_000; n++) assert.equal(ask(`name-${n}`), 'new')
  assert.equal(ask('name-2999'), 'known')
  assert.equal(ask('name-2001'), 'known')
  assert.equal(ask('name-1999'), 'new')
  assert.deepEqual([ask('x'.repeat(201)), ask('x'.repeat(201))], ['new', 'new'])
  assert.deepEqual([ask('route-0'), ask('route-0')], ['new', 'known'])
})

test('planning: with more providers, fewer client names are cached', () => {
  const gateway = planner()
  // Every plan has all providers as a last resort.
  const instances = Array.from({ length: 1_000 }, (_, n) => instance(`p${n}`, ['k1']))
  const config = { ...routesNamed(1, 'priority'), instances }
  const plans = (from: number, until: number) =>
    Array.from({ length: until - from }, (_, n) => {
      const made = planFor(gateway, config, { ...CHAT, model: `name-${from + n}` })
      return made.ok ? made.value : assert.fail()
    })
  const first = plans(0, 300)
  const again = plans(299, 300)
  assert.equal(again[0], first[299], 'the newest is remembered')
  assert.notEqual(plans(0, 1)[0], first[0], 'the oldest is not')
})
