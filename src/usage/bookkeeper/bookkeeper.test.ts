/** `npm run test:long` kills 1,000 writers, `LEDGER_KILLS=10000 npm run test:long -- usage/bookkeeper/bookkeeper.test` that many, other runs 24. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answered, checkSums, closers, count, ENDED, given, OWN, storeAll } from '../../../test/support/bookkeeping.ts'
import { isLong } from '../../../test/support/lane.ts'
import { onEachEngine, SQLITE } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, journalLines, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import type { RequestEnded } from '../../core/journal.ts'
import { PostgresPool } from '../../storage/sql/postgres/pool.ts'
import { USAGE_FILE } from '../journal/file.ts'
import { listSegments, processName, segmentFile, thisProcess } from '../journal/segment-files.ts'
import { Bookkeeper, type BookkeeperEvent } from './bookkeeper.ts'
import { MERGE_AFTER } from './ledger-steps.ts'

const KILLS = Number(process.env.LEDGER_KILLS ?? (isLong ? 1_000 : 24))
/** More of them get more of a busy machine. */
const PARALLEL = isLong ? 16 : 4

const correction = {
  at: NOON,
  budget: 'bud_a',
  counter: 'bud_a',
  period_start: NOON,
  key: null,
  reason: 'x',
  actor: 'adm_a',
  process: OWN,
}

// ── Killed processes ─────────────────────────────────────────────────────────────────────────────────────────────────

const script = (name: string) => JSON.stringify(import.meta.resolve(name))

