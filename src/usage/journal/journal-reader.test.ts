import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  closedRecord,
  decodedLines,
  endedRecord,
  journalLines,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import { readJournal } from './journal-reader.ts'
import type { JournalLine } from './journal-record.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-reader-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const path = join(folder, 'segment')
const write = (text: string) => writeFileSync(path, text)

/** Reads at most so many records. */
const readAt = (position: number, most: number) => {
  const records: JournalLine[] = []
  const { records: count, ...read } = readJournal(path, position, { most, add: (line) => records.push(line) })
  assert.equal(count, records.length)
  return { ...read, records }
}

const written = [
  openedRecord(1, { model: 'größer' }),
  closedRecord(1),
  endedRecord(1, { asked: '😀' }),
  openedRecord(2),
]
const lines = journalLines(written)
const records = decodedLines(written)
const text = lines.join('')

test('journal reader: reads on from an offset, a few records at a time', () => {
  write(text)
  const first = readAt(0, 2)
  assert.deepEqual([first.records, first.more], [records.slice(0, 2), true])
  const second = readAt(first.position, 2)
  assert.deepEqual([second.records, second.more], [records.slice(2), false])
  assert.equal(second.position, Buffer.byteLength(text))
  assert.deepEqual(readAt(second.position, 2).records, [])
})

test('journal reader: a torn last line is not read, wherever it is cut, and is read once it is complete', () => {
  const bytes = Buffer.from(text)
  for (let cut = 0; cut <= bytes.length; cut++) {
    writeFileSync(path, bytes.subarray(0, cut))
    const read = readAt(0, 100)
    const complete = bytes.subarray(0, cut).lastIndexOf('\n') + 1
    assert.equal(read.position, complete)
    assert.deepEqual(read.malformed, [])
    assert.equal(read.more, false)
    writeFileSync(path, bytes)
    assert.deepEqual([...read.records, ...readAt(read.position, 100).records], records)
  }
})

test('journal reader: a malformed line is skipped and its offset reported', () => {
  const [first = '', ...rest] = lines
  write(`${first}["o"\n${rest.join('')}`)
  const read = readAt(0, 100)
  assert.deepEqual(read.records, records)
  assert.deepEqual(read.malformed, [Buffer.byteLength(first)])
})

test('journal reader: a line without an end is skipped in pieces', () => {
  write(`${'x'.repeat(700_000)}\n${text}`)
  const found = []
  let lines = 0
  for (let position = 0, more = true; more; ) {
    const read = readAt(position, 100)
    found.push(...read.records)
    lines += read.malformed.length
    assert.ok(read.position > position)
    position = read.position
    more = read.more
  }
  assert.deepEqual(found, records)
  assert.ok(lines > 0)
})

test('journal reader: a segment of several chunks is read completely', () => {
  write(text.repeat(2_000))
  let count = 0
  for (let position = 0, more = true; more; ) {
    const read = readAt(position, 500)
    count += read.records.length
    position = read.position
    more = read.more
  }
  assert.equal(count, 6_000)
})
