/** `LEDGER_KILLS=10000 npm test -- ledger/bookkeeper` kills that many writers; `npm test` kills 50. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import type { JournalRecord } from '../../core/journal.ts'
import { Bookkeeper, type BookkeeperEvent, type BookkeeperOptions } from './bookkeeper.ts'
import { encodeRecord } from './journal-record.ts'
import { listSegments, processName, segmentFile, thisProcess } from './segment-files.ts'
import { USAGE_FILE } from './usage-schema.ts'

const KILLS = Number(process.env.LEDGER_KILLS ?? 50)
const PARALLEL = 4

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** The process of a PID that is not running. */
const ENDED = processName({ start: 1_000, pid: spawnSync(process.execPath, ['--version']).pid, worker: 0 })
const OWN = processName(thisProcess())

const given = (changes: Partial<BookkeeperOptions> = {}) => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-ledger-'))
  closers.push(() => rmSync(root, { recursive: true, force: true }))
  const [folder, journal] = [join(root, 'data'), join(root, 'data', 'journal')]
  mkdirSync(journal, { recursive: true })
  const events: BookkeeperEvent[] = []
  const options: BookkeeperOptions = {
    folder,
    journal,
    node: 'n1',
    timezone: 'Europe/Berlin',
    syncs: true,
    process: thisProcess(),
    ...changes,
  }
  const open = () => {
    const bookkeeper = new Bookkeeper(options, (event) => events.push(event))
    closers.push(() => bookkeeper.close())
    return bookkeeper
  }
  const write = (process: string, records: readonly (JournalRecord | string)[], number = 1) =>
    writeFileSync(
      join(journal, segmentFile(process, number)),
      records.map((record) => (typeof record === 'string' ? record : encodeRecord(record))).join(''),
      { flag: 'a' },
    )
  return { root, folder, journal, options, events, open, write }
}

const storeAll = async (bookkeeper: Bookkeeper) => {
  while (await bookkeeper.step()) assert.equal(bookkeeper.problem, null)
  assert.equal(bookkeeper.problem, null)
}

/** Reads the database of a folder, as another process does. */
const reading = <T>(folder: string, read: (all: (sql: string) => readonly Record<string, unknown>[]) => T): T => {
  const database = new DatabaseSync(join(folder, USAGE_FILE))
  try {
    return read((sql) =>
      database
        .prepare(sql)
        .all()
        .map((row) => ({ ...row })),
    )
  } finally {
    database.close()
  }
}

const SUMS = 'sum(input) input, sum(output) output, sum(cache_read) cached, coalesce(sum(cost), 0) cost'

