import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'

const file = (value: string) => `providers:\n  openai:\n    keys: [a]\n    aggregate: ${value}\n`

const cases: readonly (readonly [string, Record<string, string>, string | undefined, true | undefined])[] = [
  ['not set', { OPENAI_API_KEY: 'a' }, undefined, undefined],
  ['the environment', { OPENAI_API_KEY: 'a', OPENAI_AGGREGATE: 'true' }, undefined, true],
  ['the environment, no', { OPENAI_API_KEY: 'a', OPENAI_AGGREGATE: 'false' }, undefined, undefined],
  ['the file', {}, file('true'), true],
  ['the environment before the file', { OPENAI_AGGREGATE: 'false' }, file('true'), undefined],
]
for (const [name, env, yaml, expected] of cases)
  test(`aggregate: ${name}`, () => {
    const [instance] = loaded({ env, ...(yaml !== undefined && { yaml }) }).config.instances
    assert.equal(instance?.aggregate, expected)
  })

test('aggregate: another value is refused with the variable name', () => {
  const problems = lines({ env: { OPENAI_API_KEY: 'a', OPENAI_AGGREGATE: 'yes' } })
  assert.match(problems.join('\n'), /OPENAI_AGGREGATE.*"yes".*true or false/)
})
