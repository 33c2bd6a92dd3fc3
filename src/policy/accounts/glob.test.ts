import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { matchesGlob, parseGlob } from './glob.ts'

const cases: readonly (readonly [glob: string, name: string, expected: boolean])[] = [
  ['gpt-5', 'gpt-5', true],
  ['gpt-5', 'gpt-5o', false],
  ['gpt-5', '', false],
  ['', '', true],
  ['', 'a', false],
  ['*', '', true],
  ['*', 'openai/gpt-5', true],
  ['**', 'a', true],
  ['openai/*', 'openai/gpt-5', true],
  ['openai/*', 'openai/', true],
  ['openai/*', 'openai', false],
  ['openai/*', 'azure/openai/x', false],
  ['*opus*', 'anthropic/claude-opus-5', true],
  ['*opus*', 'opus', true],
  ['*-mini', 'gpt-5-mini', true],
  ['*-mini', 'gpt-5-mini-2026', false],
  ['a*a', 'a', false],
  ['a*a', 'aa', true],
  ['ab*ba', 'aba', false],
  ['a*b*c', 'a-b-c', true],
  ['a*b*c', 'a-c-b', false],
  ['a*bc*c', 'abc', false],
  ['a*bc*c', 'abcc', true],
  ['gpt.5', 'gpt-5', false],
  ['gpt?', 'gpt5', false],
  ['[a-z]', 'a', false],
  ['GPT-*', 'gpt-5', true],
]
for (const [glob, name, expected] of cases)
  test(`glob: ${glob} ${expected ? 'matches' : 'does not match'} "${name}"`, () =>
    assert.equal(matchesGlob(parseGlob(glob), name), expected))

test('glob: equals a regular expression for generated globs and names', () => {
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '/', '.'), maxLength: 8 })
  const name = fc.string({ unit: fc.constantFrom('a', 'b', '/', '.'), maxLength: 12 })
  fc.assert(
    fc.property(glob, name, (pattern, text) => {
      const escaped = pattern.split('*').map((part) => part.replace(/[./]/g, '\\$&'))
      assert.equal(matchesGlob(parseGlob(pattern), text), new RegExp(`^${escaped.join('.*')}$`).test(text))
    }),
    { numRuns: 5_000 },
  )
})

// With backtracking this would not end.
test('glob: a glob with many stars and a long name are matched in linear time', () => {
  const glob = parseGlob(`${'a*'.repeat(500)}b`)
  assert.equal(matchesGlob(glob, 'a'.repeat(1_000_000)), false)
  assert.equal(matchesGlob(glob, `${'a'.repeat(1_000_000)}b`), true)
})
