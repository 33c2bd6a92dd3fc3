import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, type TestContext, test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { USAGE_FILE } from '../journal/file.ts'
import { JournalWriter } from '../journal/journal-writer.ts'
import { listSegments, processName, thisProcess } from '../journal/segment-files.ts'
import type { BookkeeperEvent } from './bookkeeper.ts'
import { LedgerClient, type LedgerClientOptions } from './ledger-client.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const given = () => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-books-'))
  closers.push(() => rmSync(root, { recursive: true, force: true }))
  const [folder, journal] = [join(root, 'data'), join(root, 'data', 'journal')]
  const events: BookkeeperEvent[] = []
  let keepDays = 100_000
  const options: LedgerClientOptions = {
    folder,
    journal,
    database: null,
    node: 'n1',
    timezone: 'UTC',
    syncs: true,
    interval: 250,
    process: thisProcess(),
    limits: () => ({ keepDays, keepHours: 100_000, maxMegabytes: 1_000 }),
    report: (event) => events.push(event),
  }
  /** Another client, after the first one is closed. */
  const later = () => {
    const client = new LedgerClient(options)
    closers.push(() => client.close())
    return client
  }
  const client = later()
  const writer = new JournalWriter({
    folder: journal,
    process: processName(thisProcess()),
    sync: 'interval',
    whenUnwritable: 'serve',
    spoolBytes: 2 ** 30,
    changed() {},
  })
  closers.push(() => writer.close())
  const serve = async (from: number, to: number) => {
    for (let call = from; call <= to; call++) {
      writer.openAttempt(openedRecord(call), { onJournaled: () => writer.append(closedRecord(call)) })
      await turn()
      writer.append(endedRecord(call))
    }
    writer.openAttempt(openedRecord(to + 100_000), { onJournaled() {} })
    await turn()
  }
  const keep = (days: number) => {
    keepDays = days
    client.limitsChanged()
  }
  return { root, folder, journal, events, client, later, writer, serve, keep }
}

const requestsIn = (folder: string): number => {
  const database = new DatabaseSync(join(folder, USAGE_FILE))
  const row = database.prepare('SELECT count(*) requests FROM request').get()
  database.close()
  return Number(row?.requests)
}

const until = async (is: () => boolean | Promise<boolean>, what: string) => {
  for (const end = performance.now() + 120_000; !(await is()); await sleep(10)) assert.ok(performance.now() < end, what)
}

/** The threads that the client starts. */
const watchThreads = (t: TestContext): readonly Worker[] => {
  const threads: Worker[] = []
  class Watched extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args)
      threads.push(this)
    }
  }
  t.mock.method(process, 'getBuiltinModule', () => ({ Worker: Watched }))
  return threads
}

test('ledger: what is in the journal is stored at intervals, and at once on request', async () => {
  const { folder, client, serve, events } = given()
  client.start()
  await serve(1, 20)
  assert.equal(await client.flush(), null)
  assert.equal(requestsIn(folder), 20)
  const { journalBytes, commits, ...counts } = client.progress
  assert.deepEqual(counts, { records: 41, orphans: 0, requests: 20, attempts: 20, lagMs: 0, telemetry: {} })
  assert.ok(journalBytes > 41 && commits.length > 0)
  await serve(21, 30)
  await until(() => requestsIn(folder) === 30, 'stored without a request')
  const sums = await client.sums(NOON, [])
  assert.ok(typeof sums !== 'string')
  assert.deepEqual(
    sums.map(({ counter, spent }) => [counter, spent]),
    [['bud_a', 30 * 70]],
  )
  assert.deepEqual(events, [])
})

test('ledger: an adjustment is stored after what is in the journal', async () => {
  const { client, serve } = given()
  await serve(1, 20)
  const reset = { id: 'adj_1', at: NOON, budget: 'bud_a', counter: 'bud_a', period_start: NOON, key: null }
  const adjusted = await client.adjust({
    ...reset,
    amount: 'reset',
    reason: 'an incident',
    actor: 'adm_a',
    process: '',
  })
  assert.deepEqual(adjusted, { amount: -20 * 70, isNew: true })
  const sums = await client.sums(NOON, [])
  assert.ok(typeof sums !== 'string')
  assert.equal(sums[0]?.spent, 0)
})

