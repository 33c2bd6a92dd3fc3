import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../test/support/still-world.ts'
import { type FailureKind, fail } from '../core/failure.ts'
import type { Instance } from '../core/provider.ts'
import { defaultSettings } from '../core/settings.ts'
import type { Target } from '../core/target.ts'
import { Board } from './board.ts'

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
  const board = new Board(world, () => {})
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

// RELIABILITY F09.
test('board: a redirect rests the deployment for a minute', async () => {
  assert.deepEqual(await rests(['a', 'b'], ['a', 'b'], 'redirect'), ['a redirect 1', 'b redirect 1'])
})
