/** What other gateways have found: it delays requests that have another target, and refuses none. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance as instanceOf } from '../../../test/support/gateway.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { type FailureKind, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import type { Target } from '../../core/target.ts'
import type { HealthHint } from './health-hint.ts'
import { type AdmissionMode, UpstreamHealth } from './upstream-health.ts'

const settings: Settings = {
  ...defaultSettings,
  circuit: { ...defaultSettings.circuit, consecutiveFailures: 3, minRequests: 100 },
}

/** Two gateways in one world, the second of which learns what the first one tells. */
const pair = (keys: readonly string[] = ['a']) => {
  const world = stillWorld()
  const published: HealthHint[] = []
  const [first, other] = [
    new UpstreamHealth(
      world,
      () => {},
      (hint) => published.push(hint),
    ),
    new UpstreamHealth(world, () => {}),
  ]
  const instance = instanceOf('p', keys)
  const target = (key: string): Target => {
    const found = instance.keys.find(({ id }) => id === key)
    assert.ok(found)
    return { candidate: { instance, model: 'm', because: '', weight: 1 }, key: found }
  }
  const admit = (health: UpstreamHealth, key = 'a', how: AdmissionMode = 'normal') =>
    health.admit(target(key), settings, how)
  const attempt = (health: UpstreamHealth, key = 'a', how: AdmissionMode = 'normal') => {
    const permit = admit(health, key, how)
    if ('why' in permit) assert.fail(permit.why)
    return permit
  }
  const open = (kind: FailureKind = 'status') => {
    for (let n = 0; n < 3; n++) attempt(first).failed(fail(kind, 'x'))
  }
  const learn = (age = 0) => {
    for (const hint of published.splice(0)) other.learn(hint, age, [instance])
  }
  return { world, first, other, admit, attempt, open, learn, published }
}

test('hints: while a circuit is open elsewhere, one request tries it here, and others take another target first', () => {
  const { other, attempt, admit, open, learn } = pair()
  open()
  learn()
  const probe = attempt(other)
  assert.equal(probe.isProbe, true)
  const second = admit(other)
  assert.equal('why' in second && second.why, 'warming')
  // Without another target the request is not refused.
  attempt(other, 'a', 'warm').release()
})

test('hints: a failure here opens the circuit at once, a success ends the doubt', () => {
  const failing = pair()
  failing.open()
  failing.learn()
  failing.attempt(failing.other).failed(fail('status', 'x'))
  const refused = failing.admit(failing.other, 'a', 'warm')
  assert.equal('why' in refused && refused.why, 'circuit')

  const working = pair()
  working.open()
  working.learn()
  working.attempt(working.other).commit(5)
  assert.equal(working.attempt(working.other).isProbe, false)
  assert.equal(working.attempt(working.other).isProbe, false)
})

test('hints: a request in progress that succeeds ends the doubt, too', () => {
  const { other, attempt, open, learn } = pair()
  const before = attempt(other)
  open()
  learn()
  before.commit(5)
  assert.equal(attempt(other).isProbe, false)
})

test('hints: a probe without a verdict leaves its place to the next request', () => {
  const { other, attempt, open, learn } = pair()
  open()
  learn()
  attempt(other).release()
  assert.equal(attempt(other).isProbe, true)
})

test('hints: a doubt ends when the circuit elsewhere would be tried, and when it closes there', async () => {
  const expired = pair()
  expired.open()
  expired.learn()
  await expired.world.advance(60_000)
  assert.equal(expired.attempt(expired.other).isProbe, false)

  const closed = pair()
  closed.open()
  closed.learn()
  await closed.world.advance(settings.circuit.resetTimeout)
  closed.attempt(closed.first, 'a', 'early').commit(5)
  closed.learn()
  assert.equal(closed.attempt(closed.other).isProbe, false)
})

test('hints: a circuit that has closed elsewhere is tried here at once', async () => {
  const { world, first, other, attempt, admit, open, learn } = pair()
  for (let n = 0; n < 3; n++) attempt(other).failed(fail('status', 'x'))
  open()
  learn()
  await world.advance(1)
  assert.ok('why' in admit(other))
  first.circuits.override(instanceOf('p', ['a']), 'probe')
  attempt(first).commit(5)
  learn()
  assert.equal(attempt(other).isProbe, true)
})

test('hints: an old message is too late', () => {
  const { other, attempt, open, learn } = pair()
  open()
  learn(3_600_000)
  assert.equal(attempt(other).isProbe, false)
})

test('hints: a key that rests by a time of its provider rests here for what is left of it', async () => {
  const { world, first, other, attempt, admit, learn } = pair(['a', 'b'])
  attempt(first).failed(fail('rate_limited', 'x', { retryAfter: 20_000 }))
  learn(5_000)
  const refused = admit(other)
  assert.deepEqual('why' in refused && [refused.why, (refused.until ?? 0) - world.now(), refused.fromUpstream], [
    'rate_limited',
    15_000,
    true,
  ])
  attempt(other, 'b').release()
  await world.advance(15_000)
  attempt(other)
})

test('hints: a shorter rest elsewhere does not shorten one here', () => {
  const { world, first, other, attempt, admit, learn } = pair()
  attempt(other).failed(fail('rate_limited', 'x', { retryAfter: 60_000 }))
  attempt(first).failed(fail('rate_limited', 'x', { retryAfter: 2_000 }))
  learn()
  const refused = admit(other)
  assert.equal('why' in refused && (refused.until ?? 0) - world.now(), 60_000)
})

test('hints: a key that was refused elsewhere is tried by one request here, if there are other keys', () => {
  const several = pair(['a', 'b'])
  several.attempt(several.first).failed(fail('auth', 'x'))
  several.learn()
  several.attempt(several.other)
  const second = several.admit(several.other)
  assert.equal('why' in second && second.why, 'suspended')

  const single = pair()
  single.attempt(single.first).failed(fail('auth', 'x'))
  single.learn()
  single.attempt(single.other)
  single.attempt(single.other)
})

test('hints: a burst of refusals tells one cooldown, not each extension of it', () => {
  const { first, attempt, published } = pair()
  const permits = Array.from({ length: 20 }, () => attempt(first))
  for (const [n, permit] of permits.entries()) permit.failed(fail('rate_limited', 'x', { retryAfter: 20_000 + n }))
  assert.equal(published.length, 1)
})
