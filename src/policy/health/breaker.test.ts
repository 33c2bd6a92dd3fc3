import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { CircuitRules } from '../../core/settings.ts'
import {
  admit,
  admitEarly,
  type Breaker,
  type CircuitPermit,
  closedBreaker,
  commit,
  complete,
  counts,
  failed,
  phase,
  release,
  withdraw,
} from './breaker.ts'

/** Every probe comes after `resetTimeout`, unless `firstProbe` is set. */
const rules = (more: Partial<CircuitRules> = {}): CircuitRules => ({
  ...defaultSettings.circuit,
  firstProbe: 0,
  ...more,
})

/** A circuit with a clock and named permits, driven by events. A refused attempt has no permit. */
const simulate = (circuit: CircuitRules, start = 0) => {
  let breaker: Breaker = closedBreaker()
  let now = start
  const permits = new Map<string, CircuitPermit>()
  const permit = (name: string): CircuitPermit => {
    const found = permits.get(name)
    assert.ok(found, `there is no permit ${name}`)
    return found
  }
  const take = (name: string, answer: ReturnType<typeof admit>) => {
    breaker = answer.breaker
    if (answer.permit) permits.set(name, answer.permit)
    return answer.permit !== null
  }
  const self = {
    at: (ms: number) => {
      now = ms
      return self
    },
    later: (ms: number) => self.at(now + ms),
    admit: (name: string) => take(name, admit(breaker, now, circuit)),
    early: (name: string) => take(name, admitEarly(breaker, now, circuit)),
    commit: (name: string) => {
      const after = commit(breaker, permit(name), now, circuit)
      breaker = after.breaker
      permits.set(name, after.permit)
    },
    complete: (name: string) => {
      breaker = complete(breaker, permit(name), now, circuit)
    },
    fail: (name: string) => {
      breaker = failed(breaker, permit(name), now, circuit)
    },
    release: (name: string) => {
      breaker = release(breaker, permit(name), now, circuit)
    },
    /** Runs attempts one after the other, all with this outcome. */
    run: (how: 'ok' | 'fail' | 'committed' | 'broken' | 'neutral', times = 1) => {
      for (let n = 0; n < times; n++) {
        assert.ok(self.admit('run'), `attempt ${n} of ${times} is admitted`)
        if (how !== 'fail' && how !== 'neutral') self.commit('run')
        if (how === 'ok') self.complete('run')
        if (how === 'fail' || how === 'broken') self.fail('run')
        if (how === 'neutral') self.release('run')
      }
      return self
    },
    get phase() {
      return phase(breaker, now, circuit).state
    },
    get retryAt() {
      return phase(breaker, now, circuit).retryAt
    },
    get counts() {
      return counts(breaker, now, circuit)
    },
    get breaker() {
      return breaker
    },
  }
  return self
}