/** Checks that every sum equals that of the rows, and that the file is intact. */
const checkSums = (folder: string) =>
  reading(folder, (all) => {
    const attempts = all(`SELECT count(*) attempts, ${SUMS} FROM attempt WHERE outcome <> 'open'`)[0]
    const [requests] = all('SELECT count(*) requests, sum(saved) saved, coalesce(sum(total_ms), 0) total FROM request')
    for (const table of ['usage_hour', 'usage_day']) {
      assert.deepEqual(all(`SELECT sum(attempts) attempts, ${SUMS} FROM ${table}`)[0], attempts, table)
      assert.deepEqual(
        all(`SELECT sum(requests) requests, sum(saved) saved, sum(total_sum) total FROM ${table}`)[0],
        requests,
      )
    }
    assert.equal(all('SELECT sum(cost) cost FROM request')[0]?.cost, attempts?.cost)
    assert.equal(all('SELECT sum(spent) spent FROM budget_sum')[0]?.spent, attempts?.cost)
    assert.deepEqual(all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
    return { attempts: Number(attempts?.attempts), requests: Number(requests?.requests), cost: Number(attempts?.cost) }
  })

const answered = (call: number): readonly JournalRecord[] => [openedRecord(call), closedRecord(call), endedRecord(call)]
const count = (most: number) => Array.from({ length: most }, (_, index) => index + 1)

test('bookkeeper: sums that are read while the database is opened count nothing twice', async () => {
  const { folder, open, write } = given()
  write(ENDED, count(200).flatMap(answered))
  const bookkeeper = open()
  await Promise.all([bookkeeper.step(), bookkeeper.sums(NOON, []), bookkeeper.sums(NOON, [])])
  await storeAll(bookkeeper)
  assert.deepEqual(checkSums(folder), { attempts: 200, requests: 200, cost: 14_000 })
})

test('bookkeeper: journals become rows and sums; a stored segment of an ended process is deleted', async () => {
  const { folder, journal, events, open, write } = given()
  write(ENDED, count(700).flatMap(answered))
  const bookkeeper = open()
  await storeAll(bookkeeper)
  assert.deepEqual(checkSums(folder), { attempts: 700, requests: 700, cost: 49_000 })
  assert.deepEqual(listSegments(journal), [])
  assert.deepEqual(events, [{ event: 'ok' }])
  assert.deepEqual(await bookkeeper.sums(NOON, []), [
    { counter: 'bud_a', period_start: NOON, spent: 49_000, earlier: 49_000 },
  ])
  assert.deepEqual(await bookkeeper.sums(NOON + 1, []), [])
  assert.deepEqual(
    reading(folder, (all) => all('SELECT * FROM journal')),
    [],
  )
})

test('bookkeeper: the segment of a running process is kept and read on; earlier ones are deleted', async () => {
  const { folder, journal, open, write } = given()
  const bookkeeper = open()
  write(OWN, answered(1), 1)
  write(OWN, answered(2), 2)
  await storeAll(bookkeeper)
  assert.deepEqual(
    listSegments(journal).map(({ number }) => number),
    [2],
  )
  write(OWN, [openedRecord(3), encodeRecord(closedRecord(3)).slice(0, 40)], 2)
  await storeAll(bookkeeper)
  assert.equal(checkSums(folder).attempts, 2)
  write(OWN, [encodeRecord(closedRecord(3)).slice(40), endedRecord(3)], 2)
  await storeAll(bookkeeper)
  assert.deepEqual(checkSums(folder), { attempts: 3, requests: 3, cost: 210 })
})

test('bookkeeper: open attempts of an ended process are closed as unknown at their reservation, once', async () => {
  const { folder, open, write } = given()
  write(ENDED, [openedRecord(1), openedRecord(2), closedRecord(2), openedRecord(3, { attempt: 1 }), '["c",1,'])
  write(OWN, [openedRecord(9)])
  for (let turn = 0; turn < 2; turn++) {
    const bookkeeper = open()
    await storeAll(bookkeeper)
    bookkeeper.close()
    const rows = reading(folder, (all) => all('SELECT request, outcome, cost FROM attempt ORDER BY request'))
    assert.deepEqual(rows, [
      { request: 'req_1', outcome: 'unknown', cost: 500 },
      { request: 'req_2', outcome: 'ok', cost: 70 },
      { request: 'req_3', outcome: 'unknown', cost: 500 },
      { request: 'req_9', outcome: 'open', cost: null },
    ])
    assert.deepEqual(checkSums(folder), { attempts: 3, requests: 3, cost: 1_070 })
  }
})

test('bookkeeper: requests with one ID at one time are separate rows', async () => {
  const { folder, open, write } = given()
  const same = { request: 'same' }
  const records = count(20).flatMap((call) => [
    openedRecord(call, { ...same, at: NOON }),
    closedRecord(call),
    endedRecord(call, { ...same, received: NOON }),
  ])
  write(ENDED, records)
  await storeAll(open())
  assert.deepEqual(checkSums(folder), { attempts: 20, requests: 20, cost: 1_400 })
})

test('bookkeeper: the cost of a hedge that ends late goes to its own request, although others have the same ID and time', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  const hedge = (call: number, cost: number) => closedRecord(call, { attempt: 1, cost })
  write(
    OWN,
    count(3).flatMap((call) => [
      openedRecord(call, { request: 'same', at: NOON }),
      openedRecord(call, { request: 'same', at: NOON, attempt: 1, hedge: true }),
      closedRecord(call, { cost: call }),
      endedRecord(call, { request: 'same', received: NOON }),
    ]),
  )
  await storeAll(bookkeeper)
  write(OWN, [hedge(3, 3_000), hedge(2, 2_000)])
  await storeAll(bookkeeper)
  // A bookkeeper that was started later continues.
  bookkeeper.close()
  write(OWN, [hedge(1, 1_000)])
  await storeAll(open())
  assert.deepEqual(
    reading(folder, (all) => all('SELECT call, cost FROM request ORDER BY call')),
    [1, 2, 3].map((call) => ({ call, cost: 1_001 * call })),
  )
  checkSums(folder)
})

