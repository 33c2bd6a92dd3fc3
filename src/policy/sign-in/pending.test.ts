import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findPending, type PendingSignIn, readPending, returnPath, withPending } from './pending.ts'

const pending = (state: string, until = 100): PendingSignIn => ({
  state,
  nonce: 'n',
  verifier: 'v',
  provider: 'okta',
  to: '/dashboard/',
  until,
})
const states = (list: readonly PendingSignIn[]) => list.map(({ state }) => state)

test('sign-in: several tabs of a browser sign in at the same time', () => {
  const two = withPending(withPending([], pending('a'), 0), pending('b'), 0)
  assert.equal(findPending(two, 'a', 1)?.state, 'a')
  assert.equal(findPending(two, 'b', 1)?.state, 'b')
  assert.equal(findPending(two, 'c', 1), undefined)
  assert.equal(findPending(two, '', 1), undefined)
})

test('sign-in: a cookie has three sign-ins at most, and none that are over', () => {
  const four = ['a', 'b', 'c', 'd'].reduce<readonly PendingSignIn[]>(
    (all, one) => withPending(all, pending(one), 0),
    [],
  )
  assert.deepEqual(states(four), ['b', 'c', 'd'])
  assert.equal(findPending(four, 'd', 100), undefined)
  assert.deepEqual(states(withPending(four, pending('e', 200), 100)), ['e'])
})

test('sign-in: a cookie of another version is read as none', () => {
  assert.deepEqual(readPending([pending('a')]), [pending('a')])
  for (const content of [null, {}, 'x', [1], [{ ...pending('a'), nonce: '' }], [{ state: 'a' }]])
    assert.deepEqual(readPending(content), [])
})

test('sign-in: a browser returns to a page of the dashboard', () => {
  for (const path of [
    '/dashboard/',
    '/dashboard/keys',
    '/dashboard/requests?team=search&since=1d#list',
    '/dashboard/a.b/..c',
  ])
    assert.equal(returnPath(path), path)
})

test('sign-in: a browser never returns elsewhere', () => {
  const refused = [
    undefined,
    null,
    '',
    '/',
    '/dashboard',
    '/dashboardx/',
    '//evil.example/dashboard/',
    'https://evil.example/dashboard/',
    'javascript:alert(1)//dashboard/',
    '/\\evil.example',
    '/dashboard//evil.example',
    '/dashboard/\\evil.example',
    '/dashboard/\t/evil.example',
    '/dashboard/\r\nset-cookie: a=b',
    '/dashboard/../oauth/callback',
    '/dashboard/%2e%2E/admin',
    '/dashboard/.%2e?x',
    '/dashboard/é',
    ` /dashboard/`,
    `/dashboard/${'x'.repeat(1_000)}`,
  ]
  for (const path of refused) assert.equal(returnPath(path), '/dashboard/')
})