type Run = readonly ['ok' | 'fail' | 'committed' | 'broken' | 'neutral', number]
const opening: readonly [name: string, Partial<CircuitRules>, readonly Run[], 'closed' | 'open'][] = [
  ['a single failure does not', {}, [['fail', 1]], 'closed'],
  ['four failures are below minRequests', {}, [['fail', 4]], 'closed'],
  [
    'five in a row',
    { minRequests: 100 },
    [
      ['ok', 90],
      ['fail', 5],
    ],
    'open',
  ],
  [
    'four in a row, a completed answer, four in a row',
    { minRequests: 100 },
    [
      ['fail', 4],
      ['ok', 1],
      ['fail', 4],
    ],
    'closed',
  ],
  [
    'only a complete answer ends the run',
    { minRequests: 100 },
    [
      ['fail', 4],
      ['committed', 1],
      ['fail', 1],
    ],
    'open',
  ],
  [
    'a neutral outcome does not end the run',
    { minRequests: 100 },
    [
      ['fail', 4],
      ['neutral', 3],
      ['fail', 1],
    ],
    'open',
  ],
  ['broken answers are consecutive failures', { minRequests: 100 }, [['broken', 5]], 'open'],
  ['consecutiveFailures 0 disables the run', { minRequests: 100, consecutiveFailures: 0 }, [['fail', 50]], 'closed'],
  ['a run of one', { minRequests: 100, consecutiveFailures: 1 }, [['fail', 1]], 'open'],
  [
    'exactly half of four, with minRequests 4',
    { minRequests: 4 },
    [
      ['ok', 2],
      ['fail', 2],
    ],
    'open',
  ],
  [
    'exactly half of six',
    { consecutiveFailures: 0 },
    [
      ['ok', 3],
      ['fail', 3],
    ],
    'open',
  ],
  [
    'just under half',
    { consecutiveFailures: 0 },
    [
      ['ok', 4],
      ['fail', 3],
    ],
    'closed',
  ],
  [
    'a broken answer is not also a success',
    { consecutiveFailures: 0, minRequests: 6 },
    [
      ['ok', 3],
      ['broken', 3],
    ],
    'open',
  ],
  ['a broken answer counts once', { consecutiveFailures: 0, minRequests: 5 }, [['broken', 4]], 'closed'],
  [
    'neutral outcomes are not counted',
    { consecutiveFailures: 0 },
    [
      ['neutral', 50],
      ['fail', 4],
    ],
    'closed',
  ],
  [
    'threshold 100',
    { errorThreshold: 100, consecutiveFailures: 0 },
    [
      ['ok', 1],
      ['fail', 40],
    ],
    'closed',
  ],
  [
    'threshold 1',
    { errorThreshold: 1, consecutiveFailures: 0 },
    [
      ['ok', 99],
      ['fail', 1],
    ],
    'open',
  ],
  [
    'threshold 1, one in 101',
    { errorThreshold: 1, consecutiveFailures: 0 },
    [
      ['ok', 100],
      ['fail', 1],
    ],
    'closed',
  ],
]
for (const [name, more, runs, expected] of opening)
  test(`breaker: opens? ${name}`, () => {
    const circuit = simulate(rules(more))
    for (const [how, times] of runs) circuit.run(how, times)
    assert.equal(circuit.phase, expected)
  })

test('breaker: attempts in flight are not in the error rate', () => {
  const circuit = simulate(rules({ consecutiveFailures: 0 }))
  for (let n = 0; n < 20; n++) circuit.admit(`long ${n}`)
  circuit.run('fail', 5)
  assert.equal(circuit.phase, 'open')
})

const inTime: readonly [name: string, number, 'closed' | 'open'][] = [
  ['in the same twelfth', 4_999, 'open'],
  ['at the end of the window', 59_999, 'open'],
  ['when the first twelfth has left it', 60_000, 'closed'],
]
for (const [name, at, expected] of inTime)
  test(`breaker: four failures and one more ${name}`, () => {
    const circuit = simulate(rules({ consecutiveFailures: 0 })).run('fail', 4)
    circuit.at(at).run('fail')
    assert.equal(circuit.phase, expected)
  })

test('breaker: counts leave the window by twelfths, also if a twelfth is fractional', () => {
  const circuit = simulate(rules({ consecutiveFailures: 0, minRequests: 1_000, window: 100 }), 1e9 + 1)
  const from = Math.floor((1e9 + 1) / (100 / 12)) * (100 / 12)
  circuit.run('ok').run('fail')
  for (const [elapsed, successes] of [
    [0, 1],
    [50, 1],
    [99, 1],
    [101, 0],
  ] as const) {
    const { counts: seen } = circuit.at(Math.max(1e9 + 1, from + elapsed))
    assert.deepEqual(
      [seen.successes, seen.failures, seen.errorRate],
      successes ? [1, 1, 50] : [0, 0, 0],
      `after ${elapsed}`,
    )
  }
})

test('breaker: stays open for the reset time, then one request probes and closes it', () => {
  const circuit = simulate(rules({ resetTimeout: 300_000 })).at(1_000)
  circuit.run('fail', 5)
  assert.equal(circuit.retryAt, 301_000)
  assert.equal(circuit.counts.openedAt, 1_000)
  assert.equal(circuit.at(300_999).admit('soon'), false)
  assert.equal(circuit.at(301_000).phase, 'half_open')
  assert.equal(circuit.retryAt, null)
  assert.equal(circuit.admit('probe'), true)
  assert.equal(circuit.admit('second'), false)
  assert.equal(circuit.retryAt, 301_000 + 31_000)
  circuit.commit('probe')
  assert.equal(circuit.phase, 'closed')
  assert.deepEqual(circuit.counts, { successes: 1, failures: 0, errorRate: 0, openedAt: null })
})

