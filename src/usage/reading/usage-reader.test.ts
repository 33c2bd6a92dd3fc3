/** The reading thread: its start and end, its limits, and what happens to queries that wait. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { endedRecord, NOON } from '../../../test/support/ledger-records.ts'
import { fillLedger, usageLedger } from '../../../test/support/usage-ledger.ts'
import { USAGE_FILE } from '../journal/file.ts'
import type { UsageQuery } from './queries.ts'

const HOUR = 3_600_000
const USAGE: UsageQuery = {
  from: NOON - 24 * HOUR,
  to: NOON + HOUR,
  by: [],
  bucket: 'none',
  tz: null,
  filter: {},
  limit: 100,
  after: null,
}
/** The threads that the reader starts. */
const watchThreads = (t: TestContext) => {
  const threads: { readonly thread: Worker; readonly isRunning: () => boolean }[] = []
  class Watched extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args)
      let isRunning = true
      this.once('exit', () => {
        isRunning = false
      })
      threads.push({ thread: this, isRunning: () => isRunning })
    }
  }
  t.mock.method(process, 'getBuiltinModule', () => ({ Worker: Watched }))
  return threads
}

const until = async (is: () => boolean, what: string) => {
  for (const end = performance.now() + 120_000; !is(); await sleep(10)) assert.ok(performance.now() < end, what)
}

test('reader: without recorded usage results are empty; a file that appears or is replaced is read', async () => {
  await using ledger = usageLedger({ now: NOON })
  const count = async () => {
    const report = await ledger.reader.usage(USAGE)
    return report.ok ? report.value.total.requests : report.failure.message
  }
  assert.equal(await count(), 0)
  await ledger.store([endedRecord(1)])
  assert.equal(await count(), 1)
  for (const end of ['', '-wal', '-shm']) rmSync(join(ledger.folder, USAGE_FILE + end), { force: true })
  assert.equal(await count(), 0)
  await ledger.store([endedRecord(2), endedRecord(3)])
  // The journal still has the first one.
  assert.equal(await count(), 3)
})

test('reader: the thread starts with the first query and ends when it is idle', async (t) => {
  const threads = watchThreads(t)
  await using ledger = usageLedger({ now: NOON, idle: 50 })
  assert.equal(threads.length, 0)
  assert.ok((await ledger.reader.usage(USAGE)).ok)
  assert.equal(threads.length, 1)
  await until(() => threads[0]?.isRunning() === false, 'it ends')
  assert.ok((await ledger.reader.usage(USAGE)).ok)
  assert.equal(threads.length, 2)
})

test('reader: a statement that takes too long is ended with its thread, and the other queries run in a new one', async (t) => {
  const threads = watchThreads(t)
  await using ledger = usageLedger({ now: NOON, limit: 5 })
  await ledger.store([])
  fillLedger(ledger.folder, { count: 60_000, end: NOON, days: 3, trail: 'openai#a1f3:503 '.repeat(60) })
  // The thread runs, so that the limit is that of queries alone.
  assert.ok((await ledger.reader.incidents({ from: NOON, to: NOON + 1 })).ok)
  const [slow, next] = await Promise.all([
    ledger.reader.endUsers({ from: NOON - 100 * HOUR, to: NOON, filter: {}, limit: 10 }),
    ledger.reader.usage(USAGE),
  ])
  assert.ok(!slow.ok)
  assert.deepEqual(slow.failure, {
    kind: 'deadline',
    message:
      'The query of the usage data took longer than 0.005 s. Narrow the range (from, to), add filters, or repeat it: a report of usage continues where it was.',
  })
  assert.ok(next.ok, next.ok ? '' : next.failure.message)
  assert.ok(next.value.total.requests > 18_000)
  assert.equal(threads.length, 2)
  await until(() => threads[0]?.isRunning() === false, 'the thread of the slow query ends')
})

test('reader: a limited number of queries waits, and all of them fail when it closes', async () => {
  await using ledger = usageLedger({ now: NOON })
  await ledger.store([])
  const all = Array.from({ length: 80 }, () => ledger.reader.facets({ team: null }))
  const busy = await Promise.all(all.slice(68))
  for (const result of busy) {
    assert.ok(!result.ok)
    assert.equal(result.failure.kind, 'busy')
    assert.match(result.failure.message, /64 queries of the usage data are waiting \(limit 64\)\. Retry/)
  }
  await ledger.reader.close()
  const kinds = (await Promise.all(all.slice(0, 68))).map((result) => (result.ok ? 'ok' : result.failure.kind))
  assert.ok(kinds.includes('shutdown') && kinds.every((kind) => kind === 'ok' || kind === 'shutdown'), kinds.join())
  const late = await ledger.reader.facets({ team: null })
  assert.equal(late.ok ? 'ok' : late.failure.kind, 'shutdown')
})

