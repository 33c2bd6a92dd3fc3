import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_RULE } from '../../../test/support/guard-rule.ts'
import type { GuardRule } from '../../core/guard.ts'
import { appliedRules } from './applied-rules.ts'

const RULE: GuardRule = { ...NO_RULE, name: 'all', action: 'flag' }
const RULES: readonly GuardRule[] = [
  RULE,
  { ...RULE, name: 'not legal', exceptTeams: ['legal'] },
  { ...RULE, name: 'search', onlyTeams: ['search'] },
  { ...RULE, name: 'fast', onlyRoutes: ['fast'] },
  { ...RULE, name: 'typed', onlyTeams: ['serach'], onlyRoutes: ['fsat'] },
  { ...RULE, name: 'asked', onlyTeams: [] },
  { ...RULE, name: 'optional', optionalTeams: ['search'] },
  { ...RULE, name: 'wörter', optionalTeams: ['*'] },
]

const applied = (team: string, route?: string, header?: string) => {
  const all = RULES.map((rule) => ({ rule }))
  const names = {
    team: (name: string) => ['legal', 'search', 'default'].includes(name),
    route: (name: string) => name === 'fast',
  }
  const found = appliedRules(all, { team, routes: route === undefined ? [] : [route], header }, names)
  return 'kind' in found ? found.message : found.map(({ rule }) => rule.name)
}

const ALWAYS = ['typed', 'optional', 'wörter']
const cases: readonly (readonly [string, ReturnType<typeof applied>, readonly string[]])[] = [
  ['a new team has all rules that state nothing else', applied('new'), ['all', 'not legal', ...ALWAYS]],
  ['a team that is excepted', applied('legal'), ['all', ...ALWAYS]],
  ['a team of its own rule', applied('search'), ['all', 'not legal', 'search', ...ALWAYS]],
  ['a route of its own rule', applied('default', 'fast'), ['all', 'not legal', 'fast', ...ALWAYS]],
  ['another route', applied('default', 'slow'), ['all', 'not legal', ...ALWAYS]],
  [
    'a request that adds rules',
    applied('legal', undefined, '+asked, +not%20legal'),
    ['all', 'not legal', 'typed', 'asked', 'optional', 'wörter'],
  ],
  [
    'a request that leaves out what it may',
    applied('search', undefined, '-optional,-w%C3%B6rter'),
    ['all', 'not legal', 'search', 'typed'],
  ],
]
for (const [name, found, expected] of cases) test(`rules: ${name}`, () => assert.deepEqual(found, expected))

for (const [header, message] of [
  ['-all', 'the team "search" may not leave out the guard "all". Ask the operator for `optionalTeams`'],
  ['-typed', 'the team "search" may not leave out the guard "typed". Ask the operator for `optionalTeams`'],
  ['+asked, -nothing', 'there is no guard "nothing". Leave it out'],
  ['optional', '"optional" has no sign and name. Write +name or -name'],
  ['', '"" has no sign and name. Write +name or -name'],
  ['+', '"+" has no sign and name. Write +name or -name'],
  ['+%', 'there is no guard "%". Leave it out'],
] as const)
  test(`rules: the header ${JSON.stringify(header)} is refused`, () =>
    assert.equal(applied('search', undefined, header), `x-headgate-guards is not valid: ${message}.`))