/** [rules, ms from the end of a wait to the probe, the waits between a failed probe and the next one] */
const waits: readonly (readonly [string, Partial<CircuitRules>, number, readonly number[]])[] = [
  ['the defaults', { firstProbe: 10_000 }, 0, [10, 10, 20, 40, 80, 160, 300, 300]],
  ['probes that come late', { firstProbe: 10_000 }, 2_000, [10, 12, 26, 54, 110, 222, 300]],
  ['requests once an hour', { firstProbe: 10_000 }, 3_600_000, [10, 20, 40, 80, 160, 300]],
  ['a short limit', { firstProbe: 10_000, resetTimeout: 15_000 }, 0, [10, 10, 15, 15]],
  ['a limit below the first wait', { firstProbe: 10_000, resetTimeout: 3_000 }, 0, [3, 3, 3]],
  ['no first wait', { firstProbe: 0, resetTimeout: 60_000 }, 0, [60, 60, 60]],
]
for (const [name, more, late, expected] of waits)
  test(`breaker: the wait for a probe doubles, but is not longer than the outage so far: ${name}`, () => {
    const circuit = simulate(rules(more)).run('fail', 5)
    const found: number[] = []
    let from = 0
    for (const _ of expected) {
      const { retryAt } = circuit
      assert.ok(retryAt !== null)
      found.push((retryAt - from) / 1_000)
      assert.equal(circuit.at(retryAt - 1).admit('soon'), false)
      from = retryAt + late
      assert.equal(circuit.at(from).admit('probe'), true)
      circuit.fail('probe')
    }
    assert.deepEqual(found, expected)
  })

test('breaker: a success ends the doubling', () => {
  const circuit = simulate(rules({ firstProbe: 10_000 })).run('fail', 5)
  for (const at of [10_000, 20_000, 40_000]) circuit.at(at).run('fail')
  circuit.at(80_000).run('ok')
  circuit.at(90_000).run('fail', 4)
  assert.equal(circuit.retryAt, 100_000)
})

test('breaker: while not closed it reports the counts at opening', () => {
  const circuit = simulate(rules({ consecutiveFailures: 0 }))
    .run('ok', 3)
    .run('fail', 3)
  assert.deepEqual(circuit.at(299_999).counts, { successes: 3, failures: 3, errorRate: 50, openedAt: 0 })
  circuit.at(300_000).admit('probe')
  assert.deepEqual(circuit.counts, { successes: 3, failures: 3, errorRate: 50, openedAt: 0 })
  circuit.later(5).fail('probe')
  assert.equal(circuit.counts.openedAt, 300_005)
  assert.equal(circuit.retryAt, 600_005)
})

test('breaker: stores why it opened', () => {
  const why = (circuit: { readonly breaker: Breaker }) => circuit.breaker.state === 'open' && circuit.breaker.why
  const circuit = simulate(rules({ minRequests: 100 })).run('fail', 5)
  assert.equal(why(circuit), 'consecutive_failures')
  circuit.at(300_000).run('fail')
  assert.equal(why(circuit), 'probe_failed')
  assert.equal(why(simulate(rules({ consecutiveFailures: 0 })).run('fail', 5)), 'error_threshold')
})

test('breaker: a released probe frees its slot', () => {
  const circuit = simulate(rules()).run('fail', 5).at(300_000)
  circuit.admit('left')
  circuit.release('left')
  assert.equal(circuit.phase, 'half_open')
  assert.equal(circuit.admit('next'), true)
})

test('breaker: a lost probe keeps its slot for the attempt timeout, and frees only its own', () => {
  const circuit = simulate(rules({ timeout: 2_000 }))
    .run('fail', 5)
    .at(300_000)
  circuit.admit('lost')
  assert.equal(circuit.at(302_999).admit('second'), false)
  assert.equal(circuit.at(303_000).admit('second'), true)
  circuit.release('lost')
  assert.equal(circuit.admit('third'), false)
  circuit.commit('lost')
  assert.equal(circuit.phase, 'closed', 'a late success of the same generation counts')
})

test('breaker: without an attempt timeout a probe keeps its slot for 30 s', () => {
  const circuit = simulate(rules({ timeout: 0 }))
    .run('fail', 5)
    .at(300_000)
  circuit.admit('lost')
  assert.equal(circuit.at(330_999).admit('second'), false)
  assert.equal(circuit.at(331_000).admit('second'), true)
})

