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
import { providersStatus } from '../endpoints/status.ts'
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

/** Fails the keys in turn, each as soon as it may be tried again; for how many minutes each then rests, and as what. */
const rests = async (keys: readonly string[], turns: readonly string[], kind: FailureKind = 'auth') => {
  const world = stillWorld()
  const board = new UpstreamHealth(world, () => {})
  const instance = instanceOf(keys)
  const seen: string[] = []
  for (const turn of turns) {
    const key = instance.keys.find(({ id }) => id === turn)
    assert.ok(key)
    const target: Target = { candidate: { instance, model: 'm', because: '', weight: 1 }, key }
    const before = board.peek(target, defaultSettings)
    if (before?.until) await world.pass(before.until - world.now())
    const ticket = board.admit(target, defaultSettings, 'ignore')
    assert.ok('failed' in ticket, JSON.stringify(ticket))
    ticket.failed(fail(kind, 'x'))
    const after = board.peek(target, defaultSettings)
    seen.push(`${turn} ${after?.why} ${((after?.until ?? 0) - world.now()) / MINUTE}`)
  }
  return seen
}

// RELIABILITY F23.
test('board: a key that is refused again is disabled, longer each time', async () => {
  assert.deepEqual(await rests(['a', 'b'], ['a', 'a', 'a']), ['a suspended 1', 'a disabled 5', 'a disabled 10'])
})

test('board: of a provider with one key that key is disabled', async () => {
  assert.deepEqual(await rests(['a'], ['a', 'a']), ['a suspended 1', 'a disabled 5'])
})

test('board: where all keys of a provider are refused none is disabled for longer', async () => {
  assert.deepEqual(await rests(['a', 'b'], ['a', 'b', 'a', 'b', 'a', 'b']), [
    'a suspended 1',
    'b suspended 1',
    'a suspended 1',
    'b suspended 1',
    'a suspended 1',
    'b suspended 1',
  ])
})

test('board: a key that was disabled before the others were refused is tried again each minute with them', async () => {
  const meanwhile = ['b', 'b', 'b', 'b', 'b']
  assert.deepEqual(await rests(['a', 'b'], ['a', 'a', ...meanwhile, 'a']), [
    'a suspended 1',
    'a disabled 5',
    ...meanwhile.map(() => 'b suspended 1'),
    'a suspended 1',
  ])
})

for (const kind of ['client_gone', 'deadline', 'status', 'rate_limited'] as const)
  test(`board: a try of a rested key that ends in ${kind} says nothing of the key: the next may try`, async () => {
    const world = stillWorld()
    const board = new UpstreamHealth(world, () => {})
    const instance = instanceOf(['a'])
    const [key = assert.fail()] = instance.keys
    const at = (model: string): Target => ({ candidate: { instance, model, because: '', weight: 1 }, key })
    const fails = (target: Target, how: FailureKind) => {
      const ticket = board.admit(target, defaultSettings, 'normal')
      assert.ok('failed' in ticket, JSON.stringify(ticket))
      ticket.failed(fail(how, 'x'))
    }
    fails(at('m'), 'auth')
    await world.pass(MINUTE)
    fails(at('m'), kind)
    assert.equal(board.peek(at('other'), defaultSettings), null)
  })

// RELIABILITY F09.
test('board: a redirect rests the deployment for a minute', async () => {
  assert.deepEqual(await rests(['a', 'b'], ['a', 'b'], 'redirect'), ['a redirect 1', 'b redirect 1'])
})

// ── Slow start ───────────────────────────────────────────────────────────────────────────────────────────────────