/** Writes attempts, and to standard output the number of each whose record was acknowledged. Every third has a fallback. */
const writerCode = (folder: string, run: number) => `
  import { writeSync } from 'node:fs'
  import { flushCompileCache } from 'node:module'
  import { JournalWriter } from ${script('../journal/journal-writer.ts')}
  import { processName, thisProcess } from ${script('../journal/segment-files.ts')}
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
  flushCompileCache()
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
    for (const end = performance.now() + 120_000; statSync(path).size === 0; await sleep(2)) {
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

onEachEngine((engine) => {
  test('bookkeeper: sums that are read while the database is opened count nothing twice', async () => {
    const { open, write, checkSums } = given(engine)
    write(ENDED, count(200).flatMap(answered))
    const bookkeeper = open()
    await Promise.all([bookkeeper.step(), bookkeeper.sums(NOON, []), bookkeeper.sums(NOON, [])])
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(), { attempts: 200, requests: 200, cost: 14_000 })
  })

  test('bookkeeper: sessions are added up, also of several processes, and old ones are deleted', async () => {
    const { open, write, reading } = given(engine)
    const [first, other] = ['ses_aaaaaaaaaaaa', 'gss_bbbbbbbbbbbb']
    const of = (call: number, session: string, changes: Partial<RequestEnded> = {}) => [
      openedRecord(call),
      closedRecord(call),
      endedRecord(call, { session, sessionName: session === first ? 'mine' : null, ...changes }),
    ]
    const calls = count(10).flatMap((call) => of(call, first, { agent: call > 5 ? 'agent' : null }))
    write(ENDED, [...calls, ...of(11, other, { outcome: 'refused' }), ...answered(12)])
    const bookkeeper = open()
    await storeAll(bookkeeper)
    write(OWN, [...of(20, first, { key: 'key_b' }), ...of(21, other)])
    await storeAll(bookkeeper)
    const rows = () => reading((all) => all('SELECT * FROM session ORDER BY id'))
    const sums = { attempts: 2, input: 20, output: 10, cache_read: 0, cache_write: 0, cost: 140, most_input: 10 }
    const row = { key: 'key_a', team: 'team_a', client: 'openai-sdk' }
    assert.deepEqual(rows(), [
      { ...row, id: other, name: null, first: NOON + 11, last: NOON + 21, requests: 2, failed: 1, ...sums },
      {
        ...{ ...row, id: first, name: 'mine', first: NOON + 1, last: NOON + 20, requests: 11, failed: 0 },
        ...{ ...sums, attempts: 11, input: 110, output: 55, cost: 770 },
      },
    ])
    const agents = reading((all) => all('SELECT agent, count(*) AS requests FROM request GROUP BY agent ORDER BY 2'))
    assert.deepEqual(
      agents.map(({ agent, requests }) => [agent, Number(requests)]),
      [
        ['agent', 5],
        [null, 9],
      ],
    )
    const limits = { keepDays: 1_000, keepHours: 1_000, maxMegabytes: 1_000 }
    await bookkeeper.sweep(limits, NOON + 30 * 86_400_000 + 21)
    assert.deepEqual(
      rows().map(({ id }) => id),
      [other],
    )
  })

  test('bookkeeper: journals become rows and sums; a stored segment of an ended process is deleted', async () => {
    const { journal, events, open, write, reading, checkSums } = given(engine)
    write(ENDED, count(700).flatMap(answered))
    const bookkeeper = open()
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(), { attempts: 700, requests: 700, cost: 49_000 })
    assert.deepEqual(listSegments(journal), [])
    assert.deepEqual(events, [{ event: 'ok' }])
    const [{ recorded, ...sum } = assert.fail('there are no sums')] = await bookkeeper.sums(NOON, [])
    assert.deepEqual(sum, { counter: 'bud_a', period_start: NOON, spent: 49_000, earlier: 49_000 })
    assert.deepEqual(
      recorded.map(({ run, spent }) => [run.endsWith(ENDED), spent]),
      [[true, 49_000]],
    )
    assert.deepEqual(await bookkeeper.sums(NOON + 1, []), [])
    assert.deepEqual(
      reading((all) => all('SELECT * FROM journal')),
      [],
    )
  })

  test('bookkeeper: the segment of a running process is kept and read on; earlier ones are deleted', async () => {
    const { journal, open, write, checkSums } = given(engine)
    const bookkeeper = open()
    write(OWN, answered(1), 1)
    write(OWN, answered(2), 2)
    await storeAll(bookkeeper)
    assert.deepEqual(
      listSegments(journal).map(({ number }) => number),
      [2],
    )
    const [opened = '', ended = ''] = journalLines(answered(3))
    write(OWN, [opened, ended.slice(0, 40)], 2)
    await storeAll(bookkeeper)
    assert.equal(checkSums().attempts, 2)
    write(OWN, [ended.slice(40)], 2)
    await storeAll(bookkeeper)
    assert.deepEqual(checkSums(), { attempts: 3, requests: 3, cost: 210 })
  })

  test('bookkeeper: open attempts of an ended process are closed as unknown at their reservation, once', async () => {
    const { open, write, reading, checkSums } = given(engine)
    write(ENDED, [openedRecord(1), openedRecord(2), closedRecord(2), openedRecord(3, { attempt: 1 }), '["c",1,'])
    write(OWN, [openedRecord(9)])
    for (let turn = 0; turn < 2; turn++) {
      const bookkeeper = open()
      await storeAll(bookkeeper)
      await bookkeeper.close()
      const rows = reading((all) => all('SELECT request, outcome, cost FROM attempt ORDER BY request'))
      assert.deepEqual(rows, [
        { request: 'req_1', outcome: 'unknown', cost: 500 },
        { request: 'req_2', outcome: 'ok', cost: 70 },
        { request: 'req_3', outcome: 'unknown', cost: 500 },
      ])
      assert.equal(reading((all) => all('SELECT call FROM open_call WHERE running = 1')).length, 1)
      assert.deepEqual(checkSums(), { attempts: 3, requests: 3, cost: 1_070 })
    }
  })

  test('bookkeeper: a request whose hedge ends late is stored when that ends, also by a later bookkeeper', async () => {
    const { open, write, reading, checkSums } = given(engine)
    const bookkeeper = open()
    const hedge = (call: number, cost: number) => closedRecord(call, { attempt: 1, cost })
    for (const call of count(3))
      write(OWN, [
        openedRecord(call),
        openedRecord(call, { attempt: 1, hedge: true }),
        closedRecord(call, { cost: call }),
        endedRecord(call),
      ])
    await storeAll(bookkeeper)
    assert.equal(checkSums().requests, 0)
    write(OWN, [hedge(3, 3_000), hedge(2, 2_000)])
    await storeAll(bookkeeper)
    // A bookkeeper that was started later continues.
    await bookkeeper.close()
    write(OWN, [hedge(1, 1_000)])
    await storeAll(open())
    assert.deepEqual(
      reading((all) => all('SELECT id, cost FROM request ORDER BY id')),
      [1, 2, 3].map((call) => ({ id: `req_${call}`, cost: 1_001 * call })),
    )
    assert.deepEqual(
      reading((all) => all('SELECT call FROM open_call')),
      [],
    )
    checkSums()
  })

  test('bookkeeper: malformed lines are skipped and reported, and the segment is kept as .broken', async () => {
    const { journal, events, open, write, checkSums } = given(engine)
    write(ENDED, [...answered(1), '["c",\n', '\0\0\n', ...answered(2)])
    await storeAll(open())
    assert.equal(checkSums().requests, 2)
    const segment = segmentFile(ENDED, 1)
    const offset = Buffer.byteLength(journalLines(answered(1)).join(''))
    assert.deepEqual(
      events.filter(({ event }) => event === 'malformed'),
      [{ event: 'malformed', segment, lines: 2, offset }],
    )
    assert.deepEqual(readdirSync(journal), [`${segment}.broken`])
  })

  test('bookkeeper: one works at a time; the next continues after it', async () => {
    const { open, write, checkSums } = given(engine)
    const [first, second] = [open(), open()]
    write(ENDED, answered(1))
    await storeAll(first)
    write(OWN, answered(2))
    await second.step()
    assert.equal(second.problem, 'another process stores the usage of this folder')
    await first.close()
    await storeAll(second)
    assert.deepEqual(checkSums(), { attempts: 2, requests: 2, cost: 140 })
  })

  test('bookkeeper: the cost of a request is unknown if that of an attempt is, and the others cost nothing', async () => {
    const { open, write, reading } = given(engine)
    const bookkeeper = open()
    const request = (call: number, costs: readonly (number | null)[]) => [
      ...costs.map((_, attempt) => openedRecord(call, { attempt })),
      ...costs.map((cost, attempt) => closedRecord(call, { attempt, cost })),
      endedRecord(call),
    ]
    write(OWN, [...request(1, [0, null]), ...request(2, [null]), ...request(3, [70, null]), ...request(4, [0, 0])])
    await storeAll(bookkeeper)
    const rows = reading((all) => all('SELECT cost FROM request ORDER BY id'))
    assert.deepEqual(
      rows.map(({ cost }) => cost),
      [null, null, 70, 0],
    )
  })

  test('bookkeeper: while it fails its lag grows from the last time that everything was stored, if anything waits', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: NOON })
    const { open, write } = given(engine)
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
    await first.close()
    await storeAll(second)
    const { lagMs, requests, attempts } = second.takeProgress()
    assert.deepEqual({ lagMs, requests, attempts }, { lagMs: 0, requests: 1, attempts: 1 })
    // An attempt counts when its request is complete.
    write(OWN, [openedRecord(2)])
    await storeAll(second)
    write(OWN, [closedRecord(2), endedRecord(2)])
    await storeAll(second)
    assert.equal(second.takeProgress().attempts, 2)
  })

  test('bookkeeper: an error before or after a commit loses and doubles nothing', async (t) => {
    const { events, open, write, reading, checkSums } = given(engine)
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
    let calls = 0
    const isBefore = () => ++calls % 7 === 1
    const isAfter = () => calls % 7 === 4
    const { exec } = DatabaseSync.prototype
    const { batch } = PostgresPool.prototype
    if (engine.name === 'SQLite')
      t.mock.method(DatabaseSync.prototype, 'exec', function (this: DatabaseSync, sql: string) {
        if (sql === 'COMMIT' && isBefore()) throw new Error('the disk has failed')
        exec.call(this, sql)
        if (sql === 'COMMIT' && isAfter()) throw new Error('the disk has failed after the commit')
      })
    else
      t.mock.method(
        PostgresPool.prototype,
        'batch',
        async function (this: PostgresPool, ...given: Parameters<typeof batch>) {
          if (isBefore()) throw new Error('the connection has failed')
          const results = await batch.apply(this, given)
          if (isAfter()) throw new Error('the connection has failed after the commit')
          return results
        },
      )
    const bookkeeper = open()
    for (let turn = 0; turn < 100; turn++) await bookkeeper.step()
    assert.equal(bookkeeper.problem, null)
    assert.ok(events.some(({ event }) => event === 'degraded'))
    assert.deepEqual(checkSums(), { attempts: 1_200, requests: 1_200, cost: 84_000 })
    // A hedge of each is in progress.
    assert.equal(reading((all) => all('SELECT call FROM open_call WHERE running = 1')).length, 300)
  })

  test('bookkeeper: attempts of version 1 are read without units, and later ones with them', async () => {
    const { open, write, reading } = given(engine)
    write(ENDED, [openedRecord(1), closedRecord(1), endedRecord(1)])
    const first = open()
    await storeAll(first)
    await first.close()
    // As version 1 left it.
    reading((all) => all('DROP VIEW attempt'))
    reading((all) => all('CREATE VIEW attempt AS SELECT received FROM request'))
    for (const table of ['usage_day', 'usage_hour'])
      reading((all) => all(`ALTER TABLE ${table} DROP COLUMN server_error`))
    reading((all) => all('DROP TABLE shape_day'))
    reading((all) => all('UPDATE schema_version SET version = 1'))
    write(OWN, [openedRecord(2), closedRecord(2, { units: { unit: 'seconds', count: 9 } }), endedRecord(2)])
    const second = open()
    await storeAll(second)
    assert.equal(second.problem, null)
    const rows = reading((all) => all('SELECT n, unit, units FROM attempt ORDER BY units IS NULL'))
    assert.deepEqual(
      rows.map(({ unit, units }) => [unit, units === null ? null : Number(units)]),
      [
        ['seconds', 9],
        [null, null],
      ],
    )
  })

  test('bookkeeper: a database of a newer version is not touched', async () => {
    const { events, open, reading } = given(engine)
    const first = open()
    await storeAll(first)
    await first.close()
    reading((all) => all('UPDATE schema_version SET version = 9, oldest_reader = 9'))
    const second = open()
    await second.step()
    assert.match(
      second.problem ?? '',
      /(usage\.db|the schema headgate_usage) was written by a newer version of Headgate \(schema version 9, supported: 4\)/,
    )
    assert.equal(events.at(-1)?.event, 'degraded')
  })

  test('bookkeeper: expired rows are deleted in batches and the file shrinks; sums and open attempts stay', async () => {
    const { folder, open, write, reading } = given(engine)
    const bookkeeper = open()
    write(ENDED, count(12_000).flatMap(answered))
    write(OWN, [openedRecord(1)])
    await storeAll(bookkeeper)
    const size = () => (engine.name === 'SQLite' ? statSync(join(folder, USAGE_FILE)).size : 0)
    const limits = { keepDays: 30, keepHours: 90, maxMegabytes: 1_000 }
    const now = NOON + 31 * 86_400_000
    assert.equal(await bookkeeper.sweep(limits, NOON), false)
    const before = size()
    let batches = 1
    while (await bookkeeper.sweep(limits, now)) batches++
    // Postgres drops the day.
    assert.ok(batches >= (engine.name === 'SQLite' ? 6 : 2), `${batches} batches`)
    assert.deepEqual(
      reading((all) => all('SELECT outcome FROM attempt')),
      [],
    )
    assert.equal(reading((all) => all('SELECT call FROM open_call')).length, 1)
    const hours = () => reading((all) => all('SELECT sum(requests) requests FROM usage_hour'))[0]?.requests
    assert.equal(hours(), 12_000)
    assert.ok(size() <= before / 4, `${before} → ${size()} bytes`)
    while (await bookkeeper.sweep(limits, NOON + 91 * 86_400_000));
    while (await bookkeeper.sweep(limits, NOON + 93 * 86_400_000));
    assert.equal(hours(), null, 'hours are deleted, days are not')
    assert.equal(reading((all) => all('SELECT sum(requests) requests FROM usage_day'))[0]?.requests, 12_000)
  })

  test('bookkeeper: beyond maxMegabytes the oldest rows are deleted', async () => {
    const { folder, open, write, reading } = given(engine)
    const bookkeeper = open()
    const day = 86_400_000
    const on = (at: number) => (call: number) => [
      openedRecord(call, { at }),
      closedRecord(call, { at }),
      endedRecord(call, { received: at, at, request: `r_${call}` }),
    ]
    write(
      ENDED,
      count(12_000).flatMap((call) => on(NOON + call)(call)),
    )
    write(
      ENDED,
      count(8_000).flatMap((call) => on(NOON + day + call)(12_000 + call)),
    )
    await storeAll(bookkeeper)
    const limits = { keepDays: 30, keepHours: 90, maxMegabytes: 4 }
    while (await bookkeeper.sweep(limits, NOON + day));
    const [left] = reading((all) => all('SELECT count(*) AS rows, min(received) oldest FROM request'))
    // Postgres drops whole days, but the present one.
    const oldest = engine.name === 'SQLite' ? NOON + 5_000 : NOON + day
    assert.ok(Number(left?.rows) > 0 && Number(left?.oldest) > oldest, JSON.stringify(left))
    if (engine.name === 'SQLite') assert.ok(statSync(join(folder, USAGE_FILE)).size <= 4 * 1_048_576)
  })

  test('bookkeeper: what earlier processes have spent is known apart, also of several runs', async () => {
    const { options, open, write, reading } = given(engine)
    const { start, pid } = options.process
    const bookkeeper = open()
    const workers = [start - 1, start + 1].map((at) => processName({ start: at, pid, worker: 1 }))
    for (const [index, name] of [ENDED, OWN, ...workers].entries()) write(name, answered(index))
    await storeAll(bookkeeper)
    await bookkeeper.adjust({ ...correction, id: 'adj_1', amount: -200 })
    const sums = async (of: Bookkeeper) => (await of.sums(NOON, [])).map(({ spent, earlier }) => [spent, earlier])
    assert.deepEqual(await sums(bookkeeper), [[80, 140]])
    await bookkeeper.close()

    const next = new Bookkeeper({ ...options, process: { start: start + 2, pid, worker: 0 } }, () => {})
    closers.push(() => next.close())
    await storeAll(next)
    assert.deepEqual(await sums(next), [[80, 80]])
    const rows = () => reading((all) => all('SELECT spent FROM budget_sum'))
    const parts = () => reading((all) => all('SELECT spent FROM process_sum')).length
    assert.equal(parts(), 4)
    const limits = { keepDays: 30, keepHours: 90, maxMegabytes: 1_000 }
    // Shared counters may need the parts of processes that were killed.
    while (await next.sweep(limits, start + MERGE_AFTER));
    assert.equal(parts(), 4)
    while (await next.sweep(limits, start + 3 + MERGE_AFTER));
    assert.deepEqual(rows(), [{ spent: 80 }])
    assert.ok(parts() <= 1)
    assert.deepEqual(await sums(next), [[80, 80]])
  })

  test('bookkeeper: adjustments are part of what a counter has spent; a reset leaves nothing; none is stored twice', async () => {
    const { open, write, reading } = given(engine)
    const bookkeeper = open()
    write(OWN, count(10).flatMap(answered))
    await storeAll(bookkeeper)
    const spent = async () => (await bookkeeper.sums(NOON, [])).map((row) => row.spent)
    assert.deepEqual(await bookkeeper.adjust({ ...correction, id: 'adj_1', amount: -200 }), {
      amount: -200,
      isNew: true,
    })
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
      reading((all) => all('SELECT id, amount FROM adjustment')),
      [
        { id: 'adj_1', amount: -200 },
        { id: 'adj_2', amount: -500 },
        { id: 'adj_3', amount: 9 },
      ],
    )
  })

  test('bookkeeper: attempts have the key and the team of their request', async () => {
    const { open, write, reading } = given(engine)
    write(ENDED, [openedRecord(1, { tag: 'search' }), closedRecord(1), endedRecord(1, { tag: 'search' })])
    await storeAll(open())
    reading((all) => {
      assert.deepEqual(all('SELECT key, team FROM attempt'), [{ key: 'key_a', team: 'team_a' }])
      assert.equal(all("SELECT sum(requests) requests FROM usage_day WHERE tag = 'search'")[0]?.requests, 1)
    })
  })

  test('bookkeeper: killed in the middle, the next one loses and doubles nothing', { timeout: 120_000 }, async () => {
    const { root, folder, journal, options, open, write, checkSums } = given(engine)
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
    import { thisProcess } from ${script('../journal/segment-files.ts')}
    const bookkeeper = new Bookkeeper({ ...${JSON.stringify(options)}, process: thisProcess() }, () => {})
    while (await bookkeeper.step()) writeSync(1, 'x')
    writeSync(1, 'y')
    setInterval(() => {}, 1_000)`
    const within = engine.name === 'SQLite' ? 60 : 600
    for (let kills = 0; kills < 4; kills++) await killed(code, { root, within, name: `bookkeeper-${kills}` })
    assert.equal(existsSync(join(folder, USAGE_FILE)), engine.name === 'SQLite')
    await storeAll(open())
    const { attempts } = checkSums()
    assert.equal(attempts, requests + requests / 5)
    assert.deepEqual(listSegments(journal), [])
  })
})

