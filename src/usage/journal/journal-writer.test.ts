import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { closedRecord, endedRecord, eventsOf, openedRecord } from '../../../test/support/ledger-records.ts'
import { decodeLine } from './journal-record.ts'
import { type JournalChange, type JournalOptions, JournalWriter } from './journal-writer.ts'
import { listSegments } from './segment-files.ts'

const closers: (() => unknown)[] = []
after(() => {
  for (const close of closers.reverse()) close()
})

const given = (changes: Partial<JournalOptions> = {}) => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-journal-'))
  closers.push(() => rmSync(root, { recursive: true, force: true }))
  const folder = join(root, 'data', 'journal')
  const states: JournalChange[] = []
  const writer = new JournalWriter({
    folder,
    process: '1a.77-0',
    sync: 'never',
    whenUnwritable: 'serve',
    spoolBytes: 2 ** 30,
    changed: (change) => states.push(change),
    ...changes,
  })
  closers.push(() => writer.close())
  const results: (readonly [number, boolean])[] = []
  const open = (call: number) =>
    writer.openAttempt(openedRecord(call), { onJournaled: (result) => results.push([call, result === 'accepted']) })
  return { root, folder, writer, states, results, open }
}

/** What the complete lines of all segments state, in order. */
const linesIn = (folder: string) =>
  listSegments(folder).flatMap(({ file }) =>
    readFileSync(join(folder, file), 'utf8')
      .split('\n')
      .slice(0, -1)
      .flatMap((line) => eventsOf(decodeLine(line) ?? assert.fail(line))),
  )
const callsIn = (folder: string) => linesIn(folder).map(({ call }) => call)

const until = async (is: () => boolean, what: string) => {
  for (const end = performance.now() + 120_000; !is(); await sleep(5)) assert.ok(performance.now() < end, what)
}
const count = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

test('journal: attempts of one turn are written together, before their listeners are called, in order', async () => {
  const { folder, open, results } = given()
  for (const call of count(1, 20)) open(call)
  assert.deepEqual(results, [])
  await turn()
  assert.deepEqual(
    results,
    count(1, 20).map((call) => [call, true]),
  )
  assert.deepEqual(callsIn(folder), count(1, 20))
})

test('journal: the 64th attempt of a turn is written at once, and its listener is called later', async () => {
  const { folder, open, results } = given()
  for (const call of count(1, 63)) open(call)
  assert.deepEqual(callsIn(folder), [])
  open(64)
  assert.deepEqual(callsIn(folder), count(1, 64))
  open(65)
  assert.deepEqual(results, [])
  await turn()
  assert.deepEqual(
    results,
    count(1, 65).map((call) => [call, true]),
  )
})

test('journal: ends of attempts and requests are written with the next attempt, in order', async () => {
  const { folder, writer, open } = given()
  open(1)
  await turn()
  writer.append(closedRecord(1))
  writer.append(endedRecord(1))
  assert.equal(linesIn(folder).length, 1)
  open(2)
  await turn()
  assert.deepEqual(
    linesIn(folder).map(({ type, call }) => `${type} ${call}`),
    ['attempt_opened 1', 'attempt_closed 1', 'request_ended 1', 'attempt_opened 2'],
  )
})

test('journal: ends are written after 50 ms, and at once beyond 64 KB', async () => {
  const { folder, writer, open } = given()
  open(1)
  await turn()
  // Its request goes on.
  writer.append(closedRecord(1))
  await until(() => linesIn(folder).length === 2, 'it is written')
  for (const call of count(2, 1_000)) writer.append(endedRecord(call))
  assert.ok(linesIn(folder).length > 100)
})

const modes = { skip: process.platform === 'win32' && 'there are no modes' }
test('journal: folder and segments are readable by their owner only', modes, async () => {
  const { folder, open } = given()
  open(1)
  await turn()
  assert.deepEqual(readdirSync(folder), ['1a.77-0-1.jsonl'])
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  assert.equal(statSync(join(folder, '1a.77-0-1.jsonl')).mode & 0o777, 0o600)
})

test('journal: a segment of the maximum size is followed by the next', async () => {
  const { folder, open } = given({ segmentBytes: 2_000 })
  for (const call of count(1, 100)) {
    open(call)
    await turn()
  }
  assert.deepEqual(callsIn(folder), count(1, 100))
  const sizes = listSegments(folder).map(({ file }) => statSync(join(folder, file)).size)
  assert.ok(sizes.length > 5)
  assert.ok(
    sizes.every((size) => size < 2_500),
    sizes.join(),
  )
})

