import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accountNameProblem } from './account-name.ts'

for (const name of ['search', 'Search EU', 'alice@example.com', '7-of_9.x+y', 'a', 'x'.repeat(64), 'team_search'])
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
  ['budget-500', /"500"/],
  ['Rate limits', /"Rate limit"/],
  ['overloaded', /"overloaded"/],
] as const
for (const [name, problem] of refused)
  test(`account name: ${JSON.stringify(name.slice(0, 20))} is refused`, () =>
    assert.match(String(accountNameProblem(name)), problem))
