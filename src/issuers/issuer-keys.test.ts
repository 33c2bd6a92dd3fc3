import assert from 'node:assert/strict'
import { test } from 'node:test'
import { issuerKey, jwkOf } from '../../test/support/issuer.ts'
import { memorySets } from '../../test/support/token-access.ts'
import { publicKeysOf } from '../policy/identity/choose-key.ts'
import type { FetchedSet } from './fetch-key-set.ts'
import { IssuerKeys } from './issuer-keys.ts'

const place = { issuer: 'https://a.example', url: null, file: null, tokenFile: null, caFile: null }
const setOf = (...kids: readonly string[]): FetchedSet => {
  const keys = kids.map((kid) => jwkOf(issuerKey('ES256', kid)))
  return { ok: true, keys: publicKeysOf(JSON.parse(JSON.stringify({ keys }))) ?? [], fresh: 600_000 }
}
const AWAY: FetchedSet = { ok: false, problem: 'no answer' }
const MINUTE = 60_000

const harness = (first: FetchedSet, kept = memorySets()) => {
  const state = { now: 1_800_000_000_000, fetches: 0, answer: first, problems: [] as (string | null)[] }
  const keys = new IssuerKeys({
    place,
    kept,
    date: () => state.now,
    async fetchSet() {
      state.fetches++
      return state.answer
    },
    onProblem: (problem) => state.problems.push(problem),
  })
  const find = async (kid: string) => {
    const found = await keys.find({ kid, algorithm: 'ES256' })
    return typeof found === 'string' ? found : 'found'
  }
  return { keys, state, find, kept }
}

test('issuer keys: 100,000 unknown key IDs cause one fetch more', async () => {
  const { state, find } = harness(setOf('a'))
  for (let n = 0; n < 100_000; n++) assert.equal(await find(`random-${n}`), 'unknown')
  assert.equal(state.fetches, 2)
  assert.equal(await find('a'), 'found')
})

test('issuer keys: a rotation right after the first fetch is found, and refuses no key that is still listed', async () => {
  const { keys, state, find } = harness(setOf('a'))
  assert.equal(await find('a'), 'found')
  const both = setOf('a', 'b')
  state.answer = both
  assert.deepEqual(await Promise.all(['b', 'a', 'b', 'b'].map(find)), ['found', 'found', 'found', 'found'])
  assert.equal(state.fetches, 2)
  // Other values under the ID `a`: the key before is gone.
  assert.equal(keys.generation, 1)
})

test('issuer keys: while the issuer is away the last set is used for 24 h, also after a restart', async () => {
  const first = harness(setOf('a'))
  assert.equal(await first.find('a'), 'found')
  first.state.answer = AWAY
  first.state.now += 11 * MINUTE
  assert.equal(await first.find('a'), 'found')
  assert.deepEqual(first.state.problems, ['no answer'])
  // An unknown key may be one that the issuer uses by now.
  assert.equal(await first.find('b'), 'unavailable')
  const again = harness(AWAY, first.kept)
  again.state.now += 23 * 60 * MINUTE
  assert.equal(await again.find('a'), 'found')
  again.state.now += 2 * 60 * MINUTE
  assert.equal(await again.find('a'), 'unavailable')
  again.state.now += 2_000
  again.state.answer = setOf('a')
  assert.equal(await again.find('a'), 'found')
  assert.deepEqual(again.state.problems, ['no answer', null])
})

test('issuer keys: without a set, each two seconds one fetch is tried', async () => {
  const { state, find } = harness(AWAY)
  for (let n = 0; n < 100; n++) assert.equal(await find('a'), 'unavailable')
  assert.equal(state.fetches, 1)
  state.now += 2_000
  state.answer = setOf('a')
  assert.equal(await find('a'), 'found')
})

test('issuer keys: a set is refreshed behind requests, and a removed key ends what it signed', async () => {
  const { keys, state, find } = harness(setOf('a', 'b'))
  await find('a')
  state.now += 8 * MINUTE
  const before = keys.generation
  assert.equal(await find('a'), 'found')
  assert.equal(state.fetches, 2)
  await new Promise(setImmediate)
  state.answer = setOf('b')
  state.now += 10 * MINUTE
  assert.equal(await find('a'), 'unknown')
  assert.ok(keys.generation > before)
})

test('issuer keys: an issuer that is frozen for ten minutes makes no request wait, and refuses none', async () => {
  const SECOND = 1_000
  const state = { now: 1_800_000_000_000, fetches: 0, isFrozen: false }
  const waiting: { readonly end: number; readonly settle: () => void }[] = []
  const keys = new IssuerKeys({
    place,
    kept: memorySets(),
    date: () => state.now,
    // As the real one: a fetch without an answer fails after five seconds.
    fetchSet: () => {
      state.fetches++
      if (!state.isFrozen) return Promise.resolve(setOf('a'))
      return new Promise((resolve) => {
        waiting.push({ end: state.now + 5 * SECOND, settle: () => resolve(AWAY) })
      })
    },
    onProblem() {},
  })
  const wanted = { kid: 'a', algorithm: 'ES256' } as const
  await keys.find(wanted)
  state.isFrozen = true
  // From the time at which the set is fetched again, over the one at which it is no longer new.
  state.now += 7 * MINUTE
  for (const end = state.now + 10 * MINUTE; state.now < end; state.now += SECOND) {
    for (const one of waiting.splice(0))
      if (one.end <= state.now) one.settle()
      else waiting.push(one)
    let found: unknown
    void keys.find(wanted).then((key) => {
      found = key
    })
    await new Promise(setImmediate)
    assert.ok(typeof found === 'object', `${(state.now % (60 * MINUTE)) / SECOND} s: ${found ?? 'it waits'}`)
  }
  // 9 minutes with a fetch of 5 s in each 35 s.
  assert.ok(state.fetches > 10 && state.fetches < 20, `${state.fetches}`)
})
