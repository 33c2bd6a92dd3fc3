import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shareLeft } from './quota.ts'

const cases: readonly (readonly [string, Readonly<Record<string, string>>, number | undefined])[] = [
  ['nothing said', {}, undefined],
  ['half of the requests', { 'x-ratelimit-limit-requests': '100', 'x-ratelimit-remaining-requests': '50' }, 0.5],
  [
    'the scarcer of two',
    {
      'x-ratelimit-limit-requests': '100',
      'x-ratelimit-remaining-requests': '50',
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '10',
    },
    0.01,
  ],
  ['Anthropic', { 'anthropic-ratelimit-tokens-limit': '400', 'anthropic-ratelimit-tokens-remaining': '400' }, 1],
  ['used up', { 'x-ratelimit-limit-tokens': '10', 'x-ratelimit-remaining-tokens': '0' }, 0],
  ['more left than there is', { 'x-ratelimit-limit-tokens': '10', 'x-ratelimit-remaining-tokens': '20' }, 1],
  ['half a pair', { 'x-ratelimit-remaining-requests': '50' }, undefined],
  ['no numbers', { 'x-ratelimit-limit-requests': '-1', 'x-ratelimit-remaining-requests': 'many' }, undefined],
  ['a limit of nothing', { 'x-ratelimit-limit-requests': '0', 'x-ratelimit-remaining-requests': '0' }, undefined],
]

for (const [name, headers, share] of cases)
  test(`quota: ${name}`, () => {
    assert.equal(
      shareLeft((header) => headers[header]),
      share,
    )
  })
