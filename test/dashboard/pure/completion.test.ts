/** Completion of headgate.yaml, from the schema of the gateway. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completionsAt, type MemberSchema } from '../../../dashboard/src/pages/config/completion.ts'
import { jsonSchemaOf } from '../../../src/config/definition.ts'
import { fileSchema } from '../../../src/config/file-schema.ts'

const SCHEMA = jsonSchemaOf(fileSchema) as MemberSchema

/** The options at `|`, and the text with the first of them. */
const at = (text: string): { readonly names: readonly string[]; readonly first: string } => {
  const caret = text.indexOf('|')
  const before = text.replace('|', '')
  const { from, options } = completionsAt(SCHEMA, before, caret)
  const [first] = options
  return {
    names: options.map(({ name }) => name),
    first: first ? before.slice(0, from) + first.insert + before.slice(caret) : before,
  }
}

const has = (text: string, ...names: readonly string[]) => {
  const found = at(text).names
  for (const name of names) assert.ok(found.includes(name), `${JSON.stringify(text)}: ${name} of ${found.join(' ')}`)
}

test('names of members are completed at each level', () => {
  has('|', 'circuit', 'providers', 'routes', 'strategy')
  assert.deepEqual(at('cir|').names, ['circuit'])
  assert.equal(at('cir|').first, 'circuit:\n  ')
  assert.equal(at('circuit:\n  errorT|').first, 'circuit:\n  errorThreshold: ')
  has('circuit:\n  timeout: 1\n  # a comment\n\n  |', 'errorThreshold', 'timeout')
  has('providers:\n  own:\n    kind: openai\n    |', 'baseUrl', 'keys', 'models')
  has('routes:\n  "a b":\n    str|', 'strategy')
  assert.ok(!at('circuit:\n  timeout: 1\n|').names.includes('errorThreshold'))
  has('circuit:\n  timeout: 1\n|', 'hedge')
})

test('entries of lists are completed, indented or not', () => {
  for (const indent of ['      ', '    ']) {
    has(`routes:\n  a:\n    targets:\n${indent}- |`, 'provider', 'model', 'weight')
    has(`routes:\n  a:\n    targets:\n${indent}- provider: x\n${indent}  m|`, 'model')
    has(`routes:\n  a:\n    targets:\n${indent}- provider: x\n${indent}- w|`, 'weight')
  }
  has('routes:\n  a:\n    targets:\n      - x\n    f|', 'fallback')
  has('prices:\n  - |', 'provider', 'model')
})

test('values are completed where the schema lists them', () => {
  assert.deepEqual(at('strategy: w|').names, ['weighted'])
  assert.equal(at('strategy: w|').first, 'strategy: weighted')
  assert.deepEqual(at('providers:\n  own:\n    aggregate: |').names, ['true', 'false'])
  has('providers:\n  own:\n    styles:\n      - |', 'chat')
  assert.deepEqual(at('circuit:\n  timeout: |').names, [])
})

test('nothing is offered where nothing is known', () => {
  for (const text of ['nothing:\n  |', 'circuit:\n  timeout:\n    |', 'a: b: |', '# cir|', 'providers:\n  |'])
    assert.deepEqual(at(text).names, [], text)
})
