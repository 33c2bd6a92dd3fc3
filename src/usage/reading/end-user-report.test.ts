import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { usageLedger } from '../../../test/support/usage-ledger.ts'
import type { EndUsersQuery } from './queries.ts'

/** End user, team, outcome and cost of each request. */
const REQUESTS = [
  ['u-1', 'team_a', 'answered', 70],
  ['u-2', 'team_a', 'answered', 500],
  ['u-1', 'team_b', 'refused', 0],
  [null, 'team_a', 'answered', 9_000],
  ['u-3', 'team_b', 'client_gone', 70],
] as const

onEachEngine((engine) => {
  test('end users: requests, failures, tokens and cost, the most expensive first', async () => {
    await using ledger = usageLedger({ now: NOON, engine })
    await ledger.store(
      REQUESTS.flatMap(([endUser, team, outcome, cost], call) => [
        openedRecord(call, { team }),
        closedRecord(call, { cost }),
        endedRecord(call, { endUser, team, outcome }),
      ]),
    )
    const read = async (query: Partial<EndUsersQuery> = {}) => {
      const found = await ledger.reader.endUsers({ from: NOON, to: NOON + 1_000, filter: {}, limit: 10, ...query })
      assert.ok(found.ok)
      return found.value
    }
    const all = await read()
    assert.deepEqual(
      all.data.map((row) => [row.end_user, row.requests, row.failed, row.input, row.output, row.cost]),
      [
        ['u-2', 1, 0, 10, 5, '0.000000500'],
        ['u-1', 2, 1, 20, 10, '0.000000070'],
        ['u-3', 1, 0, 10, 5, '0.000000070'],
      ],
    )
    assert.deepEqual(
      all.data.map(({ last_at }) => Date.parse(last_at) - NOON),
      [1, 2, 4],
    )
    assert.deepEqual([all.has_more, all.is_complete, all.from], [false, true, new Date(NOON).toISOString()])
    const users = async (query: Partial<EndUsersQuery>) => (await read(query)).data.map(({ end_user }) => end_user)
    assert.deepEqual(await users({ filter: { team: ['team_b'] } }), ['u-3', 'u-1'])
    assert.deepEqual(await users({ from: NOON + 2 }), ['u-3', 'u-1'])
    assert.equal((await read({ limit: 2 })).has_more, true)
  })
})