test('bookkeeper: malformed lines are skipped and reported, and the segment is kept as .broken', async () => {
  const { folder, journal, events, open, write } = given()
  write(ENDED, [...answered(1), '["c",\n', '\0\0\n', ...answered(2)])
  await storeAll(open())
  assert.equal(checkSums(folder).requests, 2)
  const segment = segmentFile(ENDED, 1)
  const offset = Buffer.byteLength(answered(1).map(encodeRecord).join(''))
  assert.deepEqual(
    events.filter(({ event }) => event === 'malformed'),
    [{ event: 'malformed', segment, lines: 2, offset }],
  )
  assert.deepEqual(readdirSync(journal), [`${segment}.broken`])
})

test('bookkeeper: one works at a time; the next continues after it', async () => {
  const { folder, open, write } = given()
  const [first, second] = [open(), open()]
  write(ENDED, answered(1))
  await storeAll(first)
  write(OWN, answered(2))
  await second.step()
  assert.equal(second.problem, 'another process stores the usage of this folder')
  first.close()
  await storeAll(second)
  assert.deepEqual(checkSums(folder), { attempts: 2, requests: 2, cost: 140 })
})

test('bookkeeper: the cost of a request is unknown if that of an attempt is, and the others cost nothing', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  const request = (call: number, costs: readonly (number | null)[]) => [
    ...costs.map((_, attempt) => openedRecord(call, { attempt })),
    ...costs.map((cost, attempt) => closedRecord(call, { attempt, cost })),
    endedRecord(call),
  ]
  write(OWN, [...request(1, [0, null]), ...request(2, [null]), ...request(3, [70, null]), ...request(4, [0, 0])])
  await storeAll(bookkeeper)
  const rows = reading(folder, (all) => all('SELECT cost FROM request ORDER BY call'))
  assert.deepEqual(
    rows.map(({ cost }) => cost),
    [null, null, 70, 0],
  )
})

test('bookkeeper: while it fails its lag grows from the last time that everything was stored, if anything waits', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: NOON })
  const { open, write } = given()
  const [first, second] = [open(), open()]
  await storeAll(first)
  const lagAfter = async (ms: number) => {
    t.mock.timers.tick(ms)
    await second.step()
    return second.takeProgress().lagMs
  }
  // Nothing waits to be stored.
  assert.equal(await lagAfter(60_000), 0)
  write(OWN, answered(1))
  assert.deepEqual([await lagAfter(1_000), await lagAfter(7_000)], [1_000, 8_000])
  assert.ok(second.takeProgress().journalBytes > 0)
  first.close()
  await storeAll(second)
  const { lagMs, requests, attempts } = second.takeProgress()
  assert.deepEqual({ lagMs, requests, attempts }, { lagMs: 0, requests: 1, attempts: 1 })
  // An attempt in progress is one row, also when it ends.
  write(OWN, [openedRecord(2)])
  await storeAll(second)
  write(OWN, [closedRecord(2), endedRecord(2)])
  await storeAll(second)
  assert.equal(second.takeProgress().attempts, 2)
})