test('reader: what is in the journal is stored first, unless that takes too long', async () => {
  let flushes = 0
  let flush = async (): Promise<string | null> => null
  await using ledger = usageLedger({
    now: NOON,
    flush: () => {
      flushes++
      return flush()
    },
  })
  flush = async () => {
    await ledger.store([endedRecord(1)])
    return null
  }
  const fresh = await ledger.reader.request({ id: 'req_1', key: 'key_a', team: null })
  assert.ok(fresh.ok && fresh.value?.id === 'req_1')
  flush = () => new Promise(() => {})
  const stale = await ledger.reader.request({ id: 'req_1', key: 'key_a', team: null })
  assert.ok(stale.ok && stale.value?.id === 'req_1')
  assert.equal(flushes, 2)
})

test('reader: a damaged file is a problem without a path, and the next query works when it is repaired', async () => {
  await using ledger = usageLedger({ now: NOON })
  writeFileSync(join(ledger.folder, USAGE_FILE), 'no database '.repeat(1_000))
  const damaged = await ledger.reader.usage(USAGE)
  assert.ok(!damaged.ok)
  assert.equal(damaged.failure.kind, 'storage')
  assert.match(damaged.failure.message, /not a database.*DATA_DIR/)
  assert.ok(!damaged.failure.message.includes(ledger.folder))
  rmSync(join(ledger.folder, USAGE_FILE))
  assert.ok((await ledger.reader.usage(USAGE)).ok)
})

test('reader: a thread that ends is started again', async (t) => {
  const threads = watchThreads(t)
  await using ledger = usageLedger({ now: NOON })
  assert.ok((await ledger.reader.usage(USAGE)).ok)
  await threads[0]?.thread.terminate()
  assert.ok((await ledger.reader.usage(USAGE)).ok)
  assert.equal(threads.length, 2)
})

const inProcess = (args: readonly string[], after: string) => {
  const code = `import { UsageReader } from ${JSON.stringify(import.meta.resolve('./usage-reader.ts'))}
    const names = { key: () => null, team: () => null }
    const reader = new UsageReader({ folder: '/nowhere', timezone: 'UTC', keepHours: () => 90, date: () => 0,
      flush: async () => null, names })
    ${after}`
  return spawnSync(process.execPath, [...args, '--input-type=module', '-e', code], {
    timeout: 60_000,
    encoding: 'utf8',
  })
}

test('reader: the process waits for results, and ends although the thread is idle', () => {
  const { status, stdout, stderr } = inProcess([], 'console.log((await reader.facets({ team: null })).ok)')
  assert.deepEqual([status, stdout], [0, 'true\n'], stderr)
})

test('reader: without a thread the problem is returned', () => {
  const { stdout, stderr } = inProcess(
    ['--permission', '--allow-fs-read=*'],
    'console.log((await reader.facets({ team: null })).failure.message)',
  )
  assert.match(stdout, /its thread cannot start/, stderr)
})

test('reader: readers of the same question share an answer if they allow it, and others never do', async () => {
  let now = NOON + 60_000
  let flushes = 0
  await using ledger = usageLedger({
    now,
    date: () => now,
    flush: async () => {
      flushes++
      return null
    },
  })
  await ledger.store([endedRecord(1)])
  const summary = (shared: boolean, team?: readonly string[]) =>
    ledger.reader.summary({ from: now - 900_000, to: now, filter: team ? { team } : {}, compare: true, shared })
  const asked: ReturnType<typeof summary>[] = []
  // Each begins its range a moment later.
  for (let n = 0; n < 10; n++, now += 7) asked.push(summary(true))
  const [first, ...others] = await Promise.all(asked)
  assert.ok(first?.ok)
  assert.equal(first.value.figures.requests, 1)
  assert.ok(others.every((one) => one === first))
  assert.equal(flushes, 1)
  const [mine, fresh] = await Promise.all([summary(true, ['team_b']), summary(false)])
  assert.ok(mine.ok && fresh.ok)
  assert.deepEqual([mine.value.figures.requests, fresh.value.figures.requests, flushes], [0, 1, 3])
})

test('reader: a shared answer has what was read of past buckets before, another one has all', async () => {
  let now = NOON
  await using ledger = usageLedger({ now, date: () => now })
  await ledger.store([endedRecord(1)])
  const requests = async (shared: boolean, range: number) => {
    const query = { from: now - range, to: now, filter: {}, compare: false, shared }
    const found = await ledger.reader.summary(query)
    return found.ok ? found.value.figures.requests : found.failure.message
  }
  now = NOON + 600_000
  assert.equal(await requests(true, 3_600_000), 1)
  // A request that began long ago has ended now.
  await ledger.store([endedRecord(2)])
  now += 10_000
  // A range of another length is another question, with the same buckets.
  assert.equal(await requests(true, 3_400_000), 1)
  assert.equal(await requests(false, 3_400_000), 2)
  now += 600_000
  assert.equal(await requests(true, 3_500_000), 2)
})
