import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  changedOnce,
  closedRecord,
  endedRecord,
  filledClosed,
  filledEnded,
  filledOpened,
  journalLines,
  NOON,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import { budgetCharge, chargeList } from '../../core/journal.ts'
import { ENDED_COLUMNS, LISTED } from '../columns/usage-schema.ts'
import {
  decodeLine,
  decodeOpened,
  type EndedLine,
  lostEnd,
  RecordEncoder,
  type RecordValues,
} from './journal-record.ts'

const decoded = (line = '') => decodeLine(line.replace(/\n$/, ''))
const ended = (line = ''): EndedLine => {
  const found = decoded(line)
  return found?.type === 'ended' ? found : assert.fail(line)
}
/** The members of a row by their names. */
const named = (names: readonly string[], values: RecordValues = []) =>
  Object.fromEntries(names.map((name, at) => [name, values[at]]))

for (const [name, record] of [
  ['an attempt', openedRecord(1)],
  ['an attempt without a key', openedRecord(1, { key: null, team: null, charges: '' })],
  [
    'a hedge',
    openedRecord(1, { hedge: true, tag: 'x', charges: chargeList([budgetCharge('a', 1), budgetCharge('b:c', 2)]) }),
  ],
  ['an attempt with every member', filledOpened],
] as const)
  test(`journal record: ${name} is decoded as it was written, on one line`, () => {
    const [line = ''] = journalLines([record])
    assert.equal(line.indexOf('\n'), line.length - 1)
    const { call, attempt, at } = record
    assert.deepEqual(decoded(line), { type: 'opened', call, attempt, at, text: line.trimEnd() })
    assert.deepEqual(decodeOpened(line), record)
  })

test('journal record: a request that ends has its row and those of its attempts', () => {
  const [, line = ''] = journalLines([filledOpened, filledClosed, filledEnded])
  const { call, at, values, sessionName, spends, attempts, list } = ended(line)
  assert.equal(sessionName, 'session_f')
  assert.deepEqual([call, at, spends], [7, NOON + 117, [chargeList([budgetCharge('bud_f', NOON)]), 71]])
  assert.equal(JSON.stringify(attempts), `[${list}]`)
  assert.deepEqual(named(ENDED_COLUMNS, values), {
    id: 'req_7',
    client_request_id: 'theirs_f',
    received: NOON + 7,
    ended: NOON + 117,
    style: 'messages',
    stream: 1,
    asked: 'fast_f',
    route: 'route_f',
    provider: 'anthropic',
    model: 'claude-sonnet-4-5',
    key: 'key_f',
    team: 'team_f',
    person: 'person_f',
    end_user: 'user_f',
    client: 'claude-code',
    tags: '{"project":"tag_f"}',
    tag: 'tag_f',
    outcome: 'interrupted',
    status: 502,
    code: 'stream_interrupted',
    message: 'The stream broke.',
    trail: 'anthropic#b7c2:504',
    decision: '{"by":"route"}',
    cache: 'miss',
    first_content_ms: 32,
    total_ms: 110,
    overhead_us: 121,
    saved: 9,
    require: 'region=eu; retention=0',
    session: 'ses_kdvbwqhzmrtc',
    agent: 'agent_f',
    guards: 'pii/request/mask/EMAIL:2',
    trace: '00-f',
  })
  assert.deepEqual(named(LISTED, attempts[0]), {
    n: 3,
    started: NOON + 7,
    ended: NOON + 107,
    provider: 'anthropic',
    model: 'claude-sonnet-4-5',
    credential: 'b7c2',
    hedge: 1,
    outcome: 'failed',
    kind: 'timeout',
    status: 504,
    message: 'Timed out.',
    first_content_ms: 31,
    input: 11,
    output: 12,
    cache_read: 13,
    cache_write: 14,
    cache_write_1h: 15,
    reasoning: 16,
    audio_input: 17,
    audio_output: 18,
    usage_source: 'estimated',
    reserved: 501,
    cost: 71,
    charged: 71,
    price_source: 'override',
    price_version: 'cat:2026-11-20',
    unit: 'seconds',
    units: 19,
  })
})

test('journal record: every member of a record is in a line', () => {
  const usual = journalLines([filledOpened, filledClosed, filledEnded]).join('')
  const lost = [
    ...changedOnce(filledOpened, ['type']).map(
      ([name, one]) => [`opened.${name}`, [one, filledClosed, filledEnded]] as const,
    ),
    ...changedOnce(filledClosed, ['type']).map(
      ([name, one]) => [`closed.${name}`, [filledOpened, one, filledEnded]] as const,
    ),
    ...changedOnce(filledEnded, ['type']).map(
      ([name, one]) => [`ended.${name}`, [filledOpened, filledClosed, one]] as const,
    ),
  ].filter(([, records]) => journalLines(records).join('') === usual)
  assert.deepEqual(lost, [])
})

test('journal record: an unknown cost charges the reservation', () => {
  const closed = closedRecord(1, { cost: null, priceSource: 'none', priceVersion: null })
  const [, line] = journalLines([openedRecord(1), closed, endedRecord(1)])
  const { attempts, spends } = ended(line)
  const { cost, charged } = named(LISTED, attempts[0])
  assert.deepEqual([cost, charged, spends], [null, 500, [chargeList([budgetCharge('bud_a', NOON)]), 500]])
})

