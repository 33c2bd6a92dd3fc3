import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  changedOnce,
  closedRecord,
  decodedLines,
  endedRecord,
  filledClosed,
  filledEnded,
  filledOpened,
  NOON,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import { type JournalRecord, NO_TOKENS } from '../../core/journal.ts'
import { LISTED, REQUEST_COLUMNS } from '../columns/usage-schema.ts'
import { RecordEncoder, type RecordValues } from '../journal/journal-record.ts'
import { BatchTotals } from './batch-totals.ts'
import { type LedgerBatch, LedgerFold } from './fold.ts'

const PROCESS = 'a.1-0'
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)
/** What is stored, with the rows of requests. */
type Folded = LedgerBatch & { readonly requests: readonly RecordValues[] }
class TestedFold extends LedgerFold {
  readonly #rows: RecordValues[]

  constructor() {
    const rows: RecordValues[] = []
    super({ node: 'n1', dayOf, addRow: (row) => rows.push(row) })
    this.#rows = rows
  }

  override take(): Folded {
    return { ...super.take(), requests: this.#rows.splice(0) }
  }
}
const given = () => new TestedFold()
/** Folds records as one process writes them. */
const writing = (fold = given()) => {
  const encoder = new RecordEncoder()
  return {
    fold,
    folded(...records: readonly JournalRecord[]): Folded {
      for (const line of decodedLines(records, encoder)) fold.add(line, PROCESS)
      return fold.take()
    },
  }
}
const folded = (...records: readonly JournalRecord[]): Folded => writing().folded(...records)

const named = (names: readonly string[], values: readonly unknown[] = []) =>
  Object.fromEntries(names.map((name, at) => [name, values[at]]))
const requestsOf = ({ requests }: Folded) => requests.map((values) => named(REQUEST_COLUMNS, values))
const attemptsOf = (batch: Folded) =>
  requestsOf(batch).flatMap(({ attempt_list }) =>
    (JSON.parse(String(attempt_list ?? '[]')) as unknown[][]).map((values) => named(LISTED, values)),
  )

test('fold: an answered request is one row with its attempt, one sum of the budget, one row of each total', () => {
  const batch = folded(openedRecord(1), closedRecord(1), endedRecord(1))
  const [{ id, attempts, failed_attempts, cost, charged, input, usage_source, total_ms, node } = {}] = requestsOf(batch)
  assert.deepEqual(
    [id, attempts, failed_attempts, cost, charged, input, usage_source, total_ms, node],
    ['req_1', 1, 0, 70, 70, 10, 'exact', 110, 'n1'],
  )
  assert.deepEqual(
    attemptsOf(batch).map(({ n, outcome, cost, ended }) => [n, outcome, cost, ended]),
    [[0, 'ok', 70, NOON + 101]],
  )
  assert.deepEqual(batch.sums, [{ counter: 'bud_a', period_start: NOON, process: PROCESS, spent: 70 }])
  assert.deepEqual(
    batch.hours.map(({ hour, provider, requests, attempts, cost }) => [hour, provider, requests, attempts, cost]),
    [[NOON, 'openai', 1, 1, 70]],
  )
  assert.deepEqual(
    batch.days.map(({ day, team, key, model, attempts, cost }) => [day, team, key, model, attempts, cost]),
    [['2026-11-22', 'team_a', 'key_a', 'gpt-5-mini', 1, 70]],
  )
  assert.deepEqual([batch.open, batch.complete], [[], []])
})

test('fold: each attempt of a fallback costs, and the request is their sum', () => {
  const batch = folded(
    openedRecord(1),
    closedRecord(1, { outcome: 'failed', kind: 'timeout', cost: 30, usageSource: 'estimated' }),
    openedRecord(1, { attempt: 1, provider: 'anthropic' }),
    closedRecord(1, { attempt: 1, cost: null, priceSource: 'none' }),
    endedRecord(1, { provider: 'anthropic' }),
  )
  const [{ attempts, failed_attempts, cost, charged, usage_source, input } = {}] = requestsOf(batch)
  // A budget is charged the reservation of an attempt with an unknown cost.
  assert.deepEqual([attempts, failed_attempts, cost, charged, usage_source, input], [2, 1, 30, 530, 'estimated', 20])
  assert.equal(batch.sums[0]?.spent, 530)
  assert.deepEqual(
    batch.hours
      .map((row) => [
        row.provider,
        row.requests,
        row.fell_back,
        row.attempts,
        row.cost,
        row.lost,
        row.estimated,
        row.unpriced,
      ])
      .toSorted(),
    [
      ['anthropic', 1, 1, 1, 0, 0, 0, 1],
      ['openai', 0, 0, 1, 30, 30, 1, 0],
    ],
  )
  assert.deepEqual(
    batch.days.map((row) => [row.provider, row.requests, row.fell_back, row.attempts, row.cost, row.lost]).toSorted(),
    [
      ['anthropic', 1, 1, 1, 0, 0],
      ['openai', 0, 0, 1, 30, 30],
    ],
  )
})

test('fold: a request without any price has no cost', () => {
  const [row] = requestsOf(
    folded(openedRecord(1), closedRecord(1, { cost: null, priceSource: 'none' }), endedRecord(1)),
  )
  assert.deepEqual([row?.cost, row?.charged], [null, 500])
})

test('fold: a request without attempts, refused or from the cache', () => {
  const batch = folded(
    endedRecord(1, { outcome: 'refused', status: 402, provider: null, model: null, firstContentMs: null, saved: 12 }),
    endedRecord(2, { provider: null, model: null, cache: 'hit' }),
  )
  assert.deepEqual(
    requestsOf(batch).map(({ attempts, cost, attempt_list }) => [attempts, cost, attempt_list]),
    [
      [0, 0, null],
      [0, 0, null],
    ],
  )
  assert.deepEqual(
    batch.hours.map(({ provider, requests, refused, cached, saved, first_content_count }) => [
      provider,
      requests,
      refused,
      cached,
      saved,
      first_content_count,
    ]),
    [['', 2, 1, 1, 12, 1]],
  )
})

test('fold: a call in progress is stored as open, and removed when it is complete', () => {
  const { folded } = writing()
  const first = folded(openedRecord(1))
  assert.deepEqual([first.requests, first.hours, first.sums], [[], [], []])
  assert.deepEqual(
    first.open.map(({ process, call, running, team, started }) => [process, call, running, team, started]),
    [[PROCESS, 1, 1, 'team_a', NOON + 1]],
  )
  assert.deepEqual(folded().open, [], 'it has not changed')
  const second = folded(closedRecord(1))
  assert.deepEqual(
    second.open.map(({ running }) => running),
    [0],
  )
  assert.deepEqual([second.requests, second.sums], [[], []], 'a request counts when it is complete')
  const third = folded(endedRecord(1))
  assert.deepEqual([third.requests.length, third.complete], [1, [{ process: PROCESS, call: 1 }]])
  assert.equal(third.sums[0]?.spent, 70)
})

test('fold: a request is complete when its last attempt has ended', () => {
  const { fold, folded } = writing()
  const first = folded(openedRecord(1), openedRecord(1, { attempt: 1, hedge: true }), closedRecord(1), endedRecord(1))
  assert.deepEqual([first.requests, fold.processes().size], [[], 1])
  const second = folded(closedRecord(1, { attempt: 1, outcome: 'abandoned', usageSource: 'estimated', cost: 5 }))
  assert.deepEqual(
    requestsOf(second).map(({ attempts, cost, usage_source }) => [attempts, cost, usage_source]),
    [[2, 75, 'estimated']],
  )
  assert.equal(fold.processes().size, 0)
})

test('fold: attempts of an ended process cost their reservation, and its requests are complete', () => {
  const { fold, folded } = writing()
  folded(
    openedRecord(1),
    closedRecord(1, { outcome: 'failed', cost: 3 }),
    openedRecord(1, { attempt: 1 }),
    openedRecord(2),
  )
  fold.endProcess('another')
  assert.deepEqual(fold.take().requests, [])
  fold.endProcess(PROCESS)
  const batch = fold.take()
  assert.deepEqual(
    attemptsOf(batch).map(({ n, outcome, cost, usage_source, ended }) => [n, outcome, cost, usage_source, ended]),
    [
      [0, 'failed', 3, 'exact', NOON + 101],
      [1, 'unknown', 500, 'estimated', null],
      [0, 'unknown', 500, 'estimated', null],
    ],
  )
  assert.deepEqual(
    requestsOf(batch).map(({ id, outcome, attempts, cost }) => [id, outcome, attempts, cost]),
    [
      ['req_1', 'unknown', 2, 503],
      ['req_2', 'unknown', 1, 500],
    ],
  )
  assert.equal(batch.sums[0]?.spent, 1_003)
  assert.equal(batch.complete.length, 2)
  assert.equal(fold.processes().size, 0)
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
  const outcome = (batches: readonly Folded[]) => ({
    spent: batches.flatMap(({ sums }) => sums).reduce((sum, { spent }) => sum + spent, 0),
    requests: batches.flatMap(requestsOf).map(({ id, attempts, cost }) => [id, attempts, cost]),
    counted: batches
      .flatMap(({ hours }) => hours)
      .reduce((sum, { attempts, requests }) => sum + attempts + requests, 0),
  })
  // The lines do not depend on when they are folded.
  const encoder = new RecordEncoder()
  const lines = records.flatMap((record) => decodedLines([record], encoder))
  const add = (fold: TestedFold, from: number, to?: number) => {
    for (const line of lines.slice(from, to)) fold.add(line, PROCESS)
    return fold.take()
  }
  const expected = outcome([add(given(), 0)])
  assert.equal(expected.spent, 7)
  for (let restartAfter = 0; restartAfter <= lines.length; restartAfter++) {
    const batches = [add(given(), 0, restartAfter)]
    const next = given()
    for (const call of batches.flatMap(({ open }) => open)) next.restore(call)
    batches.push(add(next, restartAfter))
    assert.deepEqual(outcome(batches), expected, `restart after ${restartAfter} lines`)
    assert.equal(next.orphans, 0)
    assert.equal(next.processes().size, 0)
    assert.deepEqual(
      batches.flatMap(({ complete }) => complete).length,
      batches[0]?.open.length,
      'each open call is removed',
    )
  }
})

test('fold: a request of an ended process keeps the ID of its client', () => {
  const { fold, folded } = writing()
  folded(openedRecord(1, { clientRequestId: 'mine' }))
  fold.endProcess(PROCESS)
  assert.deepEqual(
    requestsOf(fold.take()).map(({ id, client_request_id }) => [id, client_request_id]),
    [['req_1', 'mine']],
  )
})

test('fold: calls with one number in several processes are separate', () => {
  const fold = given()
  for (const process of ['a.1-0', 'b.2-0']) for (const line of decodedLines([openedRecord(1)])) fold.add(line, process)
  for (const line of decodedLines([endedRecord(1)])) fold.add(line, 'a.1-0')
  fold.endProcess('b.2-0')
  assert.deepEqual(
    requestsOf(fold.take()).map(({ outcome }) => outcome),
    ['unknown'],
  )
  assert.deepEqual([...fold.processes()], ['a.1-0'])
})

test('fold: records whose attempt is unknown, or known already, are ignored and counted', () => {
  const fold = given()
  const encoder = new RecordEncoder()
  const records = [openedRecord(1), closedRecord(1), endedRecord(1)]
  const [opened, ended] = decodedLines(records)
  const [, closed] = decodedLines(records.slice(0, 2), encoder)
  assert.ok(opened && closed && ended)
  for (const line of [ended, closed, opened, opened, closed, closed]) fold.add(line, PROCESS)
  assert.equal(fold.orphans, 4)
  assert.deepEqual(fold.take().requests, [])
})

test('fold: a record that begins well and is malformed stops nothing', () => {
  const fold = given()
  fold.add({ type: 'opened', call: 1, attempt: 0, at: NOON, text: '["o",1,0,1,{]' }, PROCESS)
  assert.deepEqual([fold.take().open, fold.orphans], [[], 1])
  fold.add({ type: 'opened', call: 2, attempt: 0, at: NOON, text: '["o",2,0,1,{]' }, PROCESS)
  fold.endProcess(PROCESS)
  assert.deepEqual([fold.take().requests, fold.orphans], [[], 2])
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
  const batch = folded(
    openedRecord(1),
    closedRecord(1, { tokens }),
    endedRecord(1),
    openedRecord(2),
    closedRecord(2, { tokens: { ...NO_TOKENS, input: 9 } }),
    endedRecord(2),
  )
  const [row] = attemptsOf(batch)
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
  for (const rows of [batch.hours, batch.days])
    assert.deepEqual(
      rows.map(({ input, output, cache_read, cache_write, reasoning }) => [
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
const storedOf = ({ requests, days, sums, sessions }: Folded): string =>
  JSON.stringify({ requests, days, sums, sessions })

test('fold: every member of a record is stored', () => {
  const usual = storedOf(folded(filledOpened, filledClosed, filledEnded))
  /** Members that connect the records of a request. */
  const connects = ['type', 'call', 'attempt'] as const
  const changed: readonly (readonly [string, readonly JournalRecord[]])[] = [
    // The rest of them is in the row of the request, from its own record.
    ...changedOnce(filledOpened, [
      ...connects,
      ...(['request', 'key', 'team', 'style', 'tag', 'route', 'client', 'clientRequestId'] as const),
    ]).map(([name, record]) => [`opened.${name}`, [record, filledClosed, filledEnded]] as const),
    ...changedOnce(filledClosed, connects).map(
      ([name, record]) => [`closed.${name}`, [filledOpened, record, filledEnded]] as const,
    ),
    ...changedOnce(filledEnded, ['type', 'call']).map(
      ([name, record]) => [`ended.${name}`, [filledOpened, filledClosed, record]] as const,
    ),
  ]
  const lost = changed.filter(([, records]) => storedOf(folded(...records)) === usual).map(([name]) => name)
  assert.deepEqual(lost, [])
})

test('fold: every member of an attempt is in the row of a request that its process has not ended', () => {
  const unended = (record: JournalRecord) => {
    const { fold, folded } = writing()
    folded(record)
    fold.endProcess(PROCESS)
    return storedOf(fold.take())
  }
  const lost = changedOnce(filledOpened, ['type', 'call']).filter(
    ([, record]) => unended(record) === unended(filledOpened),
  )
  assert.deepEqual(
    lost.map(([name]) => name),
    [],
  )
})

test('totals: names above the number of rows that a period may have are counted as other', () => {
  const totals = new BatchTotals(dayOf, { days: 3, hours: 2 })
  const rows = Array.from({ length: 10 }, (_, at) =>
    endedRecord(at, { key: `key_${at}`, model: `model_${at}`, tag: null, received: NOON }),
  )
  const { requests } = folded(...rows)
  const none = { ...NO_SUMS, attempts: 0, failed: 0, charged: 0 }
  for (const values of requests) totals.add(values, [], none)
  const { days, hours } = totals.take()
  assert.deepEqual(
    days.map(({ key, requests }) => [key, requests]),
    [
      ['key_0', 1],
      ['key_1', 1],
      ['key_2', 1],
      ['other', 7],
    ],
  )
  assert.deepEqual(
    hours.map(({ model, requests }) => [model, requests]),
    [
      ['model_0', 1],
      ['model_1', 1],
      ['other', 8],
    ],
  )
})

const NO_SUMS = {
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: 0,
  lost: 0,
  estimated: 0,
  unpriced: 0,
}
