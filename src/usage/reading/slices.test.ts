/** Reading in parts: the parts cover the range, and answers whose time is over continue to the same result. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NOON } from '../../../test/support/ledger-records.ts'
import { fillLedger, usageLedger } from '../../../test/support/usage-ledger.ts'
import type { Outcome } from '../../core/failure.ts'
import { slicesOf } from '../columns/time-slices.ts'
import { decodeCursor } from './cursor.ts'
import type { RequestEntry, RequestsPage, RequestsQuery, TimeRange } from './queries.ts'
import { readNewest } from './slices.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

const succeeded = <T>(result: Outcome<T>): T => (result.ok ? result.value : assert.fail(result.failure.message))

/** `takes`: ms of a statement, by the width of its part. */
const slices = async (range: TimeRange, direction: Parameters<typeof slicesOf>[2], takes: (ms: number) => number) => {
  let now = 0
  let turns = 0
  const reads = { time: () => now, turn: async () => void turns++ }
  const found: TimeRange[] = []
  for await (const slice of slicesOf(reads, range, direction)) {
    found.push(slice)
    now += takes(slice.to - slice.from)
  }
  assert.equal(turns, Math.max(0, found.length - 1), 'others run between two parts')
  return found
}

for (const direction of ['newest first', 'oldest first'] as const)
  for (const [name, takes] of [
    ['fast', () => 0],
    ['slow', () => 1_000],
    ['dense', (ms: number) => ms / 10_000],
  ] as const)
    test(`slices: the parts of a range cover it, ${direction}, where statements are ${name}`, async () => {
      const range = { from: NOON - (name === 'slow' ? HOUR : 30 * DAY), to: NOON }
      const found = await slices(range, direction, takes)
      const inOrder = direction === 'newest first' ? found.toReversed() : found
      assert.equal(inOrder[0]?.from, range.from)
      assert.equal(inOrder.at(-1)?.to, range.to)
      for (const [index, { from, to }] of inOrder.entries()) {
        assert.ok(from < to)
        if (index > 0) assert.equal(from, inOrder[index - 1]?.to)
      }
      if (name === 'fast') assert.ok(found.length <= 6, `${found.length} parts`)
      if (name === 'dense') assert.ok(found.every((one) => takes(one.to - one.from) <= 16 * 80))
    })

test('slices: an empty range has no parts', async () => {
  assert.deepEqual(await slices({ from: NOON, to: NOON }, 'newest first', () => 0), [])
})

test('slices: buckets are read from the newest on, until the time is over', async () => {
  const buckets = [0, 1, 2, 3].map((hour) => ({ from: hour * HOUR, to: (hour + 1) * HOUR }))
  const readAll = async (most: number) => {
    let read = 0
    const reads = { isOver: () => read >= most, turn: async () => {} }
    return readNewest(reads, buckets, async ({ from }) => {
      read++
      return from / HOUR
    })
  }
  const part = await readAll(2)
  assert.deepEqual([part.buckets.map(({ value }) => value), part.searchedUntil], [[2, 3], 2 * HOUR])
  const none = await readAll(0)
  assert.deepEqual([none.buckets.map(({ value }) => value), none.searchedUntil], [[3], 3 * HOUR])
  const all = await readAll(4)
  assert.deepEqual([all.buckets.map(({ value }) => value), all.searchedUntil], [[0, 1, 2, 3], null])
})

const QUERY: RequestsQuery = {
  from: NOON - 3 * DAY,
  to: NOON,
  filter: { key: ['key_7'] },
  limit: 4,
  after: null,
  histogram: null,
  count: false,
}

/** A ledger whose answers end after their first part. */
const hurriedLedger = async (options: { readonly within?: number } = {}) => {
  const ledger = usageLedger({ now: NOON, within: 0, ...options })
  await ledger.store([])
  fillLedger(ledger.folder, { count: 6_000, end: NOON, days: 3 })
  return ledger
}

/** All pages, and how many of them ended because their time was over. */
const pagesOf = async (ledger: Awaited<ReturnType<typeof hurriedLedger>>, query: RequestsQuery) => {
  const rows: RequestEntry[] = []
  let [after, ended]: [RequestsQuery['after'], number] = [null, 0]
  do {
    const page: RequestsPage = succeeded(await ledger.reader.requests({ ...query, after }))
    rows.push(...page.data)
    if (page.searched_until !== null) ended++
    assert.ok(page.searched_until === null || page.data.length <= query.limit)
    assert.equal(page.has_more, page.next !== null)
    after = page.next === null ? null : (decodeCursor(page.next) ?? assert.fail(page.next))
  } while (after !== null)
  return { ids: rows.map(({ id }) => id), ended }
}

