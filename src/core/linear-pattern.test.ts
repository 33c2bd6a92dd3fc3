import assert from 'node:assert/strict'
import { test } from 'node:test'
import { patternProblem } from './linear-pattern.ts'

for (const pattern of ['EMP-\\d{6}', '[A-Z]{2,4}-[0-9]{1,8}', 'a|b', '(?:ab|cd)[*+?]', 'x?y', '\\*\\+', '[(?=]'])
  test(`the pattern ${pattern} is accepted`, () => assert.equal(patternProblem(pattern), null))

for (const [pattern, problem] of [
  ['', /1 to 300/],
  ['a'.repeat(301), /1 to 300/],
  ['(', /no valid/],
  ['(a+)+$', /limit such as/],
  ['a*', /empty text/],
  ['xa*', /limit such as/],
  ['a{2,}', /limit such as/],
  ['(?:ab){2,3}', /group cannot be repeated/],
  ['(?<=a)b', /\(\?=…\)/],
  ['(a)\\1', /references/],
  ['a{1,200}a{1,200}b', /1000 ways/],
  [`${'(?:a|a)'.repeat(12)}b`, /1000 ways/],
  [`${'a?'.repeat(12)}b`, /1000 ways/],
] as const)
  test(`the pattern ${pattern.slice(0, 40)} is refused`, () => assert.match(patternProblem(pattern) ?? '', problem))