test('bookkeeper: a deleted database is created again', async () => {
  const { folder, open, write, checkSums } = given(SQLITE)
  const bookkeeper = open()
  write(OWN, answered(1))
  await storeAll(bookkeeper)
  for (const file of ['', '-wal', '-shm']) rmSync(join(folder, USAGE_FILE + file), { force: true })
  write(OWN, answered(2))
  await storeAll(bookkeeper)
  assert.equal(checkSums().requests, 2)
})

test('bookkeeper: a full disk is reported, and nothing is lost when there is room', async (t) => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return t.skip('mounting needs root on Linux')
  const { root, folder: unused, journal, write } = given(SQLITE)
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
    { folder, journal, database: null, node: 'n1', timezone: 'UTC', syncs: false, process: thisProcess() },
    (event) => events.push(event),
  )
  closers.push(() => bookkeeper.close())
  for (let turn = 0; turn < 60 && bookkeeper.problem === null; turn++) await bookkeeper.step()
  assert.match(bookkeeper.problem ?? '', /full/)
  mount('remount,size=64m')
  for (let turn = 0; turn < 60; turn++) await bookkeeper.step()
  await storeAll(bookkeeper)
  assert.deepEqual(checkSums(SQLITE, folder), { attempts: 5_000, requests: 5_000, cost: 350_000 })
  assert.deepEqual(
    events.map(({ event }) => event),
    ['degraded', 'ok'],
  )
})