test('bookkeeper: an error before or after a commit loses and doubles nothing', async (t) => {
  const { folder, events, open, write } = given()
  write(ENDED, count(1_200).flatMap(answered))
  write(
    OWN,
    count(300).flatMap((call) => [
      openedRecord(call),
      openedRecord(call, { attempt: 1 }),
      closedRecord(call),
      endedRecord(call),
    ]),
  )
  const { exec } = DatabaseSync.prototype
  let calls = 0
  t.mock.method(DatabaseSync.prototype, 'exec', function (this: DatabaseSync, sql: string) {
    if (sql === 'COMMIT' && ++calls % 3 === 1) throw new Error('the disk has failed')
    exec.call(this, sql)
    if (sql === 'COMMIT' && calls % 3 === 2) throw new Error('the disk has failed after the commit')
  })
  const bookkeeper = open()
  for (let turn = 0; turn < 100; turn++) await bookkeeper.step()
  assert.equal(bookkeeper.problem, null)
  assert.ok(events.some(({ event }) => event === 'degraded'))
  assert.deepEqual(checkSums(folder), { attempts: 1_500, requests: 1_500, cost: 105_000 })
})

test('bookkeeper: a deleted database is created again', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  write(OWN, answered(1))
  await storeAll(bookkeeper)
  for (const file of ['', '-wal', '-shm']) rmSync(join(folder, USAGE_FILE + file), { force: true })
  write(OWN, answered(2))
  await storeAll(bookkeeper)
  assert.equal(checkSums(folder).requests, 2)
})

test('bookkeeper: a database of a newer version is not touched', async () => {
  const { folder, events, open } = given()
  const first = open()
  await storeAll(first)
  first.close()
  const database = new DatabaseSync(join(folder, USAGE_FILE))
  database.exec('UPDATE schema_version SET version = 9, oldest_reader = 9')
  database.close()
  const second = open()
  await second.step()
  assert.match(
    second.problem ?? '',
    /usage\.db was written by a newer version of Headgate \(schema version 9, supported: 2\)/,
  )
  assert.equal(events.at(-1)?.event, 'degraded')
})

test('bookkeeper: expired rows are deleted in batches and the file shrinks; sums and open attempts stay', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  write(ENDED, count(12_000).flatMap(answered))
  write(OWN, [openedRecord(1)])
  await storeAll(bookkeeper)
  const path = join(folder, USAGE_FILE)
  const limits = { keepDays: 30, keepHours: 90, maxMegabytes: 1_000 }
  const now = NOON + 31 * 86_400_000
  assert.equal(bookkeeper.sweep(limits, NOON), false)
  const before = statSync(path).size
  let batches = 1
  while (bookkeeper.sweep(limits, now)) batches++
  assert.ok(batches >= 6, `${batches} batches`)
  assert.deepEqual(
    reading(folder, (all) => all('SELECT outcome FROM attempt')),
    [{ outcome: 'open' }],
  )
  assert.equal(reading(folder, (all) => all('SELECT sum(requests) requests FROM usage_hour'))[0]?.requests, 12_000)
  assert.ok(statSync(path).size < before / 4, `${before} → ${statSync(path).size} bytes`)
  while (bookkeeper.sweep(limits, NOON + 91 * 86_400_000));
  assert.deepEqual(
    reading(folder, (all) =>
      all('SELECT (SELECT count(*) FROM usage_hour) hours, (SELECT sum(requests) FROM usage_day) requests'),
    ),
    [{ hours: 0, requests: 12_000 }],
  )
})

test('bookkeeper: beyond maxMegabytes the oldest rows are deleted', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  write(ENDED, count(20_000).flatMap(answered))
  await storeAll(bookkeeper)
  const limits = { keepDays: 30, keepHours: 90, maxMegabytes: 4 }
  while (bookkeeper.sweep(limits, NOON));
  const [left] = reading(folder, (all) => all('SELECT count(*) rows, min(received) oldest FROM request'))
  assert.ok(Number(left?.rows) > 0 && Number(left?.oldest) > NOON + 5_000, JSON.stringify(left))
  assert.ok(statSync(join(folder, USAGE_FILE)).size <= 4 * 1_048_576)
})