/** A board whose one target has been down and has just answered its probe, which is still under way. */
const recovered = async (circuit: Partial<Settings['circuit']> = {}) => {
  const settings: Settings = {
    ...defaultSettings,
    circuit: { ...defaultSettings.circuit, resetTimeout: 60_000, consecutiveFailures: 2, ...circuit },
  }
  const world = stillWorld()
  const board = new UpstreamHealth(world, () => {})
  const instance = instanceOf(['a', 'b'])
  const at = (id: string, model = 'm'): Target => ({
    candidate: { instance, model, because: '', weight: 1 },
    key: instance.keys.find((key) => key.id === id) ?? assert.fail(),
  })
  const try_ = (how: AdmissionMode = 'normal', target = at('a')) => board.admit(target, settings, how)
  const open = (how: AdmissionMode = 'normal', target = at('a')): AttemptPermit => {
    const ticket = try_(how, target)
    assert.ok('failed' in ticket, JSON.stringify(ticket))
    return ticket
  }
  /** How many more are admitted now; all stay under way. */
  const fill = (how: AdmissionMode = 'normal'): number => {
    for (let n = 0; n < 2_000; n++) if ('why' in try_(how)) return n
    return Number.POSITIVE_INFINITY
  }
  for (let n = 0; n < 2; n++) open().failed(fail('status', 'x'))
  await world.pass(settings.circuit.resetTimeout)
  const probe = open()
  probe.commit(5)
  return { board, settings, world, at, try: try_, open, fill, probe }
}

test('board: a target that has recovered is given its load back step by step, in ten seconds', async () => {
  const { world, fill } = await recovered()
  // The probe is one of them.
  const counts = [fill()]
  for (let step = 1; step < 10; step++) {
    await world.pass(1_000)
    counts.push(fill())
  }
  assert.deepEqual(counts, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256])
  await world.pass(999)
  assert.equal(fill(), 0)
  await world.pass(1)
  assert.equal(fill(), Number.POSITIVE_INFINITY)
})

test('board: whoever asks one request after another never notices', async () => {
  const { world, open, probe } = await recovered()
  probe.done()
  for (let n = 0; n < 50; n++) {
    const ticket = open()
    ticket.commit(5)
    await world.pass(7)
    ticket.done()
  }
})

test('board: what has ended makes room, whichever way', async () => {
  const { open, fill, probe } = await recovered()
  probe.done()
  const ends: ((ticket: AttemptPermit) => void)[] = [
    (ticket) => ticket.done(),
    (ticket) => ticket.release(),
    (ticket) => ticket.failed(fail('conflict', 'x')),
  ]
  for (const end of ends) {
    const ticket = open()
    assert.equal(fill(), 0)
    end(ticket)
    // A second end changes nothing.
    ticket.release()
  }
  assert.equal(fill(), 1)
})

test('board: the refusal says until when it is, and whoever has nobody else is let in', async () => {
  const { world, try: admit, open, board, at, settings } = await recovered()
  assert.deepEqual(admit(), { why: 'warming', until: world.now() + 1_000 })
  assert.equal(board.peek(at('a'), settings), null)
  open('warm')
  assert.deepEqual(admit(), { why: 'warming', until: world.now() + 2_000 })
  for (const how of ['warm', 'early', 'ignore'] as const) open(how)
})

test('board: only what has recovered starts slowly', async () => {
  const { open, at } = await recovered()
  for (let n = 0; n < 100; n++) {
    open('normal', at('b'))
    open('normal', at('a', 'other'))
  }
})

const spans: readonly (readonly [name: string, circuit: Partial<Settings['circuit']>, steps: readonly number[]])[] = [
  ['off', { slowStart: 0 }, [Number.POSITIVE_INFINITY]],
  ['its own span', { slowStart: 1_000 }, [0, 1, 2, 4]],
  ['never longer than a circuit is open', { resetTimeout: 1_000 }, [0, 1, 2, 4]],
]
for (const [name, circuit, steps] of spans)
  test(`board: slow start, ${name}`, async () => {
    const { world, fill } = await recovered(circuit)
    const counts: number[] = []
    for (const _ of steps) {
      counts.push(fill())
      await world.pass(100)
    }
    assert.deepEqual(counts, steps)
  })

test('board: a model that recovers starts slowly with all its keys', async () => {
  const { open, try: admit, at, world, probe } = await recovered()
  probe.done()
  for (let n = 0; n < 2; n++) open('normal', at('b')).failed(fail('overloaded', 'x'))
  const refused = admit('normal', at('a'))
  assert.equal('why' in refused && refused.why, 'circuit')
  await world.pass(60_000)
  open('normal', at('b')).commit(1)
  assert.deepEqual(admit('normal', at('a')), { why: 'warming', until: world.now() + 1_000 })
})

