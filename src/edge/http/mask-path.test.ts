import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskPath } from './mask-path.ts'

const isClientKey = (segment: string): boolean => segment === 'team-a'

const cases: readonly (readonly [path: string, known: boolean, expected: string])[] = [
  ['/v1/chat/completions', true, '/v1/chat/completions'],
  ['/v1/sk-proj-0123456789abcdef/chat/completions', false, '/v1/[key]/chat/completions'],
  ['/gsk_0123456789abcdef', false, '/[key]'],
  ['/AIzaSyA0123456789abcdef/models', false, '/[key]/models'],
  ['/team-a/v1/chat/completions', false, '/[key]/v1/chat/completions'],
  ['/team%2Da/v1/models', false, '/[key]/v1/models'],
  ['/team-b/v1/models', false, '/team-b/v1/models'],
  ['/v1/Bearer%20sk-0123456789abcdef', false, '/v1/[key]'],
  ['/v1/key=team-a', false, '/v1/[key]'],
  ['/4f8a9c0b1d2e3f4a5b6c7d8e9f/v1', false, '/[key]/v1'],
  ['/v1/responses/resp_4f8a9c0b1d2e3f4a5b6c7d8e9f', true, '/v1/responses/resp_4f8a9c0b1d2e3f4a5b6c7d8e9f'],
  ['/v1/models/sk-0123456789abcdef', true, '/v1/models/[key]'],
  ['/v1/models/claude-sonnet-4-5-20250929', true, '/v1/models/claude-sonnet-4-5-20250929'],
  ['/this-is-a-long-page-name-without-digits', false, '/this-is-a-long-page-name-without-digits'],
  ['/%zz/sk-0123456789abcdef', false, '/%zz/[key]'],
  ['/', false, '/'],
  ['', false, ''],
]
const many = (count: number): string => '/a'.repeat(count)

test('mask path: of a path of thousands of segments only the first are compared and shown', () => {
  let compared = 0
  const masked = maskPath(
    `${many(4_000)}/team-a`,
    () => {
      compared++
      return false
    },
    false,
  )
  assert.equal(masked, `${many(31)}/…`)
  assert.ok(compared <= 64, `${compared} comparisons`)
})

for (const [path, known, expected] of cases)
  test(`mask path: ${path}`, () => assert.equal(maskPath(path, isClientKey, known), expected))
