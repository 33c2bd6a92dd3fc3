import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { type FailureKind, fail } from '../../core/failure.ts'
import { list, object } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import type { Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import { providersStatus } from '../handlers/status.ts'
import { type AdmissionMode, type AttemptPermit, UpstreamHealth } from './upstream-health.ts'

const instanceOf = (keys: readonly string[]): Instance => ({
  id: 'p',
  provider: { name: 'p', title: 'P', order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none' },
  baseUrl: 'https://p.example/v1',
  keys: keys.map((id) => ({ id, secret: null, weight: 1 })),
  models: ['m'],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
})

const MINUTE = 60_000

/** Fails the keys in turn, each as soon as it may be tried again. Returns the reason and minutes of each cooldown. */
const cooldownsOf = async (keys: readonly string[], turns: readonly string[], kind: FailureKind = 'auth') => {
  const world = stillWorld()
  const health = new UpstreamHealth(world, () => {})
  const instance = instanceOf(keys)
  const seen: string[] = []
  for (const turn of turns) {
    const key = instance.keys.find(({ id }) => id === turn)
    assert.ok(key)
    const target: Target = { candidate: { instance, model: 'm', because: '', weight: 1 }, key }
    const before = health.peek(target, defaultSettings)
    if (before?.until) await world.advance(before.until - world.now())
    const permit = health.admit(target, defaultSettings, 'ignore')
    assert.ok('failed' in permit, JSON.stringify(permit))
    permit.failed(fail(kind, 'x'))
    const after = health.peek(target, defaultSettings)
    seen.push(`${turn} ${after?.why} ${((after?.until ?? 0) - world.now()) / MINUTE}`)
  }
  return seen
}

test('upstream health: a key that is rejected again is disabled, longer each time', async () => {
  assert.deepEqual(await cooldownsOf(['a', 'b'], ['a', 'a', 'a']), ['a suspended 1', 'a disabled 5', 'a disabled 10'])
})

test('upstream health: the only key of a provider is disabled too', async () => {
  assert.deepEqual(await cooldownsOf(['a'], ['a', 'a']), ['a suspended 1', 'a disabled 5'])
})

test('upstream health: if all keys of a provider are rejected, none is disabled for longer', async () => {
  assert.deepEqual(await cooldownsOf(['a', 'b'], ['a', 'b', 'a', 'b', 'a', 'b']), [
    'a suspended 1',
    'b suspended 1',
    'a suspended 1',
    'b suspended 1',
    'a suspended 1',
    'b suspended 1',
  ])
})

test('upstream health: a key disabled before all others were rejected is tried each minute like them', async () => {
  const meanwhile = ['b', 'b', 'b', 'b', 'b']
  assert.deepEqual(await cooldownsOf(['a', 'b'], ['a', 'a', ...meanwhile, 'a']), [
    'a suspended 1',
    'a disabled 5',
    ...meanwhile.map(() => 'b suspended 1'),
    'a suspended 1',
  ])
})

for (const kind of ['client_gone', 'deadline', 'status', 'rate_limited'] as const)
  test(`upstream health: a trial of a cooled-down key that ends in ${kind} has no outcome: the next request may try`, async () => {
    const world = stillWorld()
    const health = new UpstreamHealth(world, () => {})
    const instance = instanceOf(['a'])
    const [key = assert.fail()] = instance.keys
    const at = (model: string): Target => ({ candidate: { instance, model, because: '', weight: 1 }, key })
    const fails = (target: Target, how: FailureKind) => {
      const permit = health.admit(target, defaultSettings, 'normal')
      assert.ok('failed' in permit, JSON.stringify(permit))
      permit.failed(fail(how, 'x'))
    }
    fails(at('m'), 'auth')
    await world.advance(MINUTE)
    fails(at('m'), kind)
    assert.equal(health.peek(at('other'), defaultSettings), null)
  })

test('upstream health: a redirect puts the deployment in cooldown for a minute', async () => {
  assert.deepEqual(await cooldownsOf(['a', 'b'], ['a', 'b'], 'redirect'), ['a redirect 1', 'b redirect 1'])
})

// ── Slow start ───────────────────────────────────────────────────────────────────────────────────────────────────

/** One target that was down and has just answered its probe. The probe is still in flight. */
const recovered = async (circuit: Partial<Settings['circuit']> = {}) => {
  const settings: Settings = {
    ...defaultSettings,
    circuit: { ...defaultSettings.circuit, resetTimeout: 60_000, consecutiveFailures: 2, ...circuit },
  }
  const world = stillWorld()
  const health = new UpstreamHealth(world, () => {})
  const instance = instanceOf(['a', 'b'])
  const at = (id: string, model = 'm'): Target => ({
    candidate: { instance, model, because: '', weight: 1 },
    key: instance.keys.find((key) => key.id === id) ?? assert.fail(),
  })
  const try_ = (how: AdmissionMode = 'normal', target = at('a')) => health.admit(target, settings, how)
  const open = (how: AdmissionMode = 'normal', target = at('a')): AttemptPermit => {
    const permit = try_(how, target)
    assert.ok('failed' in permit, JSON.stringify(permit))
    return permit
  }
  /** How many more attempts are admitted now. All stay in flight. */
  const fill = (how: AdmissionMode = 'normal'): number => {
    for (let n = 0; n < 2_000; n++) if ('why' in try_(how)) return n
    return Number.POSITIVE_INFINITY
  }
  for (let n = 0; n < 2; n++) open().failed(fail('status', 'x'))
  await world.advance(settings.circuit.resetTimeout)
  const probe = open()
  probe.commit(5)
  return { health, settings, world, at, try: try_, open, fill, probe }
}

test('upstream health: a recovered target regains its load gradually, within ten seconds', async () => {
  const { world, fill } = await recovered()
  // The probe counts too.
  const counts = [fill()]
  for (let step = 1; step < 10; step++) {
    await world.advance(1_000)
    counts.push(fill())
  }
  assert.deepEqual(counts, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256])
  await world.advance(999)
  assert.equal(fill(), 0)
  await world.advance(1)
  assert.equal(fill(), Number.POSITIVE_INFINITY)
})

test('upstream health: slow start does not limit sequential requests', async () => {
  const { world, open, probe } = await recovered()
  probe.done()
  for (let n = 0; n < 50; n++) {
    const permit = open()
    permit.commit(5)
    await world.advance(7)
    permit.done()
  }
})

test('upstream health: slow start: every end of a request frees its slot', async () => {
  const { open, fill, probe } = await recovered()
  probe.done()
  const ends: ((permit: AttemptPermit) => void)[] = [
    (permit) => permit.done(),
    (permit) => permit.release(),
    (permit) => permit.failed(fail('conflict', 'x')),
  ]
  for (const end of ends) {
    const permit = open()
    assert.equal(fill(), 0)
    end(permit)
    // A second end changes nothing.
    permit.release()
  }
  assert.equal(fill(), 1)
})

test('upstream health: slow start: the refusal has an end time, and the last resort is admitted', async () => {
  const { world, try: admit, open, health, at, settings } = await recovered()
  assert.deepEqual(admit(), { why: 'warming', until: world.now() + 1_000 })
  assert.equal(health.peek(at('a'), settings), null)
  open('warm')
  assert.deepEqual(admit(), { why: 'warming', until: world.now() + 2_000 })
  for (const how of ['warm', 'early', 'ignore'] as const) open(how)
})

test('upstream health: only a recovered target starts slowly', async () => {
  const { open, at } = await recovered()
  for (let n = 0; n < 100; n++) {
    open('normal', at('b'))
    open('normal', at('a', 'other'))
  }
})

test('upstream health: slow start ends when the circuit opens again: its probe is admitted', async () => {
  // The first probe's answer is still being written.
  const { world, open, try: admit } = await recovered({ slowStart: 60_000, resetTimeout: 60_000, firstProbe: 1_000 })
  for (let n = 0; n < 2; n++) open('warm').failed(fail('status', 'x'))
  await world.advance(1_000)
  const probe = admit()
  assert.ok(!('why' in probe), JSON.stringify(probe))
})

const spans: readonly (readonly [name: string, circuit: Partial<Settings['circuit']>, steps: readonly number[]])[] = [
  ['off', { slowStart: 0 }, [Number.POSITIVE_INFINITY]],
  ['its own span', { slowStart: 1_000 }, [0, 1, 2, 4]],
  ['never longer than a circuit is open', { resetTimeout: 1_000 }, [0, 1, 2, 4]],
]
for (const [name, circuit, steps] of spans)
  test(`upstream health: slow start, ${name}`, async () => {
    const { world, fill } = await recovered(circuit)
    const counts: number[] = []
    for (const _ of steps) {
      counts.push(fill())
      await world.advance(100)
    }
    assert.deepEqual(counts, steps)
  })

test('upstream health: a recovered model starts slowly with all its keys', async () => {
  const { open, try: admit, at, world, probe } = await recovered()
  probe.done()
  for (let n = 0; n < 2; n++) open('normal', at('b')).failed(fail('overloaded', 'x'))
  const refused = admit('normal', at('a'))
  assert.equal('why' in refused && refused.why, 'circuit')
  await world.advance(60_000)
  open('normal', at('b')).commit(1)
  assert.deepEqual(admit('normal', at('a')), { why: 'warming', until: world.now() + 1_000 })
})

// ── Empty answers ──────────────────────────────────────────────────────────────────────────────

test('upstream health: half of ten answers empty opens the deployment’s circuit', async () => {
  const { health, world, settings, at, open } = await recovered({ slowStart: 0 })
  const own = () => health.circuits.counts('p b m', settings.circuit)
  const ends: ((permit: AttemptPermit) => void)[] = [
    (permit) => permit.done(),
    (permit) => permit.failed(fail('empty', 'x')),
  ]
  for (let n = 0; n < 9; n++) ends[n % 2]?.(open('normal', at('b')))
  assert.equal(health.peek(at('b'), settings), null)
  open('normal', at('b')).failed(fail('empty', 'x'))
  const refused = health.peek(at('b'), settings)
  assert.equal(refused?.why, 'circuit')
  assert.equal(health.circuits.phase('p b m', settings.circuit).state, 'open')
  // The counters of failures, of the model and of the endpoint are unchanged.
  assert.deepEqual([own().successes, own().failures], [5, 0])
  assert.equal(health.circuits.phase('p m', settings.circuit).state, 'closed')
  assert.equal(health.peek(at('a'), settings), null)
  await world.advance(60_000)
  assert.equal(health.circuits.phase('p b m', settings.circuit).state, 'half_open')
  open('normal', at('b')).done()
  assert.equal(health.circuits.phase('p b m', settings.circuit).state, 'closed')
})

test('upstream health: ten empty answers open the circuit, and other failures do not count among them', async () => {
  const { health, settings, at, open } = await recovered()
  for (let n = 0; n < 9; n++) open('normal', at('b')).failed(fail('empty', 'x'))
  assert.equal(health.peek(at('b'), settings), null)
  // A failure does not count among the ten answers.
  open('normal', at('b')).failed(fail('status', 'x'))
  assert.equal(health.peek(at('b'), settings), null)
  open('normal', at('b')).failed(fail('empty', 'x'))
  assert.equal(health.peek(at('b'), settings)?.why, 'circuit')
})

test('upstream health: four empty answers of ten are tolerated', async () => {
  const { health, settings, at, open } = await recovered()
  for (let n = 0; n < 30; n++) {
    const permit = open('normal', at('b'))
    if (n % 5 > 2) permit.failed(fail('empty', 'x'))
    else permit.done()
  }
  assert.equal(health.peek(at('b'), settings), null)
})

test('upstream health: the event names the scope of the circuit', async () => {
  const world = stillWorld()
  const news: GatewayEvent[] = []
  const health = new UpstreamHealth(world, (item) => news.push(item))
  const instance = instanceOf(['a'])
  const target: Target = {
    candidate: { instance, model: 'm', because: '', weight: 1 },
    key: instance.keys[0] ?? assert.fail(),
  }
  for (let n = 0; n < 10; n++) {
    const permit = health.admit(target, defaultSettings, 'normal')
    if ('failed' in permit) permit.failed(fail('empty', 'x'))
  }
  assert.deepEqual(news, [
    { event: 'circuit', what: 'answers', name: 'p a m', from: 'closed', to: 'open', why: 'empty' },
  ])
})

test('upstream health: a model with open circuits of all keys reads as open, and no key is tried', async () => {
  const { health, settings, at, open } = await recovered()
  for (const id of ['a', 'b']) for (let n = 0; n < 2; n++) open('warm', at(id)).failed(fail('timeout', 'x'))
  for (const id of ['a', 'b']) assert.equal(health.peek(at(id), settings)?.why, 'circuit')
  const instance = at('a').candidate.instance
  const status = providersStatus(health, { settings, instances: [instance], routes: new Map() }, () => ['m'])
  const [provider] = list(status.data)
  const of = object(provider)
  assert.equal(of?.status, 'unavailable')
  assert.equal(object(of?.circuit)?.state, 'open')
  assert.deepEqual(
    list(of?.models).map((model) => object(model)?.status),
    ['unavailable'],
  )
})