test('journal record: the end of an attempt is in the line of its request, or in its own before that', () => {
  const encoder = new RecordEncoder()
  encoder.open(openedRecord(1))
  encoder.open(openedRecord(1, { attempt: 1 }))
  assert.equal(encoder.close(closedRecord(1, { outcome: 'failed', cost: 3 })), true)
  const [own = '', ...others] = encoder.takeHeld()
  assert.deepEqual(others, [])
  const closed = decoded(own)
  assert.ok(closed?.type === 'closed')
  assert.deepEqual([closed.call, closed.attempt, named(LISTED, closed.end).cost], [1, 0, 3])
  assert.deepEqual(encoder.takeHeld(), [])
  encoder.close(closedRecord(1, { attempt: 1 }))
  assert.deepEqual(
    ended(encoder.end(endedRecord(1))).attempts.map(([n]) => n),
    [1],
  )
  assert.equal(encoder.close(closedRecord(1)), false, 'it has ended')
})

test('journal record: an attempt may end after its request', () => {
  const encoder = new RecordEncoder()
  encoder.open(openedRecord(1))
  assert.deepEqual(ended(encoder.end(endedRecord(1))).attempts, [])
  encoder.close(closedRecord(1))
  assert.equal(encoder.takeHeld().length, 1)
  assert.equal(encoder.close(closedRecord(1)), false)
})

test('journal record: an attempt that is lost costs its reservation', () => {
  const [line = ''] = journalLines([openedRecord(1)])
  const { end, spends } = lostEnd(line)
  const { outcome, cost, charged, ended: at } = named(LISTED, end)
  assert.deepEqual([outcome, cost, charged, at], ['unknown', 500, 500, null])
  assert.deepEqual(spends, [chargeList([budgetCharge('bud_a', NOON)]), 500])
})

test('journal record: any text is one line of JSON', () => {
  for (const text of ['"', '\\', '\n', '\r\n', '\u2028', '\0', 'ü', '😀', '\ud800', '["o"]\n', ']]', '[[']) {
    const records = [
      openedRecord(1, { model: text }),
      closedRecord(1, { message: text }),
      endedRecord(1, { asked: text, tags: text }),
    ]
    const [opened = '', line = ''] = journalLines(records)
    for (const one of [opened, line]) assert.equal(one.indexOf('\n'), one.length - 1)
    assert.equal(decodeOpened(Buffer.from(opened).toString()).model, text)
    const { values, attempts, list } = ended(Buffer.from(line).toString())
    assert.equal(named(ENDED_COLUMNS, values).asked, text)
    assert.deepEqual(JSON.parse(`[${list}]`), attempts)
    assert.equal(named(LISTED, attempts[0]).message, text.toWellFormed().replaceAll('\0', '\ufffd'))
  }
})

test('journal record: long texts are truncated', () => {
  const long = '\u0001'.repeat(100_000)
  const [, line = ''] = journalLines([
    openedRecord(1),
    closedRecord(1, { message: long }),
    endedRecord(1, { asked: long, tags: long, endUser: long, trail: long }),
  ])
  assert.ok(line.length < 32_000, `${line.length} characters`)
  assert.ok(ended(line))
})

const [opened = '', line = ''] = journalLines([openedRecord(1), closedRecord(1), endedRecord(1)]).map((one) =>
  one.trimEnd(),
)
const malformed: readonly (readonly [string, string])[] = [
  ['nothing', ''],
  ['no JSON', 'x'],
  ['no list', '{"0":"o"}'],
  ['an unknown type', line.replace('"e"', '"z"')],
  ['a missing item', line.replace('["e",1,', '["e",')],
  ['a fraction', line.replace(',70,70,', ',70.5,70,')],
  ['an amount that sums cannot hold', line.replace(',70,70,', ',9007199254740991,70,')],
  ['a time beyond all dates', line.replace(`,${NOON + 101},`, ',8640000000000001,')],
  ['a text in place of a number', line.replace(',200,', ',"200",')],
  ['too few items', '["e",1,0]'],
  ['a budget without a period', line.replace(/[0-9]+ bud_a/, 'bud_a')],
  ['a list of budgets that ends early', line.replace(/ bud_a\\"]/, ' bud_a')],
  ['null bytes, as after a power failure', '\0'.repeat(40)],
]
for (const [name, text] of malformed)
  test(`journal record: ${name} is malformed`, () => {
    assert.ok(text !== line && text !== opened)
    assert.equal(decodeLine(text), undefined)
  })

test('journal record: every cut of a record is malformed', () => {
  for (let end = 0; end < line.length; end++) assert.equal(decodeLine(line.slice(0, end)), undefined)
  for (let end = 0; end < opened.length; end++) {
    const cut = opened.slice(0, end)
    // That of an attempt is decoded only if it matters.
    if (decodeLine(cut) !== undefined) assert.throws(() => decodeOpened(cut))
  }
})

test('journal record: an attempt without units is written as before there were any', () => {
  const { attempts } = ended(line)
  assert.equal(attempts[0]?.length, LISTED.indexOf('unit'))
})

test('journal record: an object is malformed', () => assert.equal(decodeLine('{"e":"o"}'), undefined))

test('journal record: each value of a request and of an attempt is checked', () => {
  const filledLine = (journalLines([filledOpened, filledClosed, filledEnded])[1] ?? '').replace(/\n$/, '')
  const row = 4
  for (const [name, rowOf] of [
    ['request', (record: unknown[][][]) => record[row]],
    ['attempt', (record: unknown[][][]) => record.at(-1)?.[0]],
  ] as const) {
    const columns = name === 'request' ? ENDED_COLUMNS : LISTED
    for (const [at, column] of columns.entries()) {
      const record = JSON.parse(filledLine) as unknown[][][]
      const values: unknown[] = rowOf(record) ?? assert.fail()
      assert.equal(values.length, columns.length)
      values[at] = {}
      assert.equal(decodeLine(JSON.stringify(record)), undefined, `${name}: ${column}`)
    }
  }
})
