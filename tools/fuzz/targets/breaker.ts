/** The circuit breaker, compared step by step with the simulation's reference implementation. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { CircuitRules } from '../../../src/core/settings.ts'
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
} from '../../../src/policy/health/breaker.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { ReferenceCircuit, type ReferenceToken } from '../../sim/reference.ts'
import type { Target } from '../engine.ts'

const among = <T>(values: readonly [T, ...T[]], byte: number): T => values[byte % values.length] ?? values[0]

/** The first bytes encode the rules. */
const rulesOf = (input: Buffer): CircuitRules => ({
  ...defaultSettings.circuit,
  timeout: among([30_000, 500, 0], input[0] ?? 0),
  errorThreshold: among([50, 1, 30, 100], input[1] ?? 0),
  firstProbe: among([10_000, 0, 1_000, 60_000], (input[2] ?? 0) >> 2),
  resetTimeout: among([60_000, 1_000, 12_000, 300_000], input[2] ?? 0),
  window: among([60_000, 1_200, 120_000], input[3] ?? 0),
  minRequests: 1 + ((input[4] ?? 0) % 6),
  consecutiveFailures: (input[5] ?? 0) % 5,
  probes: 1 + ((input[6] ?? 0) % 3),
})

const WAITS = [0, 1, 40, 100, 999, 1_000, 1_001, 5_000, 10_000, 12_000, 31_000, 60_000, 400_000] as const

type Admitted = { permit: CircuitPermit; readonly token: ReferenceToken; over: boolean }

export const BREAKER: Target = {
  name: 'breaker',
  property: 'admits, reads and counts like the reference, for any events in any order',
  seeds: [
    Uint8Array.from([
      0,
      0,
      0,
      0,
      1,
      2,
      0,
      ...[1, 1, 1, 1, 1].flatMap(() => [1, 0, 4, 0]),
      0,
      11,
      1,
      0,
      3,
      0,
      1,
      0,
      4,
      0,
    ]),
  ],
  generated: fc.uint8Array({ minLength: 20, maxLength: 400, size: 'max' }),
  check(input) {
    const rules = rulesOf(input)
    const reference = new ReferenceCircuit(rules)
    let breaker: Breaker = closedBreaker()
    // A multiple of every bucket width, so that both implementations round alike.
    let now = 1_200_000
    const admitted: Admitted[] = []
    for (let at = 7; at + 1 < input.length; at += 2) {
      const [action = 0, choice = 0] = input.subarray(at, at + 2)
      const open = admitted.filter(({ over }) => !over)
      const one = open[choice % Math.max(1, open.length)]
      const step = `step ${(at - 7) / 2} at ${now}`
      switch (action % 8) {
        case 0:
          now += among(WAITS, choice)
          break
        case 1:
        case 2: {
          const early = action % 8 === 2
          const token = reference.admit(now, early)
          const { breaker: next, permit, retryAt } = (early ? admitEarly : admit)(breaker, now, rules)
          breaker = next
          assert.equal(permit === null, token === null, `${step}: ${early ? 'an early ' : ''}admission`)
          if (permit === null) assert.ok(retryAt !== null && retryAt > now, `${step}: retry time`)
          if (permit && token) admitted.push({ permit, token, over: false })
          break
        }
        case 3:
          if (!one) break
          reference.commit(one.token, now)
          ;({ breaker, permit: one.permit } = commit(breaker, one.permit, now, rules))
          break
        case 4:
          if (!one) break
          reference.failed(one.token, now)
          breaker = failed(breaker, one.permit, now, rules)
          one.over = true
          break
        case 5:
          if (!one) break
          reference.done(one.token, now)
          breaker = complete(breaker, one.permit, now, rules)
          one.over = true
          break
        case 6:
          if (!one) break
          reference.release(one.token)
          breaker = release(breaker, one.permit, now, rules)
          one.over = true
          break
        default:
          if (!one) break
          reference.withdraw(one.token)
          breaker = withdraw(breaker, one.permit, now, rules)
          one.over = true
      }
      assert.equal(phase(breaker, now, rules).state, reference.reads(now), `${step}: phase`)
      if (breaker.state !== 'closed' || reference.at !== 'closed') continue
      const { successes, failures } = counts(breaker, now, rules)
      const { ok, bad } = reference.counts(now)
      assert.deepEqual({ successes, failures }, { successes: ok, failures: bad }, `${step}: counts`)
    }
  },
}