test('journal: a deleted segment is followed by the next', async () => {
  const { folder, open } = given()
  open(1)
  await turn()
  rmSync(folder, { recursive: true })
  let call = 1
  await until(() => {
    open(++call)
    return listSegments(folder).length > 0
  }, 'a new segment')
  open(++call)
  await turn()
  assert.equal(callsIn(folder).at(-1), call)
})

test('journal: close writes what is buffered, and an empty segment is not left', async () => {
  const { folder, writer, open, results } = given()
  open(1)
  await turn()
  writer.append(closedRecord(1))
  open(2)
  writer.close()
  assert.deepEqual(callsIn(folder), [1, 1, 2])
  await turn()
  assert.deepEqual(results, [
    [1, true],
    [2, true],
  ])
  assert.equal(writer.dropped, 0)
  open(3)
  await turn()
  assert.equal(writer.dropped, 1)
})

/** Makes the folder impossible to create until `repair`. */
const block = (root: string) => {
  writeFileSync(join(root, 'data'), '')
  return () => rmSync(join(root, 'data'))
}

test('journal: with `serve` records wait in memory while the disk fails, and are written when it recovers', async () => {
  const { root, folder, writer, open, results, states } = given()
  const repair = block(root)
  open(1)
  writer.append(closedRecord(1))
  await turn()
  assert.deepEqual(results, [[1, true]])
  assert.equal(states[0]?.status, 'degraded')
  assert.match(writer.problem ?? '', /^E[A-Z]+ \(\w+\)$/)
  repair()
  await until(() => writer.problem === null, 'it recovers')
  assert.deepEqual(callsIn(folder), [1, 1])
  assert.deepEqual(
    states.map(({ status }) => status),
    ['degraded', 'ok'],
  )
  assert.equal(writer.dropped, 0)
})

test('journal: with `serve` requests beyond 10,000 records are dropped and counted', async () => {
  const { root, folder, writer, open, results } = given()
  const repair = block(root)
  for (const call of count(1, 10_500)) open(call)
  await turn()
  assert.deepEqual(
    results,
    count(1, 10_500).map((call) => [call, true]),
  )
  assert.equal(writer.dropped, 500)
  repair()
  await until(() => writer.problem === null, 'it recovers')
  assert.deepEqual(callsIn(folder), count(1, 10_000))
})

test('journal: with `serve` all records of a request are kept, or all are dropped', async () => {
  const { root, folder, writer, open } = given()
  const repair = block(root)
  const end = (call: number) => {
    writer.append(closedRecord(call))
    writer.append(endedRecord(call))
  }
  for (const call of count(1, 10_000)) open(call)
  // The memory is full when these requests end.
  for (const call of count(1, 10_002)) {
    if (call > 10_000) open(call)
    // An answer from the cache has no attempt.
    else if (call === 3) writer.append(endedRecord(20_000))
    end(call)
  }
  open(10_003)
  await turn()
  assert.equal(writer.dropped, 2 * 3 + 1 + 1)
  repair()
  await until(() => writer.problem === null, 'it recovers')
  // A retry of a request whose first attempt was dropped.
  writer.openAttempt(openedRecord(10_003, { attempt: 1 }), { onJournaled: () => {} })
  end(10_003)
  open(10_004)
  await turn()
  end(10_004)
  writer.close()
  assert.equal(writer.dropped, 2 * 3 + 1 + 4)
  const records = new Map<number, string[]>()
  for (const { call, type } of linesIn(folder)) records.set(call, [...(records.get(call) ?? []), type])
  assert.deepEqual([...records.keys()], [...count(1, 10_000), 10_004])
  for (const [call, types] of records)
    assert.deepEqual(types, ['attempt_opened', 'attempt_closed', 'request_ended'], String(call))
})

test('journal: with `refuse` requests beyond 10,000 records are refused, and the ends of earlier ones are kept', async () => {
  const { root, folder, writer, open, results } = given({ whenUnwritable: 'refuse' })
  open(1)
  await turn()
  rmSync(folder, { recursive: true })
  rmSync(join(root, 'data'), { recursive: true })
  const repair = block(root)
  await until(() => {
    open(2)
    return writer.problem !== null
  }, 'it fails')
  for (const call of count(3, 10_999)) {
    open(call)
    writer.append(endedRecord(call))
  }
  writer.append(closedRecord(1))
  writer.append(endedRecord(1))
  await turn()
  assert.equal(writer.dropped, 997)
  assert.ok(results.slice(-10_997).every(([, accepted]) => !accepted))
  repair()
  await until(() => writer.problem === null, 'it recovers')
  assert.deepEqual(callsIn(folder), [...count(3, 10_002), 1, 1])
})

