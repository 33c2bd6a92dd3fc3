import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { HealthHint } from './health-hint.ts'
import { StickyTargets } from './sticky-targets.ts'
import { UpstreamHealth } from './upstream-health.ts'

const TARGET = { instance: 'a', key: 'k', model: 'm' }
const OTHER = { instance: 'b', key: 'k', model: 'm' }

test('sticky targets: a target is remembered until its cache expires, and each use renews it', () => {
  let now = 0
  const targets = new StickyTargets(
    () => now,
    () => {},
  )
  assert.equal(targets.isEmpty, true)
  targets.note('c', TARGET, 300)
  now = 299
  assert.deepEqual(targets.of('c'), TARGET)
  targets.note('c', TARGET, 300)
  now = 598
  assert.deepEqual(targets.of('c'), TARGET)
  now = 599
  assert.equal(targets.of('c'), null)
})

test('sticky targets: after a failover the new target is remembered', () => {
  const targets = new StickyTargets(
    () => 0,
    () => {},
  )
  targets.note('c', TARGET, 3_600)
  targets.note('c', OTHER, 300)
  assert.deepEqual(targets.of('c'), OTHER)
})

test('sticky targets: a prompt that is kept for an hour stays so when it is read', () => {
  let now = 0
  const targets = new StickyTargets(
    () => now,
    () => {},
  )
  targets.note('c', TARGET, 3_600)
  targets.note('c', TARGET, 300)
  now = 3_000
  assert.deepEqual(targets.of('c'), TARGET)
})

test('sticky targets: at most 100,000 are kept, the latest', () => {
  const targets = new StickyTargets(
    () => 0,
    () => {},
  )
  for (let n = 0; n < 250_000; n++) targets.note(`c${n}`, TARGET, 300)
  const kept = Array.from({ length: 250_000 }, (_, n) => targets.of(`c${n}`)).filter((one) => one !== null).length
  assert(kept >= 50_000 && kept <= 100_000, String(kept))
  assert.deepEqual(targets.of('c249999'), TARGET)
})

test('sticky targets: other gateways learn of it once, when half of the time is over, and after a failover', async () => {
  const world = stillWorld()
  const hints: HealthHint[] = []
  const here = new UpstreamHealth(
    world,
    () => {},
    (hint) => hints.push(hint),
  )
  const there = new UpstreamHealth(world, () => {})
  here.sticky.note('c', TARGET, 600)
  here.sticky.note('c', TARGET, 600)
  assert.deepEqual(hints, [{ kind: 'sticky', id: 'c', target: TARGET, ms: 600 }])
  const [hint] = hints
  assert(hint)
  there.learn(hint, 100, [])
  assert.deepEqual(there.sticky.of('c'), TARGET)
  await world.advance(499)
  assert.deepEqual(there.sticky.of('c'), TARGET)
  await world.advance(1)
  assert.equal(there.sticky.of('c'), null, 'the age of the hint counts')
  here.sticky.note('c', TARGET, 600)
  here.sticky.note('c', OTHER, 600)
  assert.deepEqual(
    hints.map((one) => (one.kind === 'sticky' ? one.ms : null)),
    [600, 600, 600],
  )
})