test('bookkeeper: beyond maxMegabytes requests and their attempts are deleted alike, however many attempts they have', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  const attempts = [0, 1, 2, 3]
  const records = count(8_000).flatMap((call) => [
    ...attempts.flatMap((attempt) => [openedRecord(call, { attempt }), closedRecord(call, { attempt })]),
    endedRecord(call),
  ])
  write(ENDED, records)
  await storeAll(bookkeeper)
  while (bookkeeper.sweep({ keepDays: 30, keepHours: 90, maxMegabytes: 5 }, NOON));
  const [left] = reading(folder, (all) =>
    all('SELECT (SELECT count(*) FROM request) requests, (SELECT count(*) FROM attempt) attempts'),
  )
  assert.ok(Number(left?.requests) > 0, JSON.stringify(left))
  assert.ok(Math.abs(4 * Number(left?.requests) - Number(left?.attempts)) <= 4, JSON.stringify(left))
})

const correction = {
  at: NOON,
  budget: 'bud_a',
  counter: 'bud_a',
  period_start: NOON,
  key: null,
  reason: 'x',
  actor: 'adm_a',
}

test('bookkeeper: what earlier processes have spent is known apart, also of several runs', async () => {
  const { folder, options, open, write } = given()
  const { start, pid } = options.process
  const bookkeeper = open()
  const workers = [start - 1, start + 1].map((at) => processName({ start: at, pid, worker: 1 }))
  for (const [index, name] of [ENDED, OWN, ...workers].entries()) write(name, answered(index))
  await storeAll(bookkeeper)
  await bookkeeper.adjust({ ...correction, id: 'adj_1', amount: -200 })
  const sums = async (of: Bookkeeper) => (await of.sums(NOON, [])).map(({ spent, earlier }) => [spent, earlier])
  assert.deepEqual(await sums(bookkeeper), [[80, 140]])
  bookkeeper.close()

  const next = new Bookkeeper({ ...options, process: { start: start + 2, pid, worker: 0 } }, () => {})
  closers.push(() => next.close())
  await storeAll(next)
  assert.deepEqual(await sums(next), [[80, 80]])
  const rows = () => reading(folder, (all) => all('SELECT spent FROM budget_sum'))
  assert.equal(rows().length, 4)
  while (next.sweep({ keepDays: 30, keepHours: 90, maxMegabytes: 1_000 }, NOON));
  assert.deepEqual(rows(), [{ spent: 80 }])
  assert.deepEqual(await sums(next), [[80, 80]])
})

test('bookkeeper: adjustments are part of what a counter has spent; a reset leaves nothing; none is stored twice', async () => {
  const { folder, open, write } = given()
  const bookkeeper = open()
  write(OWN, count(10).flatMap(answered))
  await storeAll(bookkeeper)
  const spent = async () => (await bookkeeper.sums(NOON, [])).map((row) => row.spent)
  assert.deepEqual(await bookkeeper.adjust({ ...correction, id: 'adj_1', amount: -200 }), { amount: -200, isNew: true })
  assert.deepEqual(await bookkeeper.adjust({ ...correction, id: 'adj_1', amount: -200 }), {
    amount: -200,
    isNew: false,
  })
  assert.deepEqual(await spent(), [500])
  assert.deepEqual(await bookkeeper.adjust({ ...correction, id: 'adj_2', amount: 'reset' }), {
    amount: -500,
    isNew: true,
  })
  assert.deepEqual(await bookkeeper.adjust({ ...correction, id: 'adj_2', amount: 'reset' }), {
    amount: -500,
    isNew: false,
  })
  assert.deepEqual(await spent(), [0])
  // Of a key: no counter changes.
  assert.deepEqual(
    await bookkeeper.adjust({
      ...correction,
      id: 'adj_3',
      budget: null,
      counter: null,
      period_start: null,
      key: 'key_a',
      amount: 9,
    }),
    { amount: 9, isNew: true },
  )
  assert.deepEqual(await spent(), [0])
  assert.deepEqual(
    reading(folder, (all) => all('SELECT id, amount FROM adjustment')),
    [
      { id: 'adj_1', amount: -200 },
      { id: 'adj_2', amount: -500 },
      { id: 'adj_3', amount: 9 },
    ],
  )
})