test(`bookkeeper: after kill -9 of ${KILLS} writers every acknowledged attempt has exactly one row`, {
  timeout: 30_000 + KILLS * 3_000,
}, async () => {
  const { root, journal, open, reading, checkSums } = given(SQLITE)
  const bookkeeper = open()
  // In a file, as ten thousand writers acknowledge millions.
  const file = join(root, 'acknowledged.db')
  const acknowledged = new DatabaseSync(file)
  closers.push(() => acknowledged.close())
  acknowledged.exec('PRAGMA synchronous = OFF; CREATE TABLE acknowledged (request TEXT, n INTEGER)')
  const insert = acknowledged.prepare('INSERT INTO acknowledged VALUES (?, ?)')
  let [run, running, total] = [0, PARALLEL, 0]
  const runs = async () => {
    while (run < KILLS) {
      const name = `output-${++run}`
      const output = await killed(writerCode(journal, run), { root, within: 30, name })
      const lines = output.split('\n').slice(0, -1)
      acknowledged.exec('BEGIN')
      for (const line of lines) insert.run(...line.split(' '))
      acknowledged.exec('COMMIT')
      total += lines.length
      rmSync(join(root, name))
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

  const rows = reading((all) => {
    all(`ATTACH '${file}' AS test`)
    const doubled = 'SELECT request, n FROM attempt GROUP BY request, n HAVING count(*) > 1 LIMIT 5'
    assert.deepEqual(all(doubled), [], 'no row is doubled')
    const missing = 'SELECT request, n FROM test.acknowledged EXCEPT SELECT request, n FROM attempt LIMIT 5'
    assert.deepEqual(all(missing), [], 'no row is missing')
    return Number(all('SELECT count(*) AS rows FROM attempt')[0]?.rows)
  })
  // Written, but killed before the acknowledgement.
  assert.ok(rows - total <= 64 * KILLS)
  assert.deepEqual(
    reading((all) => all('SELECT call FROM open_call')),
    [],
  )
  const { attempts } = checkSums()
  assert.equal(attempts, rows)
  assert.deepEqual(listSegments(journal), [])
})
