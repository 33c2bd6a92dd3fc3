import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskPath, type OwnKeys } from './mask-path.ts'

const KEYS = ['team-a', 'long-key-of-ours', 'q7Zr/8sT+u/Vw==', '/edge']
const ownKeys: OwnKeys = { has: (text) => KEYS.includes(text), slashes: [1, 2] }

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
  ['/v1/q7Zr/8sT+u/Vw==/chat/completions', false, '/v1/[key]/chat/completions'],
  ['/q7Zr/8sT+u/Vw==', false, '/[key]'],
  ['/v1/models/q7Zr/8sT+u/Vw==', true, '/v1/models/[key]'],
  ['/v1/Bearer%20q7Zr/8sT%2Bu/Vw==/models', false, '/v1/[key]/models'],
  ['/v1/key=q7Zr/8sT+u/Vw==', false, '/v1/[key]'],
  ['/v1//edge/models', false, '/v1/[key]/models'],
  ['/q7Zr/8sT+u', false, '/q7Zr/8sT+u'],
  ['/v1/sk-proj-0123456789ab/Cdef0123/4567/chat/completions', false, '/v1/[key]/chat/completions'],
  ['/v1/sk-Ab3/dEf45678/ghI9=/v1beta/models', false, '/v1/[key]/v1beta/models'],
  ['/v1/sk-0123+56789abc', false, '/v1/[key]'],
  ['/4f8a9c0b1d2e3f4a5b6c7d8e9f/Ab+9=/v1', false, '/[key]/v1'],
  ['/sk-Ab3/models/gpt-5', false, '/sk-Ab3/models/gpt-5'],
  ['/v1/models/meta-llama/Llama-3.3-70B-Instruct', true, '/v1/models/meta-llama/Llama-3.3-70B-Instruct'],
  ['/v1/chat;key=sk-proj-0123456789abcdef/completions', false, '/v1/[key]/completions'],
  ['/v1/sk%252Dproj%252D0123456789abcdef/chat', false, '/v1/[key]/chat'],
  ['/v1/team%25252Da/chat', false, '/v1/[key]/chat'],
  ['/v1/chat%3Fkey=sk-proj-0123456789abcdef', false, '/v1/[key]'],
  ['/v1/x:sk-proj-0123456789abcdef', false, '/v1/[key]'],
  ['/v1/"sk-proj-0123456789abcdef"', false, '/v1/[key]'],
  ['/v1/%22sk-proj-0123456789abcdef%22', false, '/v1/[key]'],
  ['/v1/%zzsk-proj-0123456789abcdef', false, '/v1/[key]'],
  ['/v1/models/%00sk-proj-0123456789abcdef%0a', true, '/v1/models/[key]'],
  ['/v1/a,sk-proj-0123456789abcdef,b', false, '/v1/[key]'],
  ['/v1/a=b=sk-proj-0123456789abcdef', false, '/v1/[key]'],
  ['/v1/a,long-key-of-ours,b', false, '/v1/[key]'],
  [`/v1/${'part-of-8,'.repeat(20).slice(0, -1)}`, false, `/v1/${'part-of-8,'.repeat(20).slice(0, -1)}`],
  [`/v1/${Array.from({ length: 20 }, (_, n) => `part-no-${n}`).join(',')}`, false, '/v1/[key]'],
  ['/', false, '/'],
  ['', false, ''],
]
const many = (count: number): string => '/a'.repeat(count)

test('mask path: only the first segments of a very long path are compared and shown', () => {
  let compared = 0
  const masked = maskPath(
    `${many(4_000)}/team-a`,
    {
      has() {
        compared++
        return false
      },
      slashes: [],
    },
    false,
  )
  assert.equal(masked, `${many(31)}/…`)
  assert.ok(compared <= 64, `${compared} comparisons`)
})

for (const [path, known, expected] of cases)
  test(`mask path: ${path}`, () => assert.equal(maskPath(path, ownKeys, known), expected))