test('bookkeeper: attempts have the key and the team of their request; tags are facets', async () => {
  const { folder, open, write } = given()
  write(ENDED, [openedRecord(1, { tag: 'search' }), closedRecord(1), endedRecord(1, { tag: 'search' })])
  await storeAll(open())
  reading(folder, (all) => {
    assert.deepEqual(all('SELECT key, team FROM attempt'), [{ key: 'key_a', team: 'team_a' }])
    assert.deepEqual(all("SELECT value FROM facet WHERE name = 'tag'"), [{ value: 'search' }])
    assert.equal(all("SELECT sum(requests) requests FROM usage_day WHERE tag = 'search'")[0]?.requests, 1)
  })
})

test('bookkeeper: a full disk is reported, and nothing is lost when there is room', async (t) => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return t.skip('mounting needs root on Linux')
  const { root, folder: unused, journal, write } = given()
  assert.notEqual(unused, '')
  const folder = join(root, 'small')
  mkdirSync(folder)
  const mount = (options: string) =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { encoding: 'utf8' })
  const { status, stderr } = mount('size=1m')
  if (status !== 0) return t.skip(`cannot mount: ${stderr}`)
  closers.push(() => spawnSync('umount', ['-l', folder]))
  write(ENDED, count(5_000).flatMap(answered))
  const events: BookkeeperEvent[] = []
  const bookkeeper = new Bookkeeper(
    { folder, journal, node: 'n1', timezone: 'UTC', syncs: false, process: thisProcess() },
    (event) => events.push(event),
  )
  closers.push(() => bookkeeper.close())
  for (let turn = 0; turn < 60 && bookkeeper.problem === null; turn++) await bookkeeper.step()
  assert.match(bookkeeper.problem ?? '', /full/)
  mount('remount,size=64m')
  for (let turn = 0; turn < 60; turn++) await bookkeeper.step()
  await storeAll(bookkeeper)
  assert.deepEqual(checkSums(folder), { attempts: 5_000, requests: 5_000, cost: 350_000 })
  assert.deepEqual(
    events.map(({ event }) => event),
    ['ok', 'degraded', 'ok'],
  )
})

// ── Killed processes ─────────────────────────────────────────────────────────────────────────────────────────────────

const script = (name: string) => JSON.stringify(import.meta.resolve(name))

/** Writes attempts, and to standard output the number of each whose record was acknowledged. Every third has a fallback. */
const writerCode = (folder: string, run: number) => `
  import { writeSync } from 'node:fs'
  import { JournalWriter } from ${script('./journal-writer.ts')}
  import { processName, thisProcess } from ${script('./segment-files.ts')}
  import { closedRecord, endedRecord, openedRecord } from ${script('../../../test/support/ledger-records.ts')}
  const writer = new JournalWriter({ folder: ${JSON.stringify(folder)}, process: processName(thisProcess()), sync: 'never',
    whenUnwritable: 'serve', spoolBytes: 2 ** 31, segmentBytes: 20_000, changed() {} })
  let [call, acknowledged] = [0, '']
  const attempt = (call, number) => {
    const request = 'r${run}-' + call
    writer.openAttempt(openedRecord(call, { request, attempt: number }), { onJournaled() {
      acknowledged += request + ' ' + number + '\\n'
      setTimeout(() => {
        writer.append(closedRecord(call, { attempt: number }))
        if (number === 0 && call % 3 === 0) attempt(call, 1)
        else writer.append(endedRecord(call, { request }))
      }, Math.random() * 5)
    } })
  }
  const turn = () => {
    for (let more = Math.random() * 20; more > 0; more--) attempt(++call, 0)
    if (acknowledged) writeSync(1, acknowledged)
    acknowledged = ''
    setTimeout(turn, Math.random() * 2)
  }
  turn()`