test('journal: with `refuse` attempts are refused while the disk fails; ends of earlier ones are kept', async () => {
  const { root, folder, writer, open, results } = given({ whenUnwritable: 'refuse' })
  const repair = block(root)
  writer.append(endedRecord(7))
  open(1)
  open(2)
  await turn()
  assert.deepEqual(results, [
    [1, false],
    [2, false],
  ])
  assert.equal(writer.dropped, 0)
  repair()
  await until(() => writer.problem === null, 'it recovers')
  open(3)
  await turn()
  assert.deepEqual(results.at(-1), [3, true])
  assert.deepEqual(callsIn(folder), [7, 3])
})

test('journal: segments beyond the spool limit are a problem, until they are stored', async () => {
  const { folder, writer, open, results } = given({ segmentBytes: 1_000, spoolBytes: 4_000, whenUnwritable: 'refuse' })
  for (const call of count(1, 40)) {
    open(call)
    await turn()
  }
  assert.match(writer.problem ?? '', /not stored yet \(limit 4000 bytes\)/)
  const accepted = results.filter(([, is]) => is).map(([call]) => call)
  assert.deepEqual(callsIn(folder), accepted)
  for (const { file } of listSegments(folder)) rmSync(join(folder, file))
  let call = 100
  await until(() => {
    open(call++)
    return writer.problem === null
  }, 'it recovers')
})

/** A file system of 1 MB. */
const smallDisk = (folder: string): string | false => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'mounting needs root on Linux'
  mkdirSync(folder, { recursive: true })
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { encoding: 'utf8' })
  if (status !== 0) return `cannot mount: ${stderr}`
  closers.push(() => spawnSync('umount', ['-l', folder]))
  return false
}

for (const whenUnwritable of ['serve', 'refuse'] as const)
  test(`journal: a full disk with \`${whenUnwritable}\`: what is accepted is written once, when there is room`, async (t) => {
    const { folder, writer, open, results } = given({ whenUnwritable, segmentBytes: 300_000 })
    const reason = smallDisk(folder)
    if (reason !== false) return t.skip(reason)
    const filler = join(folder, 'filler')
    writeFileSync(filler, Buffer.alloc(500_000))
    let call = 0
    // Groups of several sizes, so that writes are cut at different places of a line.
    while (writer.problem === null) {
      for (const _ of count(1, 1 + (call % 50))) open(++call)
      await turn()
    }
    assert.match(writer.problem, /^ENOSPC/)
    for (const _ of count(1, 100)) open(++call)
    await turn()
    rmSync(filler)
    await until(() => {
      open(++call)
      return writer.problem === null
    }, 'it recovers')
    await turn()
    const accepted = results.filter(([, is]) => is).map(([one]) => one)
    assert.equal(results.length, call)
    if (whenUnwritable === 'refuse') assert.ok(accepted.length < call)
    else assert.equal(accepted.length, call)
    // A torn line is at the end of its segment only.
    assert.deepEqual(callsIn(folder), accepted)
    assert.equal(writer.dropped, 0)
  })

test('journal: a disk that becomes read-only is a problem, and the next segment follows', async (t) => {
  const { folder, writer, open, results } = given()
  const reason = smallDisk(folder)
  if (reason !== false) return t.skip(reason)
  open(1)
  await turn()
  const remount = (mode: string) => spawnSync('mount', ['-o', `remount,${mode},size=1m`, folder], { encoding: 'utf8' })
  writer.close()
  const { stderr, status } = remount('ro')
  assert.equal(status, 0, stderr)
  const next = new JournalWriter({
    folder,
    process: '1a.78-0',
    sync: 'dispatch',
    whenUnwritable: 'serve',
    spoolBytes: 2 ** 30,
    changed() {},
  })
  closers.push(() => next.close())
  next.openAttempt(openedRecord(2), { onJournaled: (result) => results.push([2, result === 'accepted']) })
  await turn()
  assert.match(next.problem ?? '', /^EROFS/)
  remount('rw')
  await until(() => next.problem === null, 'it recovers')
  assert.deepEqual(callsIn(folder), [1, 2])
})
