import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  closedRecord,
  endedRecord,
  filledClosed,
  filledEnded,
  filledOpened,
  NOON,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import { budgetCharge, type JournalRecord } from '../../core/journal.ts'
import { decodeRecord, encodeRecord } from './journal-record.ts'

const records: readonly (readonly [string, JournalRecord])[] = [
  ['an attempt', openedRecord(1)],
  ['an attempt without a key', openedRecord(1, { key: null, team: null, charges: [] })],
  [
    'a hedge with two budgets',
    openedRecord(1, { hedge: true, tag: 'x', charges: [budgetCharge('a', 1), budgetCharge('b:c', 2)] }),
  ],
  ['a closed attempt', closedRecord(1)],
  [
    'a failed attempt without a price',
    closedRecord(1, {
      outcome: 'failed',
      kind: 'timeout',
      status: null,
      cost: null,
      priceSource: 'none',
      priceVersion: null,
      firstContentMs: null,
      usageSource: 'estimated',
    }),
  ],
  ['a request', endedRecord(1)],
  // A member that the lists lack has a value here.
  ['an attempt with every member', filledOpened],
  ['a closed attempt with every member', filledClosed],
  ['a request with every member', filledEnded],
  [
    'a refused request',
    endedRecord(1, {
      outcome: 'refused',
      provider: null,
      model: null,
      route: null,
      key: null,
      team: null,
      trail: null,
      firstContentMs: null,
      overheadUs: null,
      stream: false,
    }),
  ],
]

for (const [name, record] of records)
  test(`journal record: ${name} is read as written, on one line`, () => {
    const line = encodeRecord(record)
    assert.equal(line.indexOf('\n'), line.length - 1)
    assert.deepEqual(decodeRecord(line.trimEnd()), record)
  })

test('journal record: any text is one line of JSON', () => {
  for (const text of ['"', '\\', '\n', '\r\n', '\u2028', '\0', 'ü', '😀', '\ud800', '["o"]\n'])
    for (const record of [openedRecord(1, { model: text }), endedRecord(1, { asked: text, tags: text })]) {
      const line = encodeRecord(record)
      assert.equal(line.indexOf('\n'), line.length - 1)
      assert.deepEqual(decodeRecord(Buffer.from(line).toString().trimEnd()), record)
    }
})

test('journal record: long texts are truncated', () => {
  const long = '\u0001'.repeat(100_000)
  const line = encodeRecord(endedRecord(1, { asked: long, tags: long, endUser: long, trail: long }))
  assert.ok(line.length < 32_000, `${line.length} characters`)
  assert.notEqual(decodeRecord(line), undefined)
})

const line = encodeRecord(closedRecord(1)).trimEnd()
const opened = encodeRecord(openedRecord(1)).trimEnd()
const malformed: readonly (readonly [string, string])[] = [
  ['nothing', ''],
  ['no JSON', 'x'],
  ['no list', '{"0":"o"}'],
  ['an unknown type', line.replace('"c"', '"z"')],
  ['a missing item', line.replace('["c",1,0,', '["c",0,')],
  ['a fraction', line.replace(',70,', ',70.5,')],
  ['an amount that sums cannot hold', line.replace(',70,', ',9007199254740991,')],
  ['a time beyond all dates', line.replace(`,${NOON + 101},`, ',8640000000000001,')],
  ['an unknown outcome', line.replace('"ok"', '"great"')],
  ['too few items', '["c",1,0]'],
  ['a budget without a period', opened.replace(/,\[[^\]]*\],/, ',["bud_a"],')],
  ['null bytes, as after a power failure', '\0'.repeat(40)],
]
for (const [name, text] of malformed)
  test(`journal record: ${name} is malformed`, () => {
    assert.ok(text !== line && text !== opened)
    assert.equal(decodeRecord(text), undefined)
  })

test('journal record: every cut of a record is malformed', () => {
  for (const whole of [line, opened, encodeRecord(endedRecord(1)).trimEnd()])
    for (let end = 0; end < whole.length; end++) assert.equal(decodeRecord(whole.slice(0, end)), undefined)
})

test('journal record: items of a later version are ignored', () => {
  assert.deepEqual(decodeRecord(line.replace(/\]$/, ',"new",[1]]')), closedRecord(1))
})

test('journal record: an object is malformed', () => assert.equal(decodeRecord('{"e":"o"}'), undefined))

test('journal record: items that were added later are null', () => {
  const items: unknown[] = JSON.parse(opened)
  items.splice(-3)
  assert.deepEqual(decodeRecord(JSON.stringify(items)), openedRecord(1, { route: null, client: null }))
})
