import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exceedsJsonLimits } from './json-limits.ts'

const long = `"x":"${'x'.repeat(200_000)}"`
const members = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')

for (const [name, text, message] of [
  ['a long text', `{${long}}`, null],
  ['64 levels', `{${long},"y":${'['.repeat(63)}1${']'.repeat(63)}}`, null],
  ['66 levels', `{${long},"y":${'['.repeat(65)}1${']'.repeat(65)}}`, /64 levels/],
  ['opening brackets alone', '['.repeat(200_000), /64 levels/],
  ['many objects of few members', `{${long},"y":[${'{"a":1},'.repeat(50_000)}1]}`, null],
  ['an object of 9 000 members', `{${long},"y":{${members(9_000)}}}`, null],
  ['an object of 11 000 members', `{${long},"y":{${members(11_000)}}}`, /10000 members/],
  ['150 000 members in total', `{${long},"y":[${'{"a":1,"b":2},'.repeat(74_000)}1]}`, null],
  ['more members in total', `{${long},"y":[${'{"a":1,"b":2},'.repeat(76_000)}1]}`, /150000 members in all/],
  ['colons and brackets within strings', `{"x":"${'[{:'.repeat(100_000)}"}`, null],
  ['escaped quotes', `{"x":"${'\\":[{'.repeat(50_000)}"}`, null],
  ['an unterminated string', `{"x":"${'[{:'.repeat(100_000)}`, null],
  ['closing brackets alone', '}]'.repeat(100_000), null],
  ['a small text is not checked', '['.repeat(100), null],
] as const)
  test(`json limits: ${name}`, () => {
    const found = exceedsJsonLimits(text)
    if (message === null) assert.equal(found, null)
    else assert.match(found?.message ?? '', message)
  })
