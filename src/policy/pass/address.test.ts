import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { ownLocation, passAddress } from './address.ts'
import { matchesPath, parsePathGlob, pathGlobProblem } from './path-globs.ts'
import { trimmedQuery } from './query.ts'
import { pathTemplate } from './template.ts'

const at = (baseUrl: string) => ({ ...instance('up', ['k']), baseUrl })
const UP = at('https://api.example/base/v1')

test('a path below a root is passed on as it is', () => {
  for (const path of [
    '/base/v1',
    '/base/v1/',
    '/base/v1/files/a:b@c,d',
    '/base/v1/a%20b',
    '/base/v1/...',
    '/base/v1/a..b',
  ]) {
    const made = passAddress(UP, { path, query: 'a=%2e%2e%2f&b' })
    assert.equal(made.ok && made.value.url, `https://api.example${path}?a=%2e%2e%2f&b`, path)
  }
})

test('any path of characters that parsers treat differently is refused, or read by `URL` as it is', () => {
  const pieces = [
    '/',
    '.',
    '..',
    '%2e',
    '%2f',
    '%5c',
    '\\',
    ';',
    '//',
    'a',
    '%',
    '%00',
    '#',
    '?',
    '@',
    ':',
    '|',
    '"',
    '<',
    '{',
    '^',
    '`',
    "'",
  ]
  let random = 7
  const next = (below: number) => {
    random = (random * 48_271) % 2_147_483_647
    return random % below
  }
  let passed = 0
  for (let round = 0; round < 100_000; round++) {
    const path = `/base/v1/${Array.from({ length: 1 + next(6) }, () => pieces[next(pieces.length)]).join('')}`
    const made = passAddress(UP, { path, query: '' })
    if (!made.ok) continue
    passed++
    const url = new URL(made.value.url)
    assert.equal(url.origin, 'https://api.example')
    assert.equal(url.pathname, path)
    assert.doesNotMatch(decodeURIComponent(path), /(?:^|\/)\.{1,2}(?:\/|$)|\\|\/\/|%/)
  }
  assert.ok(passed > 1_000, `${passed}`)
})

test('an address in an answer is the own one of the provider, or none', () => {
  const from = 'https://api.example/base/v1/files'
  assert.equal(ownLocation(UP, { to: '/base/v1/a?key=k&x=1', from }), '/base/v1/a?x=1')
  assert.equal(ownLocation(UP, { to: 'b', from }), '/base/v1/b')
  for (const to of [
    'https://api.example:8443/base/v1/a',
    'http://api.example/base/v1/a',
    '//api.example.evil/base/v1/a',
    '/base/v2',
    '../..',
  ])
    assert.equal(ownLocation(UP, { to, from }), null, to)
})

const GLOBS: readonly (readonly [glob: string, path: string, matches: boolean])[] = [
  ['/v1/files/**', '/v1/files', true],
  ['/v1/files/**', '/v1/files/a/content', true],
  ['/v1/files/**', '/v1/filesx', false],
  ['/v1/files/*', '/v1/files/a', true],
  ['/v1/files/*', '/v1/files/a/content', false],
  ['/v1/files/*', '/v1/files/', true],
  ['/v1/*/content', '/v1/a/content', true],
  ['/v1/**/content', '/v1/a/b/content', true],
  ['/v1/**/content', '/v1/content', true],
  ['/v1/**/content', '/v1/a/contents', false],
  ['/v1beta/models/*:generateContent', '/v1beta/models/g:generateContent', true],
  ['/v1beta/models/*:generateContent', '/v1beta/models/g:countTokens', false],
  ['/v1/Files', '/v1/files', false],
  ['/**', '/anything/at/all', true],
]
for (const [glob, path, matches] of GLOBS)
  test(`${glob} ${matches ? 'matches' : 'does not match'} ${path}`, () =>
    assert.equal(matchesPath(parsePathGlob(glob), path), matches))

test('globs that could not match as they look are refused', () => {
  for (const glob of ['v1/files', '/v1/../x', '/v1//x', '/v1/%2e', '/v1/a**', '/v1/a b'])
    assert.notEqual(pathGlobProblem(glob), null, glob)
  assert.equal(pathGlobProblem('/v1/files/**'), null)
})

test('the ledger has no IDs', () => {
  assert.equal(pathTemplate('/v1/files/file-abc123/content'), '/v1/files/{id}/content')
  assert.equal(pathTemplate('/v1/fine_tuning/jobs/ftjob-1/events'), '/v1/fine_tuning/jobs/{id}/events')
  assert.equal(pathTemplate('/v1beta/models/gemini-3:generateContent'), '/v1beta/models/{id}:generateContent')
  assert.equal(pathTemplate('/upload/v1beta/files'), '/upload/v1beta/files')
  assert.equal(pathTemplate('/v1/customers@example.com'), '/v1/{id}')
})

test('credentials are cut from a query in any case and escape', () =>
  assert.equal(trimmedQuery('a=1&key=x&KEY=x&%6bey=x&access_token=x&api-key=x&b'), 'a=1&b'))
