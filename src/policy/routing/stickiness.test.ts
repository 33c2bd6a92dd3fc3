import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { PromptCache } from '../../core/prompt-cache.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { orderCandidates } from './order.ts'
import { cachedFor, conversationName, hasChoice, sessionRandom, stickyPlan, usualStickiness } from './stickiness.ts'

const key = (id: string): ProviderKey => ({ id, weight: 1 }) as ProviderKey
const at = (id: string, model = 'm', weight = 1, keys = ['k']): Candidate => {
  const instance: Instance = {
    id,
    provider: { name: id, title: id, order: 1, speaks: [], auth: 'none' },
    baseUrl: `http://${id}.example`,
    keys: keys.map(key),
    models: [],
    speaks: [],
    variables: {},
  }
  return { instance, model, because: '', weight }
}
const plan = (candidates: readonly Candidate[], stickiness: NonNullable<Plan['stickiness']>): Plan => ({
  by: 'route',
  candidates,
  skipped: [],
  stickiness,
})

const FIVE_MINUTES = { life: { sure: 240_000, most: 300_000 } }

test('stickiness: an answer with fewer than 1,024 cached or written tokens is not remembered', () => {
  assert.equal(cachedFor({ cacheRead: 1_023 }, undefined), 0)
  assert.equal(cachedFor({ cacheRead: 1_024 }, undefined), 600_000)
  assert.equal(cachedFor({ cacheRead: 24, cacheWrite: 1_000 }, FIVE_MINUTES), 300_000)
  assert.equal(cachedFor({ cacheWrite: 2_000, cacheWrite1h: 1 }, FIVE_MINUTES), 3_600_000)
  assert.equal(cachedFor({}, undefined), 0)
})

test('stickiness: `provider` moves the target to the front, `key` only names its key', () => {
  const [a, b, c] = [at('a'), at('b'), at('c')]
  const target = { instance: 'c', key: 'k', model: 'm' }
  assert.deepEqual(stickyPlan(plan([a, b, c], 'provider'), target).candidates, [c, a, b])
  const kept = stickyPlan(plan([a, b, c], 'key'), target)
  assert.deepEqual([kept.candidates, kept.sticky], [[a, b, c], { candidate: c, key: 'k' }])
})

test('stickiness: what the plan does not have is not added', () => {
  const before = plan([at('a'), at('b')], 'provider')
  assert.equal(stickyPlan(before, { instance: 'c', key: 'k', model: 'm' }), before)
  assert.equal(stickyPlan(before, { instance: 'a', key: 'k', model: 'other' }), before)
})

test('stickiness: there is a choice if another key or another provider may answer', () => {
  assert.equal(hasChoice(plan([at('a'), at('b')], 'key')), false)
  assert.equal(hasChoice(plan([at('a'), at('b', 'm', 1, ['x', 'y'])], 'key')), true)
  assert.equal(hasChoice(plan([at('a'), at('b')], 'provider')), true)
  assert.equal(hasChoice(plan([at('a')], 'provider')), false)
  assert.equal(hasChoice(plan([at('a', 'm', 1, ['x', 'y']), at('b')], 'off')), false)
  assert.deepEqual((['priority', 'weighted', 'latency', 'cost'] as const).map(usualStickiness), [
    ...['key', 'provider', 'provider', 'provider'],
  ])
})

test('stickiness: conversations of two clients, or of two models, have different names', () => {
  const names = [
    conversationName('a', 'text', 'm'),
    conversationName('b', 'text', 'm'),
    conversationName('a', 'text', 'n'),
    conversationName('a', 'text 2', 'm'),
  ]
  assert.equal(new Set(names).size, 4)
  for (const name of names) assert.match(name, /^[0-9a-z]{8,14}$/)
})

test('stickiness: weights are drawn once a session, and hold over sessions', () => {
  const candidates = [at('a', 'm', 90), at('b', 'm', 10)]
  const view = { latency: () => 0, price: () => 0 }
  const first = (session: string) =>
    orderCandidates(candidates, 'weighted', view, sessionRandom(session))[0]?.instance.id
  let ofB = 0
  for (let n = 0; n < 10_000; n++) {
    const session = `ses_${n.toString(36)}`
    assert.equal(first(session), first(session))
    if (first(session) === 'b') ofB++
  }
  assert(ofB > 900 && ofB < 1_100, `${ofB} of 10,000`)
})

test('stickiness: what a vendor states of its cache has a source with a date in the file of its provider', async () => {
  const folder = join(import.meta.dirname, '../../providers')
  let found = 0
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ts') && !name.includes('.test.'))) {
    const loaded: { readonly default?: { readonly promptCache?: readonly PromptCache[] } } = await import(
      join(folder, file)
    )
    for (const { source, read, life } of loaded.default?.promptCache ?? []) {
      found++
      assert.match(source, /^https:\/\/\S+$/, file)
      assert.match(read, /^20\d\d-\d\d-\d\d$/, file)
      assert(life === undefined || life.sure <= life.most, file)
    }
  }
  assert(found >= 12)
})
