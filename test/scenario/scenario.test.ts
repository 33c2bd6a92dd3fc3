/**
 * Four gateways as one: behind haproxy in turn, with Postgres and Redis, under load of every kind, while each store is stopped,
 * frozen, emptied and moved, and gateways are killed, cut off and replaced. `npm run scenario` runs it in full, with stores away
 * for a minute each; other runs take seconds for each fault. `SCENARIO_AWAY=10` sets the seconds, `SCENARIO_BEFORE=PATH` the
 * program (bin/headgate.mjs of another version) that the rolling upgrade replaces.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { skipBalancer } from '../e2e/support/balancer.ts'
import { isLong } from '../support/lane.ts'
import { skipPostgres } from '../support/postgres.ts'
import { skipRedis } from '../support/redis.ts'
import { EXPECTATIONS, figuresOf } from './checks.ts'
import { type Played, play } from './play.ts'

const away = Number(process.env.SCENARIO_AWAY ?? (isLong ? 60 : 2))
const programBefore = process.env.SCENARIO_BEFORE

describe('four gateways as one', { skip: skipBalancer || skipPostgres || skipRedis, timeout: 3_600_000 }, () => {
  let played: Played
  before(
    async () => {
      played = await play({ away, before: programBefore })
    },
    { timeout: 3_600_000 },
  )

  test('the load has met every fault', (t) => {
    for (const part of played.parts) t.diagnostic(figuresOf(part, played))
    assert.ok(
      played.parts.every(({ begun, ended }) =>
        played.exchanges.some((each) => each.begun >= begun && each.begun < ended),
      ),
    )
  })

  for (const { name, check, pending } of EXPECTATIONS)
    test(name, (t) => {
      const problems = check(played)
      if (pending === undefined) return assert.deepEqual(problems.slice(0, 5), [], `${problems.length} problems`)
      t.skip(
        `${pending}: ${problems.length === 0 ? 'holds in this run' : `${problems.length} problems, first ${problems[0]}`}`,
      )
    })
})
