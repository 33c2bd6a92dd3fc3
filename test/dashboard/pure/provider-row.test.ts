import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { changeDetail, changeTitle, isMarked, isProbe } from '../../../dashboard/src/change-text.ts'
import {
  changesOf,
  type ListedChange,
  type ListedProvider,
  percentAt,
  rowsOf,
  sortedRows,
  spansOf,
  stripOf,
} from '../../../dashboard/src/provider-row.ts'

const MINUTE = 60_000
const NOON = Date.parse('2026-11-23T12:00:00Z')
const RANGE = { from: NOON, to: NOON + 60 * MINUTE }
const iso = (minutes: number): string => new Date(NOON + minutes * MINUTE).toISOString()

const provider = (id: string, more: Partial<ListedProvider> = {}): ListedProvider => ({
  id,
  node: null,
  kind: 'openai',
  status: 'available',
  circuit: { state: 'closed', failures: 0, successes: 3, opened_at: null, retry_at: null },
  resting: null,
  endpoint: { status: 'available' },
  keys: [{ id: 'a1f3', status: 'active', in_flight: 2, requests: 3, until: null }],
  models: [],
  latency_ms: { first_content_p50: null, first_content_p95: null },
  last_error: null,
  ...more,
})
const open = { state: 'open', failures: 5, successes: 0, opened_at: iso(1), retry_at: iso(6) } as const

const change = (minutes: number, action: string, more: Partial<ListedChange> = {}): ListedChange => ({
  id: `${action}-${minutes}`,
  at: iso(minutes),
  kind: 'circuit',
  action,
  object: { id: 'groq', name: null },
  providers: ['groq'],
  credential: null,
  model: 'llama',
  actor: null,
  details: [],
  request: null,
  node: null,
  ...more,
})

const activity = (cells: readonly (readonly [minute: number, attempts: number, failed: number])[]) => ({
  provider: 'groq',
  attempts: cells.reduce((sum, [, attempts]) => sum + attempts, 0),
  failed: cells.reduce((sum, [, , failed]) => sum + failed, 0),
  limited: 0,
  p50_ms: 10,
  p95_ms: 20,
  first_content_p50_ms: 5,
  histogram: [],
  errors: [],
  cells: cells.map(([minute, attempts, failed]) => ({
    start: iso(minute),
    attempts,
    failed,
    limited: 0,
    slowest_ms: 15,
  })),
})

test('rows: trouble first, then in configured order; the worst process decides', () => {
  const rows = rowsOf(
    [
      provider('a'),
      provider('b'),
      provider('c', { resting: { until: iso(9), reason: '' } }),
      provider('d', { keys: [{ id: 'x', status: 'suspended', in_flight: 0, requests: 1, until: null }] }),
      { ...provider('b', { circuit: open }), node: '2/2' },
    ],
    [],
  )
  assert.deepEqual(
    rows.map(({ id, state }) => [id, state]),
    [
      ['b', 'open'],
      ['d', 'keyless'],
      ['c', 'resting'],
      ['a', 'closed'],
    ],
  )
  const [b] = rows
  assert.deepEqual([b?.processes, b?.inFlight, b?.until], [{ here: 1, of: 2 }, 4, NOON + 6 * MINUTE])
  assert.equal(sortedRows(rows, 'provider')[0]?.id, 'a')
  assert.equal(sortedRows(rows, '-provider')[0]?.id, 'd')
  assert.deepEqual(sortedRows(rows, 'strange'), rows)
})

test('spans: from one transition to the next, also before the first and after the last', () => {
  const states = (changes: readonly ListedChange[]) =>
    spansOf(changes, RANGE).map(({ from, to, state }) => [(from - NOON) / MINUTE, (to - NOON) / MINUTE, state])
  assert.deepEqual(
    states([
      change(30, 'circuit.closed', { details: ['half_open → closed'] }),
      change(10, 'circuit.open', { details: ['closed → open', 'timeout'] }),
      change(20, 'circuit.half_open', { details: ['open → half_open'] }),
    ]),
    [
      [10, 20, 'open'],
      [20, 30, 'half_open'],
    ],
  )
  assert.deepEqual(states([change(5, 'circuit.closed', { details: ['open → closed'] })]), [[0, 5, 'open']])
  assert.deepEqual(states([change(50, 'circuit.open', { details: ['closed → open'] })]), [[50, 60, 'open']])
  assert.deepEqual(states([]), [])
})