test('breaker: admits up to `probes` probes at once', () => {
  const circuit = simulate(rules({ probes: 3 }))
    .run('fail', 5)
    .at(300_000)
  assert.deepEqual(['a', 'b', 'c', 'd'].map(circuit.admit), [true, true, true, false])
  circuit.release('b')
  assert.equal(circuit.admit('e'), true)
  circuit.fail('a')
  assert.equal(circuit.phase, 'open')
  circuit.commit('c')
  assert.equal(circuit.phase, 'open', 'another probe of the same phase is now of an older generation')
})

const late: readonly [name: string, (circuit: ReturnType<typeof simulate>) => void][] = [
  ['a success', (circuit) => circuit.commit('old')],
  ['a complete answer', (circuit) => circuit.complete('old')],
  ['a failure', (circuit) => circuit.fail('old')],
  ['a release', (circuit) => circuit.release('old')],
]
for (const [name, apply] of late)
  test(`breaker: ${name} of an older phase changes nothing, in any later phase`, () => {
    const circuit = simulate(rules())
    circuit.admit('old')
    circuit.run('fail', 5)
    const same = (phaseNow: string) => {
      const before = circuit.breaker
      apply(circuit)
      assert.equal(circuit.breaker, before)
      assert.equal(circuit.phase, phaseNow)
    }
    same('open')
    circuit.at(300_000).admit('probe')
    same('half_open')
    circuit.commit('probe')
    same('closed')
  })

test('breaker: a probe that closes the circuit and then breaks off counts as one failure', () => {
  const circuit = simulate(rules()).run('fail', 5).at(300_000)
  circuit.admit('probe')
  circuit.commit('probe')
  circuit.later(10_000).fail('probe')
  assert.deepEqual(circuit.counts, { successes: 0, failures: 1, errorRate: 100, openedAt: null })
})

test('breaker: withdraw counts neither a success nor a failure', () => {
  const circuit = rules()
  const { breaker, permit } = admit(closedBreaker(), 0, circuit)
  assert.ok(permit)
  const committed = commit(breaker, permit, 10, circuit)
  assert.equal(counts(committed.breaker, 20, circuit).successes, 1)
  const after = withdraw(committed.breaker, committed.permit, 20, circuit)
  assert.deepEqual(counts(after, 20, circuit), { successes: 0, failures: 0, errorRate: 0, openedAt: null })
  // For another generation, or before the commit, it changes at most a probe's slot.
  assert.equal(withdraw(committed.breaker, { ...committed.permit, generation: 7 }, 20, circuit), committed.breaker)
  assert.equal(withdraw(breaker, permit, 20, circuit), breaker)
})

test('breaker: an answer that breaks off after its success left the window counts as a failure', () => {
  const circuit = simulate(rules())
  circuit.admit('long')
  circuit.commit('long')
  circuit.at(120_000).run('ok')
  circuit.fail('long')
  assert.deepEqual(circuit.counts, { successes: 1, failures: 1, errorRate: 50, openedAt: null })
})

test('breaker: two commits count once, and a complete answer without a commit counts', () => {
  const circuit = simulate(rules())
  circuit.admit('a')
  circuit.commit('a')
  circuit.commit('a')
  circuit.complete('a')
  circuit.admit('b')
  circuit.complete('b')
  assert.equal(circuit.counts.successes, 2)
  const probing = simulate(rules()).run('fail', 5).at(300_000)
  probing.admit('probe')
  probing.complete('probe')
  assert.equal(probing.phase, 'closed')
})

test('breaker: a permit states whether it is a probe and where its success was counted', () => {
  const kind = (permit: CircuitPermit | null) => permit && [permit.probe, permit.early, permit.countedIn]
  const usual = rules()
  const opened = simulate(usual).run('fail', 5).breaker
  assert.deepEqual(kind(admit(closedBreaker(), 0, usual).permit), [false, false, null])
  assert.deepEqual(kind(admit(opened, 300_000, usual).permit), [true, false, null])
  assert.deepEqual(kind(admitEarly(opened, 30_000, usual).permit), [true, true, null])
  const probe = admit(opened, 300_000, usual)
  assert.ok(probe.permit)
  assert.deepEqual(kind(commit(probe.breaker, probe.permit, 300_001, usual).permit), [false, false, 300_000])
})

