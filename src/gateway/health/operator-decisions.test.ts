/** What operators decide about providers and keys, and its events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import type { Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import { UpstreamHealth } from './upstream-health.ts'

const instance: Instance = {
  id: 'p',
  provider: { name: 'p', title: 'P', order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none' },
  baseUrl: 'https://p.example/v1',
  keys: [{ id: 'f00d', secret: null, weight: 1 }],
  models: ['m'],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
}
const [key] = instance.keys
assert.ok(key)
const target: Target = { candidate: { instance, model: 'm', because: '', weight: 1 }, key }

const healthOf = () => {
  const world = stillWorld()
  const events: GatewayEvent[] = []
  const health = new UpstreamHealth(world, (event) => events.push(event))
  return { world, health, events }
}
const REST = { provider: 'p', key: null, reason: 'maintenance' }

test('a resting provider is not tried until its time is over, and events state both', async () => {
  const { world, health, events } = healthOf()
  health.cooldowns.decide([])
  health.cooldowns.decide([{ ...REST, until: world.now() + 5_000 }])
  const refusal = health.peek(target, defaultSettings)
  assert.deepEqual([refusal?.why, refusal?.decision], ['resting', 'maintenance'])
  assert.ok('why' in health.admit(target, defaultSettings, 'ignore'))
  await world.advance(5_001)
  assert.equal(health.peek(target, defaultSettings), null)
  assert.deepEqual(
    events.map((event) => (event.event === 'circuit' ? [event.what, event.name, event.to, event.why] : event)),
    [
      ['provider', 'p', 'open', 'operator'],
      ['provider', 'p', 'closed', 'its time is over'],
    ],
  )
})

test('the decisions of an earlier run are no change, and those that stay are none either', () => {
  const { world, health, events } = healthOf()
  const disabled = { provider: 'p', key: 'f00d', until: Infinity, reason: 'leaked' }
  const rest = { ...REST, until: world.now() + 5_000 }
  health.cooldowns.decide([rest, disabled])
  health.cooldowns.decide([rest, disabled])
  assert.deepEqual(events, [])
  health.cooldowns.decide([rest])
  assert.deepEqual(events, [
    { event: 'key', provider: 'p', key: 'f00d', from: 'disabled', to: 'active', until: null, why: 'operator' },
  ])
})

const openCircuits = (health: UpstreamHealth) => {
  for (let n = 0; n < 50; n++) {
    const permit = health.admit(target, defaultSettings, 'warm')
    if ('failed' in permit) permit.failed(fail('status', 'x', { status: 503 }), `req_${n}`)
  }
}

test('circuits are closed at once, and name the request that opened them', () => {
  const { health, events } = healthOf()
  openCircuits(health)
  const [opened] = events
  assert.ok(opened?.event === 'circuit' && opened.to === 'open')
  assert.match(opened.request ?? '', /^req_/)
  assert.ok('why' in health.admit(target, defaultSettings, 'warm'))
  assert.equal(health.circuits.override(instance, 'close'), 1)
  assert.ok('failed' in health.admit(target, defaultSettings, 'warm'))
  assert.equal(health.circuits.override(instance, 'close'), 0)
})

test('an open circuit admits a probe at once', () => {
  const { health } = healthOf()
  openCircuits(health)
  assert.equal(health.circuits.override({ ...instance, id: 'other', baseUrl: 'https://other' }, 'probe'), 0)
  assert.equal(health.circuits.override(instance, 'probe'), 1)
  const permit = health.admit(target, defaultSettings, 'warm')
  assert.ok('done' in permit)
  permit.done()
  assert.equal(health.circuits.phase('p f00d m', defaultSettings.circuit).state, 'closed')
})

test('an operator ends the rests of a key, of its models, or of the whole provider', () => {
  const failures = [
    fail('rate_limited', 'x', { retryAfter: 3_000_000 }),
    fail('quota', 'x', { retryAfter: 3_000_000 }),
    fail('auth', 'x'),
    fail('model_missing', 'x'),
    fail('tls', 'x'),
  ]
  for (const failure of failures) {
    const { health } = healthOf()
    health.cooldowns.failed(target, failure)
    assert.ok(health.peek(target, defaultSettings), failure.kind)
    assert.equal(health.cooldowns.end({ ...instance, id: 'other', baseUrl: 'https://other' }), 0)
    const isOfKey = failure.kind !== 'model_missing' && failure.kind !== 'tls'
    assert.equal(health.cooldowns.end(instance, key), isOfKey ? 1 : 0, failure.kind)
    assert.equal(health.cooldowns.end(instance), isOfKey ? 0 : 1, failure.kind)
    assert.equal(health.peek(target, defaultSettings), null, failure.kind)
  }
})

test('the end of a rest is an event of its key, and the strikes are forgotten', () => {
  const { health, events } = healthOf()
  health.cooldowns.failed(target, fail('quota', 'x', { retryAfter: 3_000_000 }))
  events.length = 0
  health.cooldowns.end(instance, key)
  assert.deepEqual(events, [
    { event: 'key', provider: 'p', key: 'f00d', from: 'quota_exhausted', to: 'active', until: null, why: 'operator' },
  ])
  health.cooldowns.failed(target, fail('auth', 'x'))
  assert.equal(health.peek(target, defaultSettings)?.why, 'suspended')
})

test('ending rests keeps the decisions of an operator', () => {
  const { health } = healthOf()
  health.cooldowns.decide([{ provider: 'p', key: 'f00d', until: Infinity, reason: 'leaked' }])
  assert.equal(health.cooldowns.end(instance), 0)
  assert.equal(health.peek(target, defaultSettings)?.why, 'disabled')
})