// ── Empty answers (RELIABILITY F36) ──────────────────────────────────────────────────────────────────────────────

test('board: a deployment whose answers are empty is not asked for a while: half of ten', async () => {
  const { board, world, settings, at, open } = await recovered({ slowStart: 0 })
  const own = () => board.counts('p b m', settings)
  const ends: ((ticket: AttemptPermit) => void)[] = [
    (ticket) => ticket.done(),
    (ticket) => ticket.failed(fail('empty', 'x')),
  ]
  for (let n = 0; n < 9; n++) ends[n % 2]?.(open('normal', at('b')))
  assert.equal(board.peek(at('b'), settings), null)
  open('normal', at('b')).failed(fail('empty', 'x'))
  const refused = board.peek(at('b'), settings)
  assert.equal(refused?.why, 'circuit')
  assert.equal(board.phase('p b m', settings).at, 'open')
  // The other counter was not touched, and the model's and the address's were not.
  assert.deepEqual([own().successes, own().failures], [5, 0])
  assert.equal(board.phase('p m', settings).at, 'closed')
  assert.equal(board.peek(at('a'), settings), null)
  await world.pass(60_000)
  assert.equal(board.phase('p b m', settings).at, 'half_open')
  open('normal', at('b')).done()
  assert.equal(board.phase('p b m', settings).at, 'closed')
})

test('board: empty answers are counted apart from failures, however many in a row', async () => {
  const { board, settings, at, open } = await recovered()
  for (let n = 0; n < 9; n++) open('normal', at('b')).failed(fail('empty', 'x'))
  assert.equal(board.peek(at('b'), settings), null)
  // A failure says nothing of answers: it is none of the ten.
  open('normal', at('b')).failed(fail('status', 'x'))
  assert.equal(board.peek(at('b'), settings), null)
  open('normal', at('b')).failed(fail('empty', 'x'))
  assert.equal(board.peek(at('b'), settings)?.why, 'circuit')
})

test('board: four empty answers of ten are put up with', async () => {
  const { board, settings, at, open } = await recovered()
  for (let n = 0; n < 30; n++) {
    const ticket = open('normal', at('b'))
    if (n % 5 > 2) ticket.failed(fail('empty', 'x'))
    else ticket.done()
  }
  assert.equal(board.peek(at('b'), settings), null)
})

test('board: what is told of them says what it is about', async () => {
  const world = stillWorld()
  const news: GatewayEvent[] = []
  const board = new UpstreamHealth(world, (item) => news.push(item))
  const instance = instanceOf(['a'])
  const target: Target = {
    candidate: { instance, model: 'm', because: '', weight: 1 },
    key: instance.keys[0] ?? assert.fail(),
  }
  for (let n = 0; n < 10; n++) {
    const ticket = board.admit(target, defaultSettings, 'normal')
    if ('failed' in ticket) ticket.failed(fail('empty', 'x'))
  }
  assert.deepEqual(news, [
    { event: 'circuit', what: 'answers', name: 'p a m', from: 'closed', to: 'open', why: 'empty' },
  ])
})

// RELIABILITY 3.3, derived rule: a model whose every key is out is not tried key by key.
test('board: a model all of whose keys’ circuits are open reads as open, and none of them is tried', async () => {
  const { board, settings, at, open } = await recovered()
  for (const id of ['a', 'b']) for (let n = 0; n < 2; n++) open('warm', at(id)).failed(fail('timeout', 'x'))
  for (const id of ['a', 'b']) assert.equal(board.peek(at(id), settings)?.why, 'circuit')
  const instance = at('a').candidate.instance
  const status = providersStatus(board, { settings, instances: [instance], routes: new Map() }, () => ['m'])
  const [provider] = list(status.data)
  const of = object(provider)
  assert.equal(of?.status, 'unavailable')
  assert.equal(object(of?.circuit)?.state, 'open')
  assert.deepEqual(
    list(of?.models).map((model) => object(model)?.status),
    ['unavailable'],
  )
})