const startNode = (code: string, root: string, output: number): ChildProcess =>
  spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', output, 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: join(root, 'cache') },
  })

/** Starts a program, waits until it has written something, kills it at a random time, and returns its output. */
const killed = async (
  code: string,
  { root, within, name }: { readonly root: string; readonly within: number; readonly name: string },
) => {
  const path = join(root, name)
  const output = openSync(path, 'w')
  const child = startNode(code, root, output)
  const exited = new Promise((resolve) => child.once('exit', resolve))
  try {
    for (const end = performance.now() + 60_000; statSync(path).size === 0; await sleep(2)) {
      assert.ok(performance.now() < end, `${name} writes within 60 s`)
      assert.equal(child.exitCode, null)
    }
    await sleep(Math.random() * within)
  } finally {
    child.kill('SIGKILL')
  }
  await exited
  closeSync(output)
  return readFileSync(path, 'utf8')
}

test(`bookkeeper: after kill -9 of ${KILLS} writers every acknowledged attempt has exactly one row`, {
  timeout: 30_000 + KILLS * 3_000,
}, async () => {
  const { root, folder, journal, open } = given()
  const bookkeeper = open()
  const acknowledged: string[] = []
  let [run, running] = [0, PARALLEL]
  const runs = async () => {
    while (run < KILLS) {
      const name = `output-${++run}`
      const output = await killed(writerCode(journal, run), { root, within: 30, name })
      acknowledged.push(...output.split('\n').slice(0, -1))
    }
    running--
  }
  const storing = async () => {
    while (running > 0) {
      await bookkeeper.step()
      assert.equal(bookkeeper.problem, null)
      await sleep(5)
    }
  }
  await Promise.all([storing(), ...count(PARALLEL).map(runs)])
  await storeAll(bookkeeper)

  const rows = reading(folder, (all) => all('SELECT request, n, outcome, opened FROM attempt'))
  const names = rows.map(({ request, n }) => `${request} ${n}`)
  const stored = new Set(names)
  assert.equal(names.length, stored.size, 'no row is doubled')
  assert.deepEqual(
    acknowledged.filter((name) => !stored.has(name)),
    [],
    'no row is missing',
  )
  // Written, but killed before the acknowledgement.
  assert.ok(names.length - acknowledged.length <= 64 * KILLS)
  assert.ok(rows.every(({ outcome, opened }) => outcome !== 'open' && opened === null))
  const { attempts } = checkSums(folder)
  assert.equal(attempts, names.length)
  assert.deepEqual(listSegments(journal), [])
})

test('bookkeeper: killed in the middle, the next one loses and doubles nothing', { timeout: 120_000 }, async () => {
  const { root, folder, journal, options, open, write } = given()
  const requests = 25_000
  write(
    ENDED,
    count(requests).flatMap((call) =>
      call % 5 === 0 ? [openedRecord(call), closedRecord(call), openedRecord(call, { attempt: 1 })] : answered(call),
    ),
  )
  const code = `
    import { writeSync } from 'node:fs'
    import { Bookkeeper } from ${script('./bookkeeper.ts')}
    import { thisProcess } from ${script('./segment-files.ts')}
    const bookkeeper = new Bookkeeper({ ...${JSON.stringify(options)}, process: thisProcess() }, () => {})
    while (await bookkeeper.step()) writeSync(1, 'x')
    writeSync(1, 'y')
    setInterval(() => {}, 1_000)`
  let steps = 0
  let kills = 0
  // On a busy machine the first kills come after the first step.
  while (kills < 6 || (steps === kills && kills < 30)) {
    const output = await killed(code, { root, within: 60, name: `bookkeeper-${kills++}` })
    steps += output.length
  }
  assert.ok(steps > kills)
  assert.ok(existsSync(join(folder, USAGE_FILE)))
  await storeAll(open())
  const { attempts } = checkSums(folder)
  assert.equal(attempts, requests + requests / 5)
  assert.deepEqual(listSegments(journal), [])
})
