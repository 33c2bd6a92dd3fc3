import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  changedOnce,
  closedRecord,
  endedRecord,
  filledClosed,
  filledEnded,
  filledOpened,
  NOON,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import { type JournalRecord, NO_TOKENS } from '../../core/journal.ts'
import { type LedgerBatch, LedgerFold } from './fold.ts'

const PROCESS = 'a.1-0'
const given = () =>
  new LedgerFold({ node: 'n1', dayOf: (at) => new Date(at).toISOString().slice(0, 10), callOffset: 0 })
const folded = (records: readonly JournalRecord[], fold = given()): LedgerBatch => {
  for (const record of records) fold.add(record, PROCESS)
  return fold.take()
}
const rowsOf = (batch: LedgerBatch) => [...batch.attempts].map(({ row, isComplete }) => ({ ...row, isComplete }))

test('fold: an answered request is one attempt, one request, one sum of the budget', () => {
  const batch = folded([openedRecord(1), closedRecord(1), endedRecord(1)])
  assert.deepEqual(
    rowsOf(batch).map(({ request, n, outcome, cost, input, output, isComplete, ended }) => [
      request,
      n,
      outcome,
      cost,
      input,
      output,
      isComplete,
      ended,
    ]),
    [['req_1', 0, 'ok', 70, 10, 5, true, NOON + 101]],
  )
  assert.deepEqual(
    batch.requests.map(({ id, attempts, cost, input, usage_source, total_ms, node }) => [
      id,
      attempts,
      cost,
      input,
      usage_source,
      total_ms,
      node,
    ]),
    [['req_1', 1, 70, 10, 'exact', 110, 'n1']],
  )
  assert.deepEqual(batch.sums, [{ counter: 'bud_a', period_start: NOON, node: 'n1', process: PROCESS, spent: 70 }])
  assert.deepEqual(
    batch.hours.map(({ period, outcome, requests, attempts, cost }) => [period, outcome, requests, attempts, cost]),
    [
      [NOON, 'ok', 0, 1, 70],
      [NOON, 'answered', 1, 0, 0],
    ],
  )
  assert.deepEqual(
    batch.days.map(({ period }) => period),
    ['2026-11-22', '2026-11-22'],
  )
  assert.ok(batch.facets.some(({ name, value }) => name === 'model' && value === 'gpt-5-mini'))
})

test('fold: each attempt of a fallback costs, and the request is their sum', () => {
  const batch = folded([
    openedRecord(1),
    closedRecord(1, { outcome: 'failed', kind: 'timeout', cost: 30, usageSource: 'estimated' }),
    openedRecord(1, { attempt: 1, provider: 'anthropic' }),
    closedRecord(1, { attempt: 1, cost: null, priceSource: 'none' }),
    endedRecord(1),
  ])
  assert.deepEqual(
    batch.requests.map(({ attempts, cost, usage_source, input }) => [attempts, cost, usage_source, input]),
    [[2, 30, 'estimated', 20]],
  )
  // A budget is charged the reservation of an attempt with an unknown cost.
  assert.equal(batch.sums[0]?.spent, 530)
  assert.deepEqual(
    batch.hours.map(({ provider, outcome, estimated, unpriced }) => [provider, outcome, estimated, unpriced]),
    [
      ['openai', 'failed', 1, 0],
      ['anthropic', 'ok', 0, 1],
      ['openai', 'answered', 0, 0],
    ],
  )
})

test('fold: a request without any price has no cost', () => {
  const batch = folded([openedRecord(1), closedRecord(1, { cost: null, priceSource: 'none' }), endedRecord(1)])
  assert.equal(batch.requests[0]?.cost, null)
})

test('fold: a request without attempts, refused or from the cache', () => {
  const batch = folded([
    endedRecord(1, { outcome: 'refused', status: 402, provider: null, model: null, firstContentMs: null, saved: 12 }),
  ])
  assert.deepEqual([batch.attempts.size, batch.requests[0]?.attempts, batch.requests[0]?.cost], [0, 0, 0])
  assert.deepEqual(
    batch.hours.map(({ provider, saved, first_content_count }) => [provider, saved, first_content_count]),
    [['', 12, 0]],
  )
})

