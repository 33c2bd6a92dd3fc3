import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { encodeCursor } from './cursor.ts'
import {
  EXPORT_PARAMETERS,
  LANES_PARAMETERS,
  REQUESTS_PARAMETERS,
  rangeOf,
  SUMMARY_PARAMETERS,
  USAGE_PARAMETERS,
} from './parameters.ts'

const SCHEMAS = { USAGE_PARAMETERS, REQUESTS_PARAMETERS, SUMMARY_PARAMETERS, EXPORT_PARAMETERS, LANES_PARAMETERS }

test('parameters: usage', () => {
  assert.deepEqual(USAGE_PARAMETERS.parse({}), {
    by: [],
    bucket: 'day',
    tz: null,
    limit: 1_000,
    after: null,
    filter: {},
  })
  const after = ['2026-11-22', 'team_a']
  assert.deepEqual(
    USAGE_PARAMETERS.parse({
      from: '2026-11-22',
      to: '2026-11-22T10:30:00+02:00',
      by: 'team,key',
      bucket: 'hour',
      tz: 'Europe/Berlin',
      team: 'team_a',
      model: ['a', 'b'],
      limit: '10',
      after: encodeCursor(after),
    }),
    {
      from: Date.UTC(2026, 10, 22),
      to: Date.UTC(2026, 10, 22, 8, 30),
      by: ['team', 'key'],
      bucket: 'hour',
      tz: 'Europe/Berlin',
      limit: 10,
      after,
      filter: { team: ['team_a'], model: ['a', 'b'] },
    },
  )
  assert.deepEqual(USAGE_PARAMETERS.parse({ by: ['team', 'key,tag'] }).by, ['team', 'key', 'tag'])
})

test('parameters: requests', () => {
  assert.deepEqual(
    REQUESTS_PARAMETERS.parse({
      status: ['404', '5xx'],
      outcome: 'refused',
      tag: 'app:search',
      fell_back: 'true',
      min_ms: '2000',
      min_cost: '0.01',
      q: 'x',
      count: 'true',
      histogram: '60',
      after: encodeCursor([5, 'req_a']),
    }),
    {
      sort: '-received_at',
      limit: 50,
      after: [5, 'req_a'],
      histogram: 60,
      count: true,
      shared: false,
      filter: {
        outcome: ['refused'],
        status: ['404', '5xx'],
        tag: ['app:search'],
        fell_back: true,
        min_ms: 2_000,
        min_cost: 10_000_000,
        q: 'x',
      },
    },
  )
})

const MALFORMED: readonly (readonly [keyof typeof SCHEMAS, object, string, RegExp])[] = [
  ['USAGE_PARAMETERS', { form: '2026-11-22' }, '', /form/],
  ['USAGE_PARAMETERS', { from: 'yesterday' }, 'from', /is not a time\. Write ISO 8601/],
  ['USAGE_PARAMETERS', { from: '2026-11-22T10:00:00' }, 'from', /is not a time/],
  ['USAGE_PARAMETERS', { from: '2026-13-22' }, 'from', /does not exist/],
  ['USAGE_PARAMETERS', { by: 'team,key,model,tag' }, 'by', /more than 3/],
  ['USAGE_PARAMETERS', { by: 'team,team' }, 'by', /twice/],
  ['USAGE_PARAMETERS', { by: 'teams' }, 'by.0', /"team"/],
  ['USAGE_PARAMETERS', { tz: 'Mars' }, 'tz', /not a time zone/],
  ['USAGE_PARAMETERS', { bucket: 'week' }, 'bucket', /"hour"/],
  ['USAGE_PARAMETERS', { limit: '0' }, 'limit', /not between 1 and 10000/],
  ['USAGE_PARAMETERS', { limit: '1e3' }, 'limit', /not a whole number/],
  ['USAGE_PARAMETERS', { after: 'x' }, 'after', /not a cursor/],
  ['REQUESTS_PARAMETERS', { after: encodeCursor(['a', 'b']) }, 'after', /not a cursor/],
  ['REQUESTS_PARAMETERS', { after: encodeCursor([1, 'b', 2]) }, 'after', /not a cursor/],
  ['REQUESTS_PARAMETERS', { sort: 'provider' }, 'sort', /"-cost"/],
  ['REQUESTS_PARAMETERS', { sort: '-cost', after: encodeCursor([1, 'b']) }, 'after', /not a cursor/],
  ['REQUESTS_PARAMETERS', { after: encodeCursor([1, 2, 'b']) }, 'after', /not a cursor/],
  ['REQUESTS_PARAMETERS', { limit: '201' }, 'limit', /not between 1 and 200/],
  ['REQUESTS_PARAMETERS', { status: '4x' }, 'status', /./],
  ['REQUESTS_PARAMETERS', { outcome: ['ok'] }, 'outcome', /./],
  ['REQUESTS_PARAMETERS', { tag: 'search' }, 'tag', /./],
  ['REQUESTS_PARAMETERS', { min_cost: '$5' }, 'min_cost', /not an amount in dollars/],
  ['REQUESTS_PARAMETERS', { q: '' }, 'q', /./],
  ['REQUESTS_PARAMETERS', { team: Array.from({ length: 201 }, () => 'x') }, 'team', /./],
  ['EXPORT_PARAMETERS', { level: 'attempt', q: 'x' }, 'q', /does not filter level=attempt, which has team, key/],
  ['EXPORT_PARAMETERS', { level: 'day', outcome: 'ok' }, 'outcome', /does not filter level=day/],
  ['EXPORT_PARAMETERS', { tag: 'search' }, 'tag', /name:value/],
  ['EXPORT_PARAMETERS', { after: 'x' }, '', /after/],
]

for (const [schema, parameters, path, message] of MALFORMED)
  test(`parameters: ${JSON.stringify(parameters).slice(0, 60)} is refused`, () => {
    const { success, error } = SCHEMAS[schema].safeParse(parameters)
    assert.ok(!success)
    const issue = error.issues.find((one) => message.test(JSON.stringify(one).replaceAll('\\"', '"')))
    assert.equal(issue?.path.join('.'), path, JSON.stringify(error.issues))
  })

test('parameters: exports by level', () => {
  const { filter, level } = EXPORT_PARAMETERS.parse({ level: 'day', tag: 'search', team: 'a' })
  assert.deepEqual([filter, level], [{ team: ['a'], tag: ['search'] }, 'day'])
  assert.deepEqual(EXPORT_PARAMETERS.parse({ level: 'attempt', outcome: 'ok' }).filter, { outcome: ['ok'] })
})

test('parameters: each schema has a JSON Schema of its input', () => {
  for (const schema of Object.values(SCHEMAS)) {
    const { type, properties, additionalProperties } = z.toJSONSchema(schema, { io: 'input' })
    assert.deepEqual([type, additionalProperties], ['object', false])
    assert.ok(properties && 'from' in properties)
  }
})

test('parameters: a range is completed, and must have a length', () => {
  const day = 86_400_000
  assert.deepEqual(rangeOf({}, 'requests', 5 * day), { from: 4 * day, to: 5 * day })
  assert.deepEqual(rangeOf({ from: 50 }, 'usage', 100), { from: 50, to: 100 })
  assert.deepEqual(rangeOf({ to: 2 * day }, 'export', 100), { from: day, to: 2 * day })
  for (const range of [{ from: 100 }, { from: 200 }, { from: 50, to: 50 }, { from: 60, to: 50 }])
    assert.equal(rangeOf(range, 'lanes', 100), null)
})