test('breaker: with more probes in flight than allowed, retryAt is when enough have expired', () => {
  const three = simulate(rules({ probes: 3 }))
    .run('fail', 5)
    .at(300_000)
  three.admit('a')
  three.later(10).admit('b')
  three.later(10).admit('c')
  assert.deepEqual(phase(three.breaker, 300_020, rules({ probes: 1 })), { state: 'half_open', retryAt: 331_020 })
  assert.deepEqual(phase(three.breaker, 300_020, rules({ probes: 2 })), { state: 'half_open', retryAt: 331_010 })
  assert.deepEqual(phase(three.breaker, 300_020, rules({ probes: 4 })), { state: 'half_open', retryAt: null })
})

test('breaker: an expired early probe does not free the slot of another', () => {
  const circuit = simulate(rules({ timeout: 1_000 }))
    .run('fail', 5)
    .at(30_000)
  circuit.early('lost')
  circuit.at(60_000).early('second')
  circuit.release('lost')
  assert.equal(circuit.phase, 'half_open', 'the second is in flight')
  circuit.release('second')
  assert.equal(circuit.phase, 'open')
})

test('breaker: admits one early probe in each tenth of the reset time', () => {
  const circuit = simulate(rules({ resetTimeout: 300_000, timeout: 1_000 })).run('fail', 5)
  assert.equal(circuit.at(29_999).early('a'), false)
  assert.equal(circuit.at(30_000).early('a'), true)
  assert.equal(circuit.phase, 'half_open', 'a probe is in flight')
  assert.equal(circuit.admit('plain'), false, 'no other attempt is admitted')
  assert.equal(circuit.early('b'), false)
  circuit.later(500).fail('a')
  assert.equal(circuit.phase, 'open')
  assert.equal(circuit.retryAt, 300_000, 'a failed early probe does not change retryAt')
  assert.equal(circuit.at(59_999).early('b'), false)
  assert.equal(circuit.at(60_000).early('b'), true)
  circuit.commit('a')
  assert.equal(circuit.phase, 'closed', 'the generation is the same: it opened once')
  circuit.fail('b')
  assert.equal(circuit.counts.failures, 0)
})

test('breaker: a successful early probe closes the circuit; after a released one the interval still applies', () => {
  const circuit = simulate(rules()).run('fail', 5).at(30_000)
  circuit.early('a')
  circuit.release('a')
  assert.equal(circuit.phase, 'open')
  assert.equal(circuit.at(59_999).early('b'), false)
  assert.equal(circuit.at(60_000).early('b'), true)
  circuit.commit('b')
  assert.equal(circuit.phase, 'closed')
})

test('breaker: an early probe in flight at the end of the reset time does not block a normal probe', () => {
  const circuit = simulate(rules({ resetTimeout: 60_000 }))
    .run('fail', 5)
    .at(50_000)
  circuit.early('early')
  assert.equal(circuit.at(60_000).admit('plain'), true)
  circuit.commit('early')
  assert.equal(circuit.phase, 'half_open')
})

for (const resetTimeout of [0, 1_000, 10_000])
  test(`breaker: with a reset time of ${resetTimeout} ms admitEarly equals admit`, () => {
    const circuit = simulate(rules({ resetTimeout })).run('fail', 5)
    for (const at of [0, 1, 999, 1_000, 9_999, 10_000, 10_001])
      assert.deepEqual(
        admitEarly(circuit.breaker, at, rules({ resetTimeout })),
        admit(circuit.breaker, at, rules({ resetTimeout })),
      )
  })

test('breaker: a refused early probe states when it will be admitted, at the latest after the reset time', () => {
  const circuit = simulate(rules({ resetTimeout: 15_000 })).run('fail', 5)
  assert.equal(admitEarly(circuit.breaker, 1, rules({ resetTimeout: 15_000 })).retryAt, 10_000)
  circuit.at(10_000).early('a')
  assert.equal(admitEarly(circuit.breaker, 10_001, rules({ resetTimeout: 15_000 })).retryAt, 15_000)
})

/**
 * A simple reference implementation of the same rules: a log of outcomes, and an object for each phase whose identity is
 * the generation.
 */
