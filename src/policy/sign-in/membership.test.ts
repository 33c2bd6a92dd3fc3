import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RoleRule, TeamRule } from '../../core/sign-in.ts'
import { payingTeam, rolesOf } from './membership.ts'

const ids = new Map([
  ['search', 'team_search'],
  ['team_search', 'team_search'],
  ['default', 'team_default'],
])
const teamOf = (name: string) => ids.get(name)
const role = (given: Partial<RoleRule>): RoleRule => ({
  group: null,
  provider: null,
  role: 'viewer',
  team: null,
  ...given,
})
const team = (given: Partial<TeamRule>): TeamRule => ({ group: null, provider: null, team: 'default', ...given })
const member = (groups: readonly string[], provider = 'okta') => ({ provider, groups })

test('sign-in: all rules that match give their role', () => {
  const rules = [
    role({ group: 'ai-admins', role: 'admin' }),
    role({ group: 'leads', role: 'operator', team: 'search' }),
    role({ role: 'viewer', team: 'search' }),
  ]
  assert.deepEqual(rolesOf(rules, member(['leads']), teamOf), [
    { role: 'operator', team: 'team_search', group: 'leads' },
    { role: 'viewer', team: 'team_search', group: null },
  ])
  assert.equal(rolesOf(rules, member(['ai-admins', 'leads']), teamOf).length, 3)
})

test('sign-in: groups are compared exactly', () => {
  const rules = [role({ group: 'ai-admins', role: 'admin' })]
  for (const name of ['AI-Admins', 'ai-admins ', '/ai-admins', 'ai-admins,x', 'ai-admin'])
    assert.deepEqual(rolesOf(rules, member([name]), teamOf), [])
})

test('sign-in: a rule of one issuer says nothing about people of another', () => {
  const rules = [role({ group: 'ai-admins', role: 'admin', provider: 'okta' })]
  assert.equal(rolesOf(rules, member(['ai-admins']), teamOf).length, 1)
  assert.deepEqual(rolesOf(rules, member(['ai-admins'], 'partners'), teamOf), [])
  assert.equal(payingTeam([team({ provider: 'okta' })], member([], 'partners'), teamOf), undefined)
})

test('sign-in: a role for a team that does not exist is no role, and never one for all teams', () => {
  assert.deepEqual(rolesOf([role({ role: 'admin', team: 'gone' })], member([]), teamOf), [])
})

test('sign-in: the first rule of teams that matches pays', () => {
  const rules = [team({ group: 'search-devs', team: 'search' }), team({ team: 'default' })]
  assert.equal(payingTeam(rules, member(['search-devs']), teamOf), 'team_search')
  assert.equal(payingTeam(rules, member([]), teamOf), 'team_default')
  assert.equal(payingTeam(rules.slice(0, 1), member([]), teamOf), undefined)
  assert.equal(payingTeam([team({ team: 'gone' }), team({})], member([]), teamOf), undefined)
})
