import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { readBy, readQuery } from './validation.ts'

const limits = z.strictObject({ concurrent: z.int().min(0).nullable().optional() })
const schema = z.strictObject({
  name: z.string().min(1),
  limits: limits.optional(),
  ids: z.array(z.string()).max(3).optional(),
  period: z.enum(['day', 'hour']).optional(),
  choice: z
    .union([
      z.strictObject({ a: z.int() }),
      z.strictObject({ b: z.string() }),
      z.strictObject({ c: z.strictObject({ depth: z.int().optional() }) }),
    ])
    .optional(),
})

const problems = (value: unknown) => {
  const read = readBy(schema, value, 'body')
  return read.ok ? [] : (read.failure.errors ?? [])
}

describe('the problems of a body', () => {
  for (const [what, value, path, message] of [
    ['an unknown member', { name: 'x', limts: {} }, 'limts', /Did you mean "limits"\?/],
    ['an unknown inner member', { name: 'x', limits: { concurent: 1 } }, 'limits.concurent', /"concurrent"/],
    ['a member of a prototype', JSON.parse('{"name":"x","__proto__":{"role":"admin"}}'), '__proto__', /Unknown name/],
    ['a wrong type', { name: 'x', limits: { concurrent: '5' } }, 'limits.concurrent', /^It must be a number\.$/],
    ['a value in a list', { name: 'x', ids: ['a', 3] }, 'ids[1]', /^It must be a text\.$/],
    ['a missing member', {}, 'name', /^It is required: a text\.$/],
    ['an empty text', { name: '' }, 'name', /^It must not be empty\.$/],
    [
      'a number that is too small',
      { name: 'x', limits: { concurrent: -1 } },
      'limits.concurrent',
      /^It must be at least 0\.$/,
    ],
    ['a list that is too long', { name: 'x', ids: ['a', 'b', 'c', 'd'] }, 'ids', /^It must have at most 3 entries\.$/],
    [
      'a value that is no choice',
      { name: 'x', period: 'dya' },
      'period',
      /^It must be one of day, hour\. Did you mean "day"\?$/,
    ],
    ['a choice of another type', { name: 'x', period: 1 }, 'period', /^It must be one of day, hour\.$/],
    ['an unknown member of an alternative', { name: 'x', choice: { a: 1, bb: 1 } }, 'choice.bb', /^Unknown name/],
    ['a value of an alternative', { name: 'x', choice: { b: 1 } }, 'choice.b', /^It must be a text\.$/],
    ['an unknown member within one alternative', { name: 'x', choice: { c: { dept: 1 } } }, 'choice.c.dept', /"depth"/],
    ['a value of no alternative', { name: 'x', choice: 'a' }, 'choice', /./],
    ['a body that is no object', [], '', /^It must be an object\.$/],
    ['a text with control characters as a name', { name: 'x', 'a\u0000b\u202e': 1 }, 'a\u{fffd}b\u{fffd}', /Unknown/],
  ] as const)
    test(`name ${what} by its path`, () => {
      const found = problems(value)
      assert.equal(found.length, 1, JSON.stringify(found))
      assert.equal(found[0]?.path, path)
      assert.match(found[0]?.message ?? '', message)
    })

  test('are limited in number', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`member${at}`, 1]))
    assert.equal(problems({ name: 'x', ...many }).length, 20)
  })

  test('are none for a valid body', () => {
    assert.deepEqual(readBy(schema, { name: 'x', limits: { concurrent: null } }, 'body'), {
      ok: true,
      value: { name: 'x', limits: { concurrent: null } },
    })
  })
})

describe('the parameters of a query', () => {
  const parameters = z.strictObject({
    limit: z.int().min(1).max(200).default(50),
    team: z.array(z.string()).optional(),
    cut: z.boolean().optional(),
    min_cost: z.number().optional(),
    q: z.string().optional(),
  })
  const read = (query: string) => {
    const found = readQuery(parameters, query)
    return found.ok ? found.value : found.failure.errors?.map(({ path }) => path)
  }

  test('have the types of the schema', () => {
    assert.deepEqual(read('limit=7&cut=true&min_cost=0.25&q=7&team=a&team=b'), {
      limit: 7,
      cut: true,
      min_cost: 0.25,
      q: '7',
      team: ['a', 'b'],
    })
  })
  test('have defaults, and a single value of a list is a list', () => {
    assert.deepEqual(read('team=a'), { limit: 50, team: ['a'] })
  })
  for (const [query, path] of [
    ['limit=0', 'limit'],
    ['limit=1e2', 'limit'],
    ['limit=', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['cut=yes', 'cut'],
    ['temas=a', 'temas'],
    ['__proto__=a', '__proto__'],
    ['constructor=a', 'constructor'],
  ] as const)
    test(`"${query}" is refused`, () => assert.deepEqual(read(query), [path]))
  test('are limited in number', () => {
    const found = readQuery(parameters, 'team=a&'.repeat(200))
    assert.ok(!found.ok)
  })
})