class Reference {
  readonly r: CircuitRules
  era: {
    at: 'closed' | 'open' | 'half_open'
    log: { slot: number; ok: boolean }[]
    run: number
    until: number
    since: number
    earlyAt: number
    live: { until: number }[]
    shown: [number, number]
  }
  constructor(r: CircuitRules) {
    this.r = r
    this.era = this.#era('closed', 0)
  }
  #era(at: 'closed' | 'open' | 'half_open', now: number): Reference['era'] {
    return { at, log: [], run: 0, since: now, until: now + this.r.resetTimeout, earlyAt: now, live: [], shown: [0, 0] }
  }
  #slot = (now: number) => Math.floor(now / (this.r.window / 12))
  tally(now: number): [number, number] {
    if (this.era.at !== 'closed') return this.era.shown
    const seen = this.era.log.filter(({ slot }) => slot > this.#slot(now) - 12)
    return [seen.filter(({ ok }) => ok).length, seen.filter(({ ok }) => !ok).length]
  }
  admit(now: number, early: boolean) {
    if (this.era.at === 'open' && now >= this.era.until)
      this.era = { ...this.#era('half_open', this.era.since), shown: this.era.shown }
    const live = this.era.live.filter(({ until }) => now < until)
    if (this.era.at === 'open') {
      if (!early || live.length > 0 || now < this.era.earlyAt + Math.max(10_000, this.r.resetTimeout / 10)) return null
      this.era.earlyAt = now
    }
    if (this.era.at === 'half_open' && live.length >= this.r.probes) return null
    const probe = { until: now + (this.r.timeout || 30_000) + 1_000 }
    if (this.era.at !== 'closed') this.era.live.push(probe)
    return { era: this.era, probe, entry: null as null | { slot: number; ok: boolean } }
  }
  commit(permit: NonNullable<ReturnType<Reference['admit']>>, now: number) {
    if (permit.era !== this.era || permit.entry) return
    if (this.era.at !== 'closed') this.era = this.#era('closed', now)
    permit.era = this.era
    permit.entry = { slot: this.#slot(now), ok: true }
    this.era.log.push(permit.entry)
  }
  complete(permit: NonNullable<ReturnType<Reference['admit']>>, now: number) {
    this.commit(permit, now)
    if (permit.era === this.era) this.era.run = 0
  }
  release(permit: NonNullable<ReturnType<Reference['admit']>>) {
    permit.probe.until = Number.NEGATIVE_INFINITY
  }
  failed(permit: NonNullable<ReturnType<Reference['admit']>>, now: number) {
    if (permit.era !== this.era) return
    if (this.era.at === 'open') return this.release(permit)
    if (this.era.at === 'half_open') {
      this.era = { ...this.#era('open', now), shown: this.era.shown }
      return
    }
    this.era.log = [...this.era.log.filter((one) => one !== permit.entry), { slot: this.#slot(now), ok: false }]
    this.era.run++
    const [good, bad] = this.tally(now)
    const { minRequests, errorThreshold, consecutiveFailures } = this.r
    if (
      (good + bad >= minRequests && bad * 100 >= errorThreshold * (good + bad)) ||
      (consecutiveFailures > 0 && this.era.run >= consecutiveFailures)
    )
      this.era = { ...this.#era('open', now), shown: [good, bad] }
  }
}

const someRules = fc.record({
  timeout: fc.constantFrom(0, 500, 30_000),
  errorThreshold: fc.constantFrom(1, 30, 50, 100),
  resetTimeout: fc.constantFrom(0, 1_000, 12_000, 60_000, 300_000),
  window: fc.constantFrom(100, 1_000, 60_000),
  minRequests: fc.integer({ min: 1, max: 6 }),
  consecutiveFailures: fc.integer({ min: 0, max: 5 }),
  probes: fc.integer({ min: 1, max: 3 }),
})
type BreakerEvent =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'admit' | 'early' }
  | { readonly do: 'commit' | 'complete' | 'failed' | 'release'; readonly which: number }

const someEvent: fc.Arbitrary<BreakerEvent> = fc.oneof(
  fc.record({
    do: fc.constant('wait' as const),
    ms: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 500, max: 40_000 }), fc.constant(400_000)),
  }),
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('admit' as const, 'early' as const) }) },
  fc.record({ do: fc.constantFrom('commit' as const, 'complete' as const, 'release' as const), which: fc.nat(30) }),
  // Failures must be frequent, or circuits rarely open.
  { weight: 2, arbitrary: fc.record({ do: fc.constant('failed' as const), which: fc.nat(5) }) },
)