test('ledger: what a process has spent is known, with its adjustments, also to a thread that starts later', async () => {
  const { client, later, serve } = given()
  const own = processName(thisProcess())
  await serve(1, 20)
  const of = { id: 'adj_1', at: NOON, budget: 'bud_a', counter: 'bud_a', period_start: NOON, key: null }
  await client.adjust({ ...of, amount: -70, reason: 'an incident', actor: 'adm_a', process: own })
  const spent = [{ counter: 'bud_a', periodStart: NOON, spent: 19 * 70 }]
  assert.deepEqual(await client.spentBy(own), spent)
  await client.close()
  assert.deepEqual(await later().spentBy(own), spent)
})

test('ledger: a journal that is not stored within the limit is a problem of the query only', async () => {
  const { folder, client, serve } = given()
  await serve(1, 20)
  // The thread cannot start within this time.
  assert.equal(await client.flush(1), 'no result within 0.001 s')
  assert.equal(client.problem, null)
  assert.equal(await client.flush(), null)
  assert.equal(requestsIn(folder), 20)
})

test('ledger: close stores the rest and ends the thread', async () => {
  const { folder, client, writer, serve } = given()
  // The time limit of `close` is not for the start of the thread.
  assert.equal(await client.flush(), null)
  await serve(1, 1_000)
  writer.close()
  await client.close()
  assert.equal(requestsIn(folder), 1_000)
  assert.equal(await client.flush(), 'the gateway is shutting down')
})

test('ledger: a thread that ends is reported and started again, and continues exactly', async (t) => {
  const { folder, client, serve, events } = given()
  const threads = watchThreads(t)
  client.start()
  for (let kill = 0; kill < 3; kill++) {
    await serve(kill * 500 + 1, kill * 500 + 500)
    const flushed = client.flush()
    await sleep(Math.random() * 20)
    await threads.at(-1)?.terminate()
    await flushed
    await until(() => client.problem === null, 'it works again')
  }
  assert.equal(await client.flush(), null)
  assert.equal(requestsIn(folder), 1_500)
  const sums = await client.sums(NOON, [])
  assert.ok(typeof sums !== 'string')
  assert.equal(sums[0]?.spent, 1_500 * 70)
  assert.equal(threads.length, 4)
  assert.deepEqual(
    events.map(({ event }) => event),
    ['degraded', 'ok', 'degraded', 'ok', 'degraded', 'ok'],
  )
})

test('ledger: a database that cannot be opened is a problem without a path, and the journal is kept', async () => {
  const { root, folder, journal, client, writer, serve, events } = given()
  await serve(1, 5)
  writeFileSync(join(folder, USAGE_FILE), 'no database '.repeat(1_000))
  client.start()
  assert.match((await client.flush()) ?? '', /not a database/)
  assert.match(client.problem ?? '', /not a database/)
  assert.ok(!JSON.stringify(events).includes(root))
  assert.equal(listSegments(journal).length, 1)
  rmSync(join(folder, USAGE_FILE))
  await until(() => client.problem === null, 'it works again')
  writer.close()
  assert.equal(await client.flush(), null)
  assert.equal(requestsIn(folder), 5)
})

test('ledger: changed limits delete rows', async () => {
  const { folder, client, serve, keep } = given()
  client.start()
  await serve(1, 50)
  assert.equal(await client.flush(), null)
  keep(-10_000)
  await until(() => requestsIn(folder) === 0, 'the rows are deleted')
})

const inProcess = (folder: string, args: readonly string[], after: string) => {
  const options = {
    folder,
    journal: join(folder, 'journal'),
    node: 'n',
    timezone: 'UTC',
    syncs: false,
    interval: 250,
    process: thisProcess(),
  }
  const code = `import { LedgerClient } from ${JSON.stringify(import.meta.resolve('./ledger-client.ts'))}
    const limits = { keepDays: 1, keepHours: 1, maxMegabytes: 1 }
    const client = new LedgerClient({ ...${JSON.stringify(options)}, limits: () => limits, report() {} })
    client.start()
    ${after}`
  return spawnSync(process.execPath, [...args, '--input-type=module', '-e', code], {
    timeout: 60_000,
    encoding: 'utf8',
  })
}

test('ledger: its thread does not keep the process alive', () => {
  const { folder } = given()
  const { status, stderr } = inProcess(folder, [], '')
  assert.equal(status, 0, stderr)
})

test('ledger: without a thread the problem is reported', () => {
  const { folder } = given()
  const { stdout, stderr } = inProcess(
    folder,
    ['--permission', '--allow-fs-read=*'],
    'process.stdout.write(client.problem)',
  )
  assert.match(stdout, /thread cannot start/, stderr)
})