test('fold: an attempt in progress is stored as open, and counted when it ends', () => {
  const fold = given()
  const first = folded([openedRecord(1)], fold)
  assert.equal(rowsOf(first)[0]?.outcome, 'open')
  assert.deepEqual([first.requests, first.hours, first.sums], [[], [], []])
  for (const attempt of first.attempts) attempt.stored = true
  const second = folded([closedRecord(1), endedRecord(1)], fold)
  assert.deepEqual(
    [...second.attempts].map(({ row, isComplete, stored }) => [row.outcome, isComplete, stored]),
    [['ok', true, true]],
  )
  assert.equal(second.hours.length, 2)
})

test('fold: an attempt that ends after its request is added to it', () => {
  const fold = given()
  const records = [openedRecord(1), openedRecord(1, { attempt: 1, hedge: true }), closedRecord(1), endedRecord(1)]
  const first = folded(records, fold)
  assert.equal(first.requests[0]?.cost, 70)
  assert.equal(fold.processes().size, 1)
  const second = folded(
    [closedRecord(1, { attempt: 1, outcome: 'abandoned', usageSource: 'estimated', cost: 5 })],
    fold,
  )
  assert.deepEqual(second.additions, [
    {
      id: 'req_1',
      call: 1,
      received: NOON + 1,
      input: 10,
      output: 5,
      cache_read: 0,
      cache_write: 0,
      reasoning: 0,
      cost: 5,
      usage_source: 'estimated',
    },
  ])
  assert.equal(fold.processes().size, 0)
})

test('fold: attempts of an ended process cost their reservation, and its requests are complete', () => {
  const fold = given()
  folded(
    [
      openedRecord(1),
      closedRecord(1, { outcome: 'failed', cost: 3 }),
      openedRecord(1, { attempt: 1 }),
      openedRecord(2),
    ],
    fold,
  )
  fold.endProcess('another')
  assert.equal(fold.take().attempts.size, 0)
  fold.endProcess(PROCESS)
  const batch = fold.take()
  assert.deepEqual(
    rowsOf(batch).map(({ request, n, outcome, cost, usage_source, ended }) => [
      request,
      n,
      outcome,
      cost,
      usage_source,
      ended,
    ]),
    [
      ['req_1', 1, 'unknown', 500, 'estimated', null],
      ['req_1', 0, 'failed', 3, 'exact', NOON + 101],
      ['req_2', 0, 'unknown', 500, 'estimated', null],
    ],
  )
  assert.deepEqual(
    batch.requests.map(({ id, outcome, attempts, cost }) => [id, outcome, attempts, cost]),
    [
      ['req_1', 'unknown', 2, 503],
      ['req_2', 'unknown', 1, 500],
    ],
  )
  assert.equal(batch.sums[0]?.spent, 1_000)
})

test('fold: the state continues from the database after each record', () => {
  const records = [
    openedRecord(1),
    openedRecord(1, { attempt: 1 }),
    closedRecord(1, { cost: 1 }),
    endedRecord(1),
    closedRecord(1, { attempt: 1, cost: 2 }),
    openedRecord(2),
    closedRecord(2, { cost: 4 }),
    endedRecord(2),
  ]
  const outcome = (batches: readonly LedgerBatch[]) => ({
    spent: batches.flatMap(({ sums }) => sums).reduce((sum, { spent }) => sum + spent, 0),
    requests: batches.flatMap(({ requests }) => requests).map(({ id, attempts }) => [id, attempts]),
    cost: [...batches.flatMap(({ requests }) => requests), ...batches.flatMap(({ additions }) => additions)].reduce(
      (sum, { cost }) => sum + (cost ?? 0),
      0,
    ),
    counted: batches
      .flatMap(({ hours }) => hours)
      .reduce((sum, { attempts, requests }) => sum + attempts + requests, 0),
  })
  const expected = outcome([folded(records)])
  for (let restartAfter = 0; restartAfter <= records.length; restartAfter++) {
    const batches = [folded(records.slice(0, restartAfter))]
    const stored = batches.flatMap(({ attempts }) => [...attempts]).filter(({ isComplete }) => !isComplete)
    const next = given()
    for (const { row, opened } of stored) next.restore(row, opened)
    batches.push(folded(records.slice(restartAfter), next))
    assert.deepEqual(outcome(batches), expected, `restart after ${restartAfter} records`)
    assert.equal(next.orphans, 0)
    assert.equal(next.processes().size, 0)
  }
})