test('breaker: equals a simple reference for any events, and always closes again', () => {
  const hit = { opened: 0, half: 0, early: 0, closedAgain: 0, stale: 0 }
  fc.assert(
    fc.property(
      someRules,
      fc.array(someEvent, { minLength: 30, maxLength: 150, size: 'max' }),
      (ruleChanges, events) => {
        const circuit = rules(ruleChanges)
        const reference = new Reference(circuit)
        let breaker: Breaker = closedBreaker()
        let now = 1_000
        const live: { permit: CircuitPermit; twin: NonNullable<ReturnType<Reference['admit']>> }[] = []
        const probing = () =>
          breaker.state === 'half_open' ? breaker.probes.filter(({ expires }) => now < expires).length : 0
        for (const event of events) {
          const before = breaker
          if (event.do === 'wait') now += event.ms
          else if (!('which' in event)) {
            const expected = phase(breaker, now, circuit)
            const answer = event.do === 'admit' ? admit(breaker, now, circuit) : admitEarly(breaker, now, circuit)
            const twin = reference.admit(now, event.do === 'early')
            assert.equal(answer.permit !== null, twin !== null, `${event.do} at ${now}`)
            if (event.do === 'admit')
              assert.equal(answer.permit !== null, expected.retryAt === null, 'phase and admit agree')
            breaker = answer.breaker
            if (answer.permit && twin) live.push({ permit: answer.permit, twin })
            else assert.ok(answer.retryAt !== null && answer.retryAt > now, 'a refusal has a retryAt in the future')
            if (answer.permit?.early) hit.early++
          } else {
            const index = event.which % Math.max(1, live.length)
            const one = live[index]
            if (!one) continue
            if (one.permit.generation !== breaker.generation) hit.stale++
            if (event.do === 'commit') {
              const after = commit(breaker, one.permit, now, circuit)
              breaker = after.breaker
              one.permit = after.permit
              reference.commit(one.twin, now)
            } else {
              live.splice(index, 1)
              if (event.do === 'complete') {
                breaker = complete(breaker, one.permit, now, circuit)
                reference.complete(one.twin, now)
              } else if (event.do === 'failed') {
                breaker = failed(breaker, one.permit, now, circuit)
                reference.failed(one.twin, now)
              } else {
                breaker = release(breaker, one.permit, now, circuit)
                reference.release(one.twin)
              }
            }
          }
          assert.equal(breaker.generation - before.generation, breaker.state === before.state ? 0 : 1)
          assert.ok(probing() <= circuit.probes)
          const { successes, failures } = counts(breaker, now, circuit)
          assert.deepEqual([breaker.state, successes, failures], [reference.era.at, ...reference.tally(now)])
          if (breaker.state !== before.state)
            hit[breaker.state === 'open' ? 'opened' : breaker.state === 'half_open' ? 'half' : 'closedAgain']++
        }
        // After enough time one successful answer closes it, whatever probes were lost.
        now += 400_000
        const last = admit(breaker, now, circuit)
        assert.ok(last.permit, 'admits after the reset time')
        assert.equal(phase(commit(last.breaker, last.permit, now, circuit).breaker, now, circuit).state, 'closed')
      },
    ),
    { numRuns: 2_000, seed: 20_261_121 },
  )
  for (const [edge, times] of Object.entries(hit)) assert.ok(times > 500, `${edge} was reached only ${times} times`)
})

test('breaker: after a change to fewer probes, a slot is free when enough have expired, in any order', () => {
  const half: Breaker = {
    state: 'half_open',
    generation: 2,
    since: 0,
    outage: { from: 0, failedProbes: 0 },
    tally: { successes: 0, failures: 1 },
    probes: [
      { id: 1, expires: 30_000 },
      { id: 2, expires: 10_000 },
      { id: 3, expires: 20_000 },
    ],
    nextId: 4,
  }
  assert.deepEqual(
    [1, 2, 3, 4].map((probes) => phase(half, 5_000, rules({ probes })).retryAt),
    [30_000, 20_000, 10_000, null],
  )
})
