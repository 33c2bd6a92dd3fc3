/**
 * Several gateways as one: behind haproxy in turn, with Postgres and Redis, under load of every kind, while each store is
 * stopped, frozen, emptied and moved, and gateways are killed, cut off and replaced. `npm run scenario` runs it in full, with stores
 * away for a minute each; other runs take seconds for each fault. `SCENARIO_AWAY=10` sets the seconds, `SCENARIO_RATE=10` the operations that begin each second, `SCENARIO_BEFORE=PATH` the
 * program (bin/headgate.mjs of another version) that the rolling upgrade replaces by the next version.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { skipBalancer } from '../e2e/support/balancer.ts'
import { isLong } from '../support/lane.ts'
import { skipPostgres } from '../support/postgres.ts'
import { skipRedis } from '../support/redis.ts'
import { EXPECTATIONS, figuresOf } from './checks.ts'
import { ALL, OF_CLUSTER } from './faults.ts'
import { type Course, type Played, play } from './play.ts'

const away = Number(process.env.SCENARIO_AWAY ?? (isLong ? 60 : 2))
/** Short outages are waited for, so that a busy machine, which is as slow, refuses nothing. */
const storeTimeout = away < 10 ? 10_000 : undefined

const COURSES: { readonly [name: string]: Course } = {
  'four gateways, one with two workers': {
    places: ['workers', 'plain', 'plain', 'partition'],
    redis: 'one',
    faults: ALL,
    away,
    storeTimeout,
    before: process.env.SCENARIO_BEFORE,
  },
  'two gateways and a cluster of Redis': {
    places: ['plain', 'plain'],
    redis: 'cluster',
    faults: OF_CLUSTER,
    away,
    storeTimeout,
  },
}

const skip = skipBalancer || skipPostgres || skipRedis

for (const [course, options] of Object.entries(COURSES))
  describe(`scenario: ${course}`, { skip, timeout: 3_600_000 }, () => {
    let played: Played
    before(
      async () => {
        played = await play(options)
      },
      { timeout: 3_600_000 },
    )

    test('load at every fault', (t) => {
      for (const part of played.parts) t.diagnostic(figuresOf(part, played))
      for (const line of played.takenOut.split('\n').filter((each) => each.includes('DOWN'))) t.diagnostic(line)
      for (const { name, begun, ended } of played.parts)
        assert.ok(
          played.exchanges.some((each) => each.begun >= begun && each.begun < ended),
          name,
        )
    })

    for (const { name, fault, check, pending } of EXPECTATIONS)
      if (fault === undefined || options.faults.includes(fault))
        test(name, (t) => {
          const problems = check(played)
          if (pending === undefined) return assert.deepEqual(problems.slice(0, 5), [], `${problems.length} problems`)
          t.skip(
            `${pending}: ${problems.length === 0 ? 'holds in this run' : `${problems.length}, first ${problems[0]}`}`,
          )
        })
  })
