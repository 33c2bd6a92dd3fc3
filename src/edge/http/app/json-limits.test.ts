import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exceedsJsonLimits } from './json-limits.ts'

const long = `"x":"${'x'.repeat(200_000)}"`
const members = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')

for (const [name, text, says] of [
  ['a long text', `{${long}}`, null],
  ['64 levels', `{${long},"y":${'['.repeat(63)}1${']'.repeat(63)}}`, null],
  ['66 levels', `{${long},"y":${'['.repeat(65)}1${']'.repeat(65)}}`, /64 levels/],
  ['an opening without end', '['.repeat(200_000), /64 levels/],
  ['many objects of few members', `{${long},"y":[${'{"a":1},'.repeat(50_000)}1]}`, null],
  ['an object of 9 000 members', `{${long},"y":{${members(9_000)}}}`, null],
  ['an object of 11 000 members', `{${long},"y":{${members(11_000)}}}`, /10000 members/],
  ['150 000 members in all', `{${long},"y":[${'{"a":1,"b":2},'.repeat(74_000)}1]}`, null],
  ['more members in all', `{${long},"y":[${'{"a":1,"b":2},'.repeat(76_000)}1]}`, /150000 members in all/],
  ['colons and brackets within texts', `{"x":"${'[{:'.repeat(100_000)}"}`, null],
  ['quotes that are escaped', `{"x":"${'\\":[{'.repeat(50_000)}"}`, null],
  ['a text without end', `{"x":"${'[{:'.repeat(100_000)}`, null],
  ['closings of nothing', '}]'.repeat(100_000), null],
  ['what is small is not looked at', '['.repeat(100), null],
] as const)
  test(`dear: ${name}`, () => {
    const found = exceedsJsonLimits(text)
    if (says === null) assert.equal(found, null)
    else assert.match(found?.message ?? '', says)
  })
