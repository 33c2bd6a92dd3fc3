import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Json, JsonObject } from '../core/json.ts'
import { schemaSample } from './schema-sample.ts'

const string = { type: 'string' }
const cases: readonly (readonly [name: string, JsonObject, Json])[] = [
  ['a required string', { type: 'object', properties: { city: string }, required: ['city'] }, { city: 'demo' }],
  [
    'only the required members',
    { type: 'object', properties: { a: string, b: string }, required: ['b'] },
    { b: 'demo' },
  ],
  ['all members if none is required', { type: 'object', properties: { a: string } }, { a: 'demo' }],
  ['an enum', { enum: ['celsius', 'fahrenheit'] }, 'celsius'],
  ['a constant', { const: 7 }, 7],
  ['a default', { type: 'integer', default: 3 }, 3],
  ['an integer with bounds', { type: 'integer', minimum: 5, maximum: 9 }, 5],
  ['a number above a bound', { type: 'number', exclusiveMinimum: 0 }, 1],
  ['a multiple', { type: 'integer', minimum: 1, multipleOf: 5 }, 5],
  ['a negative range', { type: 'integer', maximum: -2 }, -2],
  ['a nullable string', { type: ['string', 'null'] }, 'demo'],
  ['a list with a minimum', { type: 'array', items: { type: 'boolean' }, minItems: 2 }, [true, true]],
  ['a tuple', { type: 'array', prefixItems: [string, { type: 'integer' }] }, ['demo', 1]],
  ['the first alternative', { anyOf: [{ type: 'integer' }, string] }, 1],
  ['a string with lengths', { type: 'string', minLength: 6, maxLength: 8 }, 'demo..'],
  ['a short string', { type: 'string', maxLength: 2 }, 'de'],
  ['a date', { type: 'string', format: 'date' }, '2026-01-31'],
  ['no schema', {}, null],
  ['an object without members', { type: 'object' }, {}],
  [
    'a reference and a merge',
    {
      $defs: { name: { type: 'object', properties: { first: string }, required: ['first'] } },
      allOf: [
        { $ref: '#/$defs/name' },
        { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] },
      ],
    },
    { first: 'demo', age: 1 },
  ],
  [
    'a member named like one of every object',
    { type: 'object', properties: { a: string }, required: ['constructor'] },
    { constructor: null },
  ],
]
for (const [name, schema, expected] of cases)
  test(`schema sample: ${name}`, () => {
    const sample = schemaSample(schema)
    assert.deepEqual(sample, expected)
    const ajv = new Ajv2020({ strict: false, formats: { date: true } })
    assert.ok(ajv.validate(schema, sample), JSON.stringify(ajv.errors))
  })

test('schema sample: a recursive schema ends', () => {
  const loop: JsonObject = { $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }
  assert.doesNotThrow(() => schemaSample(loop))
  const tree: JsonObject = { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] }
  assert.ok(JSON.stringify(schemaSample(tree)).length < 1_000)
})

const self: JsonObject = { $ref: '#' }
const names = Array.from({ length: 1_000 }, (_, at) => `name${at}`)
const growing: readonly (readonly [string, JsonObject])[] = [
  ['members', { type: 'object', properties: { a: self, b: self, c: self, d: self }, required: ['a', 'b', 'c', 'd'] }],
  ['items', { type: 'array', items: self, minItems: 64 }],
  ['merges', { allOf: [self, self, self, self] }],
  [
    'merges of many members',
    { $defs: { many: { required: names } }, allOf: names.map(() => ({ $ref: '#/$defs/many' })) },
  ],
]
for (const [name, schema] of growing)
  test(`schema sample: a schema with several recursive references ends: ${name}`, () => {
    assert.ok(JSON.stringify(schemaSample(schema)).length < 2_000_000)
  })
