import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accountNameProblem } from './account-name.ts'

const allowed = [
  ...['search', 'Search EU', 'alice@example.com', '7-of_9.x+y', 'a', 'x'.repeat(64), 'team_search'],
  // A status or a reason to retry: numbered keys of a file contain each of them sooner or later.
  ...['key-429', 'key_0500', 'tenant-1503', 'sf-524', 'Rate limits', 'overloaded', 'internal-error'],
]
for (const name of allowed)
  test(`account name: ${name.slice(0, 20)} is allowed`, () => assert.equal(accountNameProblem(name), null))

const refused = [
  ['', /empty/],
  ['   ', /empty/],
  [' a', /other characters/],
  ['a ', /other characters/],
  ['x'.repeat(65), /65 characters \(limit 64\)/],
  ['a\nb', /other characters/],
  ['a\u202eb', /other characters/],
  ['Zürich', /other characters/],
  ['__proto__', /other characters/],
  ['team_abcdefghijkl', /form of an ID/],
] as const
for (const [name, problem] of refused)
  test(`account name: ${JSON.stringify(name.slice(0, 20))} is refused`, () =>
    assert.match(String(accountNameProblem(name)), problem))

for (const name of ['team_abcdefghijklm', 'xteam_abcdefghijkl', 'team_abcdefghijk1'])
  test(`account name: ${name} has no form of an ID`, () => assert.equal(accountNameProblem(name) ?? null, null))
