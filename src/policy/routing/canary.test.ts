import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CanaryRules, CanaryState } from '../../core/canary.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { type CanaryCounts, canaryShare, isDrawn, NO_ARM, nextCanary, shownCanary, withRequest } from './canary.ts'

const rules: CanaryRules = {
  target: 1,
  steps: [1, 5, 25, 100],
  every: 1_800_000,
  stop: { errors: 2, firstContent: 50 },
}

/** A generator of numbers below 1 (mulberry32), the same for each seed. */
const seeded = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** `slow`: factor of the time to first content. Times are log-normal, with a hundredth of ten times as slow answers. */
type Target = { readonly failures: number; readonly slow?: number }

/** Requests until the canary stops, of at most `most`; null: it does not. One request each second, judged after each. */
const stopAfter = (seed: number, canary: Target, others: Target, most: number): number | null => {
  const random = seeded(seed)
  let state: CanaryState = { status: 'running', step: 0, since: 0, reason: '' }
  let counts: CanaryCounts = { canary: NO_ARM, others: NO_ARM, inStep: 0 }
  const draw = ({ failures, slow = 1 }: Target, arm: CanaryCounts['canary']) => {
    const isFailed = random() < failures
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    const first = slow * Math.exp(6 + 0.7 * normal) * (random() < 0.01 ? 10 : 1)
    return withRequest(arm, isFailed, isFailed ? null : first)
  }
  for (let at = 1; at <= most; at++) {
    const isCanary = 100 * random() < canaryShare(rules, state)
    counts = isCanary
      ? { ...counts, canary: draw(canary, counts.canary), inStep: counts.inStep + 1 }
      : { ...counts, others: draw(others, counts.others) }
    const next = nextCanary(rules, state, counts, 1_000 * at)
    if (next?.status === 'stopped') return at
    if (next) {
      state = next
      counts = { ...counts, inStep: 0 }
    }
  }
  return null
}

const WELL: Target = { failures: 0.02 }
const faults: readonly (readonly [string, Target, number])[] = [
  ['half of the requests fail', { failures: 0.5 }, 20_000],
  ['one of ten requests fails', { failures: 0.12 }, 60_000],
  ['it is three times as slow', { failures: 0.02, slow: 3 }, 20_000],
]
for (const [name, target, most] of faults)
  test(`canary: stops if ${name}, in 50 of 50 seeded runs`, () => {
    const found = Array.from({ length: 50 }, (_, seed) => stopAfter(seed + 1, target, WELL, most))
    assert.equal(found.filter((at) => at === null).length, 0)
  })

test('canary: stops on a fault of all requests within the first step, in 200 of 200 seeded runs', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const at = stopAfter(seed, { failures: 1 }, WELL, 30_000)
    assert.ok(at !== null && at < 10_000, `seed ${seed}: ${at}`)
  }
})

const noises: readonly (readonly [string, Target])[] = [
  ['as well as the others', WELL],
  ['without failures on both sides', { failures: 0 }],
  ['with many failures on both sides', { failures: 0.3 }],
  ['with a tolerated difference', { failures: 0.035, slow: 1.3 }],
]
for (const [name, target] of noises)
  test(`canary: does not stop ${name}, in 250 of 250 seeded runs`, () => {
    const others = target.slow ? WELL : target
    for (let seed = 1; seed <= 250; seed++) assert.equal(stopAfter(seed, target, others, 12_000), null, `seed ${seed}`)
  })

test('canary: advances after its time and 50 requests, and stays at the last step', () => {
  const state = (step: number): CanaryState => ({ status: 'running', step, since: 0, reason: '' })
  const counts = (inStep: number): CanaryCounts => ({ canary: NO_ARM, others: NO_ARM, inStep })
  assert.equal(nextCanary(rules, state(0), counts(49), rules.every), null)
  assert.equal(nextCanary(rules, state(0), counts(50), rules.every - 1), null)
  assert.deepEqual(nextCanary(rules, state(0), counts(50), rules.every), { ...state(1), since: rules.every })
  assert.equal(nextCanary(rules, state(3), counts(50), 9 * rules.every), null)
  assert.equal(nextCanary(rules, { ...state(0), status: 'paused' }, counts(50), rules.every), null)
  const bad = { requests: 60, failed: 60, timed: 0, logs: 0, squares: 0 }
  const failing = { canary: bad, others: { ...bad, failed: 0 }, inStep: 60 }
  for (const status of ['running', 'paused'] as const)
    assert.equal(nextCanary(rules, { ...state(0), status }, failing, 1)?.status, 'stopped')
  assert.equal(nextCanary(rules, { ...state(0), status: 'stopped' }, failing, 1), null)
})

test('canary: a session keeps its draw while the share grows', () => {
  const sessions = Array.from({ length: 20_000 }, (_, at) => `fast s-${at}`)
  let before: readonly string[] = []
  for (const share of [1, 5, 25, 100]) {
    const drawn = sessions.filter((session) => isDrawn(session, share))
    assert.ok(Math.abs(drawn.length / 200 - share) < 1, `${drawn.length} at ${share} %`)
    assert.ok(before.every((session) => drawn.includes(session)))
    before = drawn
  }
  assert.equal(
    sessions.some((session) => isDrawn(session, 0)),
    false,
  )
})

test('canary: the plan to be shown has the share of the canary, and the others share the rest', () => {
  const instance = {} as Candidate['instance']
  const candidate = (model: string, weight: number, isCanary = false): Candidate => ({
    ...{ instance, model, because: '', weight },
    ...(isCanary && { isCanary }),
  })
  const [old, usual, fresh] = [candidate('old', 1), candidate('usual', 3), candidate('fresh', 4, true)]
  const shares = (weighted: boolean, percent: number) => {
    const drawn = new Map(weighted ? [old, usual, fresh].map((one) => [one, one.weight / 8] as const) : [])
    const odds = { strategy: weighted ? 'weighted' : 'priority', shares: drawn, roles: new Map() } as const
    const plan: Plan = { by: 'route', candidates: [old, usual, fresh], skipped: [], odds }
    const shown = shownCanary(plan, percent)
    const rounded = (share: number | undefined) => (share === undefined ? null : Math.round(100 * share) / 100)
    return shown.candidates.map((one) => [one.model, rounded(shown.odds?.shares.get(one))])
  }
  assert.deepEqual(shares(true, 20), [
    ['old', 0.2],
    ['usual', 0.6],
    ['fresh', 0.2],
  ])
  assert.deepEqual(shares(false, 75), [
    ['fresh', 0.75],
    ['old', 0.25],
    ['usual', null],
  ])
})