test('fold: a request of an ended process keeps the ID of its client', () => {
  const fold = given()
  fold.add(openedRecord(1, { clientRequestId: 'mine' }), 'a.1-0')
  fold.endProcess('a.1-0')
  assert.deepEqual(
    fold.take().requests.map(({ id, client_request_id }) => [id, client_request_id]),
    [['req_1', 'mine']],
  )
})

test('fold: requests of one ID, at once and in several processes, are separate', () => {
  const fold = given()
  for (const [call, process] of [
    [1, 'a.1-0'],
    [2, 'a.1-0'],
    [1, 'b.2-0'],
  ] as const)
    fold.add(openedRecord(call, { request: 'same' }), process)
  fold.add(closedRecord(1, { cost: 1 }), 'b.2-0')
  fold.add(closedRecord(2, { cost: 2 }), 'a.1-0')
  const batch = fold.take()
  assert.deepEqual(
    rowsOf(batch).map(({ outcome, cost }) => [outcome, cost]),
    [
      ['open', null],
      ['ok', 2],
      ['ok', 1],
    ],
  )
})

test('fold: records whose attempt is unknown or closed are ignored and counted', () => {
  const fold = given()
  const batch = folded(
    [
      closedRecord(9),
      openedRecord(1),
      openedRecord(1),
      closedRecord(1),
      closedRecord(1),
      endedRecord(1),
      closedRecord(1),
    ],
    fold,
  )
  assert.equal(fold.orphans, 4)
  assert.deepEqual([batch.attempts.size, batch.requests.length, batch.sums[0]?.spent], [1, 1, 70])
})

test('fold: all counts of tokens are stored and summed', () => {
  const tokens = {
    input: 1,
    output: 2,
    cacheRead: 3,
    cacheWrite: 4,
    cacheWrite1h: 5,
    reasoning: 6,
    audioInput: 7,
    audioOutput: 8,
  }
  const batch = folded([
    openedRecord(1),
    closedRecord(1, { tokens }),
    openedRecord(2),
    closedRecord(2, { tokens: { ...NO_TOKENS, input: 9 } }),
  ])
  const [row] = rowsOf(batch)
  assert.deepEqual(
    [
      row?.input,
      row?.output,
      row?.cache_read,
      row?.cache_write,
      row?.cache_write_1h,
      row?.reasoning,
      row?.audio_input,
      row?.audio_output,
    ],
    [1, 2, 3, 4, 5, 6, 7, 8],
  )
  assert.deepEqual(
    batch.hours.map(({ input, output, cache_read, cache_write, reasoning }) => [
      input,
      output,
      cache_read,
      cache_write,
      reasoning,
    ]),
    [[10, 2, 3, 4, 6]],
  )
})

/** Rows and names that are stored. */
const storedOf = (batch: LedgerBatch): string =>
  JSON.stringify({ attempts: rowsOf(batch), requests: batch.requests, facets: batch.facets, sums: batch.sums })

const usual = storedOf(folded([filledOpened, filledClosed, filledEnded]))
/** Members that connect the records of a request. */
const CONNECTS = ['type', 'call', 'attempt'] as const
const changed: readonly (readonly [string, readonly JournalRecord[]])[] = [
  // The rest of them is in the row of the request, from its own record.
  ...changedOnce(filledOpened, [...CONNECTS, 'style', 'tag', 'route', 'client', 'clientRequestId']).map(
    ([name, record]) => [`opened.${name}`, [record, filledClosed, filledEnded]] as const,
  ),
  ...changedOnce(filledClosed, CONNECTS).map(
    ([name, record]) => [`closed.${name}`, [filledOpened, record, filledEnded]] as const,
  ),
  ...changedOnce(filledEnded, ['type', 'call']).map(
    ([name, record]) => [`ended.${name}`, [filledOpened, filledClosed, record]] as const,
  ),
]
test('fold: every member of a record is stored', () => {
  const lost = changed.filter(([, records]) => storedOf(folded(records)) === usual).map(([name]) => name)
  assert.deepEqual(lost, [])
})

test('fold: every member of an attempt is in the row of a request that its process has not ended', () => {
  const unended = (record: JournalRecord) => {
    const fold = given()
    fold.add(record, PROCESS)
    fold.endProcess(PROCESS)
    return storedOf(fold.take())
  }
  const lost = changedOnce(filledOpened, CONNECTS).filter(([, record]) => unended(record) === unended(filledOpened))
  assert.deepEqual(
    lost.map(([name]) => name),
    [],
  )
})
