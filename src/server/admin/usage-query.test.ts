import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AdminDeps } from './deps.ts'
import { scoped } from './usage-query.ts'

const records = (...entries: readonly (readonly [string, string])[]) =>
  new Map(entries.map(([id, name]) => [id, { id, name }]))
const deps = {
  gateway: { world: { date: () => 1_000_000_000 } },
  control: {
    directory: () => ({
      teams: records(['team_a', 'search'], ['team_b', 'team_a'], ['default', 'default']),
      keys: records(['key_a', 'search-prod']),
    }),
  },
} as unknown as Pick<AdminDeps, 'gateway' | 'control'> // What `scoped` reads.

const cases: readonly (readonly [string, readonly string[], readonly string[] | null, readonly string[] | null])[] = [
  ['a name', ['search'], null, ['team_a']],
  ['an ID that is also a name', ['team_a'], null, ['team_a']],
  ['the ID of a deleted team', ['team_z', 'search'], null, ['team_z', 'team_a']],
  ['no team', [''], null, ['']],
  ['the name of a team of the viewer', ['search'], ['team_a'], ['team_a']],
  ['the name of another team', ['search'], ['team_b'], null],
]
for (const [name, team, teams, expected] of cases)
  test(`usage query: ${name}`, () => {
    const found = scoped(deps, { filter: { team, key: ['search-prod', '4f1a'] } }, 'requests', teams)
    if (expected === null) return assert.ok(!found.ok && found.failure.kind === 'forbidden')
    assert.deepEqual(found.ok && found.value.filter, { team: expected, key: ['key_a', '4f1a'] })
  })
