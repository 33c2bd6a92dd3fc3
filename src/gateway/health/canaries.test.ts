import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CanaryState } from '../../core/canary.ts'
import { fail } from '../../core/failure.ts'
import type { Route } from '../../core/route.ts'
import { type AttemptRecord, summaryOf, type TraceSummary } from '../../core/trace-summary.ts'
import { Canaries } from './canaries.ts'

const route: Route = {
  name: 'fast',
  targets: [
    { provider: 'a', model: 'usual', weight: 1 },
    { provider: 'a', model: 'fresh', weight: 1 },
  ],
  fallback: [],
  canary: { target: 1, steps: [10, 100], every: 1_000, stop: { errors: 2, firstContent: 50 } },
}
const config = { routes: new Map([[route.name, route]]) }
const attempt = (model: string, end: AttemptRecord['end'], ms = 100): AttemptRecord => ({
  ...{ provider: 'a', model, key: 'k', began: 0, hedge: false, settled: ms, broke: undefined, status: null },
  end,
  failure: end === 'failed' ? fail('overloaded', 'broken') : undefined,
})
const summary = (attempts: readonly AttemptRecord[], more: Partial<TraceSummary>): TraceSummary => ({
  ...summaryOf([]),
  ...{ model: 'fast', outcome: 'answered', attempts },
  ...more,
})
const skipped = ['k1', 'k2'].map((key) => ({ provider: 'a', model: 'fresh', key, why: 'circuit' }))

type SentHint = Parameters<ConstructorParameters<typeof Canaries>[1] & {}>[0]

const canaries = (clock = { date: 0 }) => {
  const timers: (() => void)[] = []
  const sent: SentHint[] = []
  const later = (_: number, run: () => void) => {
    timers.push(run)
    return () => {}
  }
  const found = new Canaries({ date: () => clock.date, random: Math.random, later }, (hint) => sent.push(hint))
  /** What it sends after a second. */
  const tell = () => {
    for (const run of timers.splice(0)) run()
    return sent.splice(0)
  }
  const decided: CanaryState[] = []
  found.onDecision = (_route, state) => decided.push(state)
  const see = (count: number, attempts: readonly AttemptRecord[], more: Partial<TraceSummary> = {}) => {
    for (let at = 0; at < count; at++) found.observe(config, summary(attempts, more))
  }
  return { clock, found, decided, see, tell }
}

test('canaries: one that does well advances after its time and 50 attempts', () => {
  const { clock, found, decided, see } = canaries()
  see(60, [attempt('usual', 'committed')])
  see(49, [attempt('fresh', 'committed')])
  clock.date = 1_000
  assert.equal(found.stateOf('fast').step, 0)
  see(1, [attempt('fresh', 'committed')])
  assert.deepEqual(decided, [{ status: 'running', step: 1, since: 1_000, reason: '' }])
  // Until the store has it.
  assert.equal(found.stateOf('fast').step, 1)
})

test('canaries: one that fails stops, also while its circuit is open, and is listed for the alert', () => {
  for (const [attempts, more] of [
    [[attempt('fresh', 'failed'), attempt('usual', 'committed')], {}],
    [[attempt('usual', 'committed')], { skipped }],
  ] as const) {
    const { found, decided, see } = canaries()
    see(49, attempts, more)
    assert.equal(decided.length, 0)
    see(1, attempts, more)
    assert.deepEqual(
      decided.map(({ status }) => status),
      ['stopped'],
    )
    assert.deepEqual(
      found.stopped(config).map((one) => one.route),
      ['fast'],
    )
    see(60, attempts, more)
    assert.equal(decided.length, 1)
  }
})

test('canaries: attempts without a verdict, of other names, and shared answers do not count', () => {
  const { decided, see } = canaries()
  see(100, [attempt('usual', 'committed')])
  see(100, [attempt('fresh', 'abandoned'), attempt('fresh', 'pending')])
  see(100, [attempt('fresh', 'failed')], { model: 'other' })
  see(100, [attempt('fresh', 'failed')], { shared: { how: 'cache', with: 'r' } })
  assert.deepEqual(decided, [])
})

test('canaries: one that is resumed begins to count again', () => {
  const { found, decided, see } = canaries()
  const both = [attempt('fresh', 'failed'), attempt('usual', 'committed')]
  see(50, both)
  found.decide(new Map([['fast', { status: 'running', step: 0, since: 5, reason: '' }]]))
  see(49, both)
  assert.equal(decided.length, 1)
  see(1, both)
  assert.equal(decided.length, 2)
})

test('canaries: what several processes have seen stops one that no process has seen enough of', () => {
  const processes = Array.from({ length: 3 }, () => canaries())
  const [first] = processes
  assert.ok(first)
  const both = [attempt('fresh', 'failed'), attempt('usual', 'committed')]
  const share = () => {
    const hints = processes.flatMap(({ tell }) => tell())
    for (const { found } of processes) for (const hint of hints) found.learn(hint)
    return hints.length
  }
  for (const { see } of processes) see(10, both)
  assert.equal(share(), 3)
  // Without requests nothing is sent, and counts that are sent again are not added twice.
  assert.equal(share(), 0)
  for (const { see } of processes) see(6, both)
  share()
  assert.deepEqual(
    processes.map(({ decided }) => decided.length),
    [0, 0, 0],
  )
  first.see(1, both)
  share()
  first.see(1, both)
  assert.match(first.decided[0]?.reason ?? '', /^100 % of 50 requests failed, 0 % of 50 /)
})

test('canaries: a step needs 50 attempts of all processes, and the next one begins to count for all', () => {
  const clock = { date: 0 }
  const [one, other] = [canaries(clock), canaries(clock)]
  const share = () => {
    for (const hint of one.tell()) other.found.learn(hint)
    for (const hint of other.tell()) one.found.learn(hint)
  }
  const good = [attempt('fresh', 'committed')]
  for (const { see } of [one, other]) see(25, good)
  clock.date = 1_000
  share()
  one.see(1, good)
  const [next] = one.decided
  assert.deepEqual([next?.step, next?.since], [1, 1_000])
  assert.ok(next)
  // The other has seen the same, and has decided a moment later: both have the step that was stored last.
  clock.date = 1_010
  other.see(1, good)
  assert.equal(other.decided.length, 1)
  const [last] = other.decided
  assert.ok(last)
  for (const { found } of [one, other]) found.decide(new Map([['fast', last]]))
  // Counts of the step before, which were on their way, are not those of this step.
  share()
  // Those of both sides are kept: 48 failures are certain with what was seen before.
  for (const { see } of [one, other]) see(60, [attempt('usual', 'committed')])
  share()
  for (const { see } of [one, other]) see(24, [attempt('fresh', 'failed')])
  share()
  one.see(1, [attempt('usual', 'committed')])
  assert.equal(one.decided.at(-1)?.status, 'stopped')
})