test('slices: a list whose time is over continues with its cursor, and has each request once in its order', async () => {
  await using ledger = await hurriedLedger()
  const expected = ledger.all("SELECT id FROM request WHERE key = 'key_7' ORDER BY received DESC, id DESC")
  const ids = expected.map(({ id }) => String(id))
  assert.equal(ids.length, 12)
  const newest = await pagesOf(ledger, QUERY)
  assert.deepEqual(newest.ids, ids)
  assert.ok(newest.ended > 1)
  const oldest = await pagesOf(ledger, { ...QUERY, sort: 'received_at' })
  assert.deepEqual(oldest.ids, ids.toReversed())
  assert.ok(oldest.ended > 1)
  const none = await pagesOf(ledger, { ...QUERY, filter: { q: 'is not found' } })
  assert.deepEqual(none.ids, [])
})

test('slices: a list sorted by a value states the part that it is of, and its pages are of the same part', async () => {
  await using ledger = await hurriedLedger()
  const sorted: RequestsQuery = { ...QUERY, filter: {}, sort: '-total_ms', limit: 1 }
  const first = succeeded(await ledger.reader.requests(sorted))
  assert.equal(first.searched_until, new Date(NOON - 300_000).toISOString())
  const { ids } = await pagesOf(ledger, sorted)
  const newest = ledger.all(
    `SELECT id FROM request WHERE received >= ${NOON - 300_000} ORDER BY total_ms DESC, received DESC, id DESC`,
  )
  assert.deepEqual(
    ids,
    newest.map(({ id }) => id),
  )
})

test('slices: a list sorted by a value has the rows of all parts in one order', async () => {
  await using ledger = await hurriedLedger({ within: 60_000 })
  for (const sort of ['-total_ms', 'total_ms', '-cost', 'first_content_ms'] as const) {
    const [column, order] = sort.startsWith('-') ? [sort.slice(1), 'DESC'] : [sort, 'ASC']
    const { ids, ended } = await pagesOf(ledger, { ...QUERY, sort, limit: 5 })
    const all = ledger.all(
      `SELECT id FROM request WHERE key = 'key_7' ORDER BY ${column} ${order}, received ${order}, id ${order}`,
    )
    assert.deepEqual([ids, ended], [all.map(({ id }) => id), 0], sort)
  }
})

test('slices: counts and histograms whose time is over state what they have of it', async () => {
  await using ledger = await hurriedLedger()
  const query = { ...QUERY, count: true, histogram: 30, limit: 1 }
  const hurried = succeeded(await ledger.reader.requests(query))
  assert.deepEqual(hurried.count?.exact, false)
  assert.equal(hurried.histogram?.data.length, 1)
  assert.equal(hurried.histogram?.searched_until, hurried.histogram?.data[0]?.start)
  const summary = succeeded(await ledger.reader.summary({ ...QUERY, compare: true }))
  assert.equal(summary.searched_until, summary.series[0]?.start)
  assert.equal(summary.before, null)
  await using patient = await hurriedLedger({ within: 60_000 })
  const whole = succeeded(await patient.reader.requests(query))
  assert.deepEqual([whole.count, whole.histogram?.searched_until], [{ value: 12, exact: true }, null])
})

test('slices: an export of a rare key ends its pages by time, and has each request once', async () => {
  await using ledger = await hurriedLedger()
  for (const level of ['request', 'attempt'] as const) {
    const source = ledger.reader.export({ ...QUERY, level, format: 'jsonl' })
    let text = ''
    for (let part = succeeded(await source.read()); part !== null; part = succeeded(await source.read())) text += part
    const ids = text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    assert.equal(new Set(ids.map(({ id, request }) => id ?? request)).size, 12, level)
    assert.equal(ids.length, 12, level)
  }
})

test('slices: statements read only their part of the requests', async () => {
  await using ledger = await hurriedLedger()
  const plan = ledger.all(`EXPLAIN QUERY PLAN SELECT * FROM request WHERE received >= 1 AND received < 2
    AND (received, id) < (2, 'a') AND key = 'key_7' ORDER BY received DESC, id DESC LIMIT 4`)
  assert.match(JSON.stringify(plan), /SEARCH request USING PRIMARY KEY \(received>\? AND received<\?\)/)
  assert.doesNotMatch(JSON.stringify(plan), /TEMP B-TREE/)
})
