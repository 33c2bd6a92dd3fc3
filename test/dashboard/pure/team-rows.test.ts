import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  costChange,
  failingShare,
  type ListedTeam,
  refusedShare,
  sortedTeams,
  type TeamSources,
  teamRows,
} from '../../../dashboard/src/team-rows.ts'
import type { UsageRow } from '../../../dashboard/src/usage-figures.ts'

const use = (team: string | null, members: Partial<UsageRow> = {}): UsageRow => ({
  team,
  requests: 10,
  failed: 0,
  refused: 0,
  attempts: 10,
  input: 1,
  output: 1,
  cache_read: 0,
  unpriced: 0,
  cost: '1.000000000',
  saved: '0.000000000',
  lost: '0.000000000',
  ...members,
})
// The rows read these members only.
const team = (id: string, name: string, keys = 1) => ({ id, name, keys, status: 'active' }) as ListedTeam
const sources = (members: Partial<TeamSources>): TeamSources => ({
  teams: [team('a', 'alpha', 3), team('b', 'beta')],
  rows: [],
  names: {},
  before: null,
  trend: null,
  trendDays: ['2026-11-21', '2026-11-22'],
  budgets: new Map(),
  ends: undefined,
  none: 'no team',
  ...members,
})

test('teams without use, use of deleted teams and use without a team each have a row', () => {
  const rows = teamRows(
    sources({
      rows: [use('a'), use('gone'), use(null)],
      names: { gone: 'former' },
      before: [use('a', { cost: '0.500000000' })],
      trend: [use('a', { start: '2026-11-22', cost: '0.250000000' })],
    }),
  )
  assert.deepEqual(
    rows.map(({ id, name, team, totals, before, days }) => [id, name, team?.keys, totals?.requests, before, days]),
    [
      ['a', 'alpha', 3, 10, '0.500000000', [0, 0.25]],
      ['b', 'beta', 1, undefined, '0', []],
      ['gone', 'former', undefined, 10, '0', []],
      ['', 'no team', undefined, 10, '0', []],
    ],
  )
})

test('failing is apart from refused, and unknown where refusals were not counted', () => {
  const shares = (members: Partial<UsageRow>) => {
    const totals = use('a', members)
    return [failingShare(totals), refusedShare(totals)]
  }
  assert.deepEqual(shares({ failed: 5, refused: 4 }), [0.1, 0.4])
  assert.deepEqual(shares({ failed: 5, refused: null }), [null, null])
  assert.deepEqual(shares({ requests: 0 }), [null, null])
  assert.deepEqual([failingShare(null), refusedShare(null)], [null, null])
})

test('the change of a cost needs a cost before', () => {
  assert.equal(costChange('1.5', '1'), 0.5)
  assert.equal(costChange('1.5', '0'), null)
  assert.equal(costChange('1.5', null), null)
})

test('rows are sorted by any value; unknown ones are last in both directions', () => {
  const rows = teamRows(
    sources({
      teams: [team('a', 'alpha'), team('b', 'beta'), team('c', 'Gamma')],
      rows: [use('b', { cost: '2.000000000', failed: 1 }), use('c', { cost: '0.100000000', refused: null })],
    }),
  )
  const order = (by: string) => sortedTeams(rows, by).map(({ id }) => id)
  assert.deepEqual(order('-spend'), ['b', 'c', 'a'])
  assert.deepEqual(order('spend'), ['a', 'c', 'b'])
  assert.deepEqual(order('-name'), ['c', 'b', 'a'])
  assert.deepEqual(order('-failing'), ['b', 'c', 'a'])
  assert.deepEqual(order('failing'), ['b', 'c', 'a'])
  assert.deepEqual(order('-unknown'), order('-spend'))
})