test('spans never overlap and stay in the range', () => {
  const actions = fc.constantFrom('circuit.open', 'circuit.half_open', 'circuit.closed')
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 59 }), actions)), (given) => {
      const spans = spansOf(
        given.map(([minute, action]) => change(minute, action)),
        RANGE,
      )
      let end = RANGE.from
      for (const { from, to } of spans) {
        assert.ok(from >= end && to >= from && to <= RANGE.to)
        end = to
      }
    }),
  )
})

test('lanes have their own changes, and those of their model', () => {
  const all = [
    change(1, 'circuit.open', { model: null }),
    change(2, 'circuit.open', { credential: 'a1f3' }),
    change(3, 'circuit.open'),
    change(4, 'credential.suspended', { kind: 'credential', credential: 'a1f3', model: null }),
    change(5, 'circuit.open', { providers: ['other'] }),
  ]
  const minutes = (credential: string | null, model: string | null) =>
    changesOf(all, { provider: 'groq', credential, model }).map(({ at }) => (Date.parse(at) - NOON) / MINUTE)
  assert.deepEqual(minutes(null, null), [1])
  assert.deepEqual(minutes('a1f3', 'llama'), [2, 3, 4])
  assert.deepEqual(minutes('b2', 'llama'), [3])
  assert.deepEqual(minutes('a1f3', 'mixtral'), [4])
})

test('strips: one cell a minute, the worst is shown, silence while open is a line', () => {
  const closedOff = [{ from: NOON + 30 * MINUTE, to: NOON + 40 * MINUTE, state: 'open', why: null }]
  const cells = stripOf(
    activity([
      [10, 4, 0],
      [29, 8, 3],
      [35, 1, 0],
    ]),
    { range: RANGE, seconds: 60, closedOff },
  )
  assert.equal(cells.length, 60)
  const at = (minute: number) => cells.find(({ start }) => start === NOON + minute * MINUTE)
  assert.deepEqual([at(0)?.fill, at(10)?.fill, at(10)?.height], ['none', 'answered', 0.5])
  assert.deepEqual([at(29)?.fill, at(31)?.fill, at(35)?.fill], ['failed', 'open', 'answered'])
  assert.equal(
    stripOf(null, { range: { from: NOON + 1, to: NOON + 60 * MINUTE + 1 }, seconds: 60, closedOff: [] }).length,
    60,
  )
})

test('positions are percents of the range', () => {
  assert.deepEqual(
    [NOON - 1, NOON, NOON + 30 * MINUTE, NOON + 90 * MINUTE].map((time) => percentAt(time, RANGE)),
    [0, 0, 50, 100],
  )
})

test('changes as text', () => {
  const opened = change(1, 'circuit.open', { credential: '9f21', details: ['closed → open', 'no_first_content'] })
  assert.equal(changeTitle(opened), 'groq · key 9f21 · llama: circuit opened')
  assert.equal(changeDetail(opened), 'no first content')
  const actor = { kind: 'token', name: 'admin' }
  assert.equal(changeTitle(change(1, 'circuit.open', { model: null, actor })), 'groq: rests by admin')
  const made = change(1, 'key.create', { kind: 'account', object: { id: 'key_1', name: 'ci' }, providers: [], actor })
  assert.equal(changeTitle(made), 'Key ci created by admin')
})

test('of an outage, lists show its begin and its end, and charts no marks: they have a band', () => {
  const outage = [
    change(1, 'circuit.open', { details: ['closed → open', 'timeout'] }),
    change(2, 'circuit.half_open', { details: ['open → half_open', 'time to probe'] }),
    change(3, 'circuit.open', { details: ['half_open → open', 'timeout'] }),
    change(4, 'circuit.half_open', { details: ['open → half_open', 'time to probe'] }),
    change(5, 'circuit.closed', { details: ['half_open → closed', 'an answer came'] }),
  ]
  assert.deepEqual(
    outage.filter((one) => !isProbe(one)).map(({ action }) => action),
    ['circuit.open', 'circuit.closed'],
  )
  assert.equal(outage.filter(isMarked).length, 0)
})
