/**
 * A ledger on a disk that fails, and processes that are killed in mid-load: requests are served, or refused where nothing
 * may be served unrecorded, and every call that reached an upstream has one row once the fault is over.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { object } from '../../src/core/json.ts'
import { failOften } from '../support/answers.ts'
import { openControl } from '../support/control.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { gauge, skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'
import { fileOf } from './support/stage.ts'
import { checkStoredUsage, untilComplete, untilStored } from './support/stored-usage.ts'

const ADMIN = 'admin-0123456789abcdef'
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})
let upstream: Upstream
before(async () => {
  upstream = await startUpstream(failOften)
  closers.push(() => upstream.close())
})

const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-disk-'))
  closers.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const mount = (options: string, folder: string): string => {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { encoding: 'utf8' })
  return status === 0 ? '' : String(stderr)
}
const unmount = (folder: string) => spawnSync('umount', ['-l', folder])
const canMount = process.platform === 'linux' && process.getuid?.() === 0
const skip = canMount ? false : 'mounting needs root on Linux'

const begin = async (data: string, settings: object = {}, more: Parameters<typeof start>[0] = {}): Promise<Started> => {
  const file = fileOf({
    circuit: { minRequests: 1_000_000, consecutiveFailures: 0 },
    providers: Object.fromEntries(['first', 'second'].map((name) => [name, { baseUrl: `${upstream.url}/${name}/v1` }])),
    routes: { r: { targets: ['first/m', 'second/m'] } },
    prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
    budgets: { all: { amount: '1000', period: 'total' } },
    // From the start, some disks cannot be read.
    budget: { whenUnknown: 'serve' },
    auth: { admin: ADMIN },
    ...settings,
  })
  const gateway = await start({ ...more, env: { DATA_DIR: data, ...more.env }, files: { 'headgate.yaml': file } })
  closers.push(() => gateway.stop())
  return gateway
}
const kill = async ({ child }: Started) => {
  const exited = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await exited
}

let calls = 0
/** Sends a call whose name the upstream receives; 0 as status: no answer. */
const ask = async ({ base }: Pick<Started, 'base'>, headers: Readonly<Record<string, string>> = {}) => {
  const id = `call-${++calls}`
  const body = { model: 'r', max_tokens: 10, messages: [{ role: 'user', content: id }] }
  const answer = await post(`${base}/chat/completions`, body, { 'x-request-id': id, ...headers }).catch(() => null)
  return { id, status: answer?.status ?? 0, text: answer?.text ?? '' }
}
const askMany = async (gateway: Started, count: number, headers: Readonly<Record<string, string>> = {}) => {
  const answers: Awaited<ReturnType<typeof ask>>[] = []
  let begun = 0
  const next = async () => {
    while (begun++ < count) answers.push(await ask(gateway, headers))
  }
  await Promise.all(Array.from({ length: 20 }, next))
  return answers
}
const statusesOf = (answers: readonly { readonly status: number }[]) => [
  ...new Set(answers.map(({ status }) => status)),
]
/** The calls that upstreams received since `from`, by the ID of their request. */
const received = (from = 0): readonly string[] =>
  upstream.requests
    .slice(from)
    .filter(({ method }) => method === 'POST')
    .map(({ body }) => /call-\d+/.exec(body)?.[0] ?? '')

type Health = { readonly status: string; readonly problems?: readonly { component: string; reason: string }[] }
const healthOf = async ({ url }: Started) =>
  // The shape of the page is checked by the tests of its schema.
  (await (await fetch(`${url}/health`, { headers: { connection: 'close' } })).json()) as Health
const untilLedger = async (gateway: Started, works: boolean, keepsAsking = false): Promise<Health> => {
  for (const end = performance.now() + 120_000; ; await sleep(50)) {
    if (keepsAsking) await ask(gateway)
    const health = await healthOf(gateway)
    if ((health.problems ?? []).some(({ component }) => component === 'ledger') !== works) return health
    assert.ok(performance.now() < end, JSON.stringify(health))
  }
}

const countsOf = (ids: readonly string[]): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}

/**
 * Every call that was received since `from` has one row. What was recorded, but not sent before the process was killed, has
 * a row too.
 */
const assertRows = async (data: string, from: number) => {
  const calls = countsOf(received(from))
  const usage = await untilStored(data, 'every call', ({ attempts }) => {
    const rows = countsOf(attempts.map(({ request }) => request))
    return [...calls].every(([id, count]) => (rows.get(id) ?? 0) >= count)
  })
  const rows = countsOf(usage.attempts.map(({ request }) => request))
  const unknown = new Set(usage.attempts.filter(({ outcome }) => outcome === 'unknown').map(({ request }) => request))
  for (const [id, stored] of rows) {
    const count = calls.get(id) ?? 0
    assert.ok(stored === count || (unknown.has(id) && stored === count + 1), `${id}: ${count} calls, ${stored} rows`)
  }
  await untilComplete(data)
  checkStoredUsage(data, { budgets: true })
}

// ── The disk ─────────────────────────────────────────────────────────────────────────────────────────────────────

describe('a full disk', { skip }, () => {
  const small = () => {
    const folder = newFolder()
    assert.equal(mount('size=12m', folder), '')
    closers.push(() => unmount(folder))
    return folder
  }
  /** Uses all of the free space; returns the file. */
  const fill = (folder: string): string => {
    const file = join(folder, 'filler')
    for (let size = 1_048_576; size >= 1; size = Math.floor(size / 2))
      try {
        for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
      } catch {
        // Smaller pieces may still fit.
      }
    return file
  }

  test('with `serve` no request fails, the loss is counted and on the health page, and recording continues by itself', async () => {
    const data = small()
    const gateway = await begin(data)
    const from = upstream.requests.length
    assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
    await assertRows(data, from)
    const filler = fill(data)
    // More than the 10,000 records that wait in memory.
    assert.deepEqual(statusesOf(await askMany(gateway, 5_400)), [200])
    const health = await untilLedger(gateway, false)
    assert.equal(health.status, 'degraded')
    assert.match(health.problems?.find(({ component }) => component === 'ledger')?.reason ?? '', /full|space|ENOSPC/i)
    assert.ok(!JSON.stringify(health).includes(data), 'no path is shown')
    const dropped = await gauge(gateway, 'headgate_ledger_dropped_total')
    assert.ok(dropped > 0, 'the loss is counted')
    rmSync(filler)
    await untilLedger(gateway, true, true)
    const later = upstream.requests.length
    assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
    await untilStored(data, 'later calls', ({ requests }) => {
      const ids = new Set(requests.map(({ id }) => id))
      return received(later).every((id) => ids.has(id))
    })
    assert.equal(await gateway.stop(), 0)
    checkStoredUsage(data, { budgets: true })
  })

  test('with `refuse` nothing is served unrecorded, with a clear error, and service continues by itself', async () => {
    const data = small()
    const gateway = await begin(data, { ledger: { whenUnwritable: 'refuse' } })
    const from = upstream.requests.length
    assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
    const filler = fill(data)
    const answers = await askMany(gateway, 300)
    assert.ok(
      statusesOf(answers).every((status) => status === 200 || status === 503),
      statusesOf(answers).join(),
    )
    const refused = answers.filter(({ status }) => status === 503)
    assert.ok(refused.length > 0)
    assert.match(refused.at(-1)?.text ?? '', /usage|record|journal|ledger/i)
    assert.equal((await untilLedger(gateway, false)).status, 'degraded')
    rmSync(filler)
    for (let waited = 0; (await ask(gateway)).status !== 200; waited += 100) {
      assert.ok(waited < 20_000)
      await sleep(100)
    }
    await untilLedger(gateway, true)
    await assertRows(data, from)
  })
})

test('a limit of the size of files: no request fails, and after a restart without it every call has its row', async () => {
  const data = newFolder()
  const from = upstream.requests.length
  // 64 blocks of 512 bytes.
  const gateway = await begin(data, {}, { limits: '-f 64' })
  assert.deepEqual(statusesOf(await askMany(gateway, 60)), [200])
  await untilLedger(gateway, false)
  // Each second the journal continues with another file.
  await sleep(4_000)
  assert.equal(await gateway.stop(), 0)
  const again = await begin(data)
  assert.equal((await ask(again)).status, 200)
  await assertRows(data, from)
})

test('a read-only folder from the start: requests are served, and recorded once it is writable', { skip }, async () => {
  const data = newFolder()
  assert.equal(mount('ro', data), '')
  const gateway = await begin(data)
  const from = upstream.requests.length
  assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
  await untilLedger(gateway, false)
  assert.equal(unmount(data).status, 0)
  await untilLedger(gateway, true, true)
  // What waited in memory is written too.
  await assertRows(data, from)
})

test('usage.db is locked by another process: requests are served, and every one has its row afterwards', async () => {
  const data = newFolder()
  const gateway = await begin(data)
  const from = upstream.requests.length
  await askMany(gateway, 20)
  await assertRows(data, from)
  const other = new DatabaseSync(join(data, 'usage.db'), { timeout: 5_000 })
  other.exec('BEGIN IMMEDIATE')
  const isReported = untilLedger(gateway, false).then(() => true)
  while (!(await Promise.race([isReported, sleep(300)])))
    assert.deepEqual(statusesOf(await askMany(gateway, 20)), [200])
  other.exec('ROLLBACK')
  other.close()
  await untilLedger(gateway, true)
  await assertRows(data, from)
})

test('the journal is deleted while it is written: no request fails, and recording continues by itself', async () => {
  const data = newFolder()
  const gateway = await begin(data)
  const before = upstream.requests.length
  await askMany(gateway, 50)
  await assertRows(data, before)
  const journal = join(data, 'journal')
  rmSync(journal, { recursive: true })
  assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
  // A call after the next look at the segment finds that it was deleted.
  for (const end = performance.now() + 120_000; !existsSync(journal); await sleep(50)) {
    assert.ok(performance.now() < end, 'the journal is not created again')
    assert.deepEqual(statusesOf(await askMany(gateway, 1)), [200])
  }
  const from = upstream.requests.length
  assert.deepEqual(statusesOf(await askMany(gateway, 50)), [200])
  await untilStored(data, 'later calls', ({ requests }) => {
    const ids = new Set(requests.map(({ id }) => id))
    return received(from).every((id) => ids.has(id))
  })
  assert.equal((await healthOf(gateway)).status, 'ok')
})

test('control.db is locked: keys stay valid, and changes are refused with the reason until it is free', async () => {
  const data = newFolder()
  let secret = ''
  {
    using control = await openControl(data)
    secret = (await control.createKey('a')).secret
  }
  const gateway = await begin(data)
  const key = { authorization: `Bearer ${secret}` }
  const create = (name: string) =>
    post(`${gateway.url}/admin/api/v1/keys`, { name, team: 'default' }, { authorization: `Bearer ${ADMIN}` })
  assert.equal((await create('b')).status, 201)
  const other = new DatabaseSync(join(data, 'control.db'), { timeout: 5_000 })
  other.exec('BEGIN IMMEDIATE')
  const refused = await create('c')
  assert.equal(refused.status, 503, refused.text)
  assert.equal(object(refused.json().error)?.code, 'control_unavailable')
  assert.match(refused.text, /lock|busy|use/i)
  assert.deepEqual(statusesOf(await askMany(gateway, 20, key)), [200])
  other.exec('ROLLBACK')
  other.close()
  assert.equal((await create('c')).status, 201)
})

// ── Killed processes ─────────────────────────────────────────────────────────────────────────────────────────────

describe('kill -9 in mid-load', { skip: skipWithoutProc, timeout: 240_000 }, () => {
  const workersOf = ({ child }: Started): readonly number[] =>
    readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  const isAlive = (pid: number) => {
    try {
      return /VmRSS/.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
    } catch {
      return false
    }
  }

  for (const [name, workers, target] of [
    ['a single process', 0, 'all'],
    ['a worker of three', 3, 'worker'],
    ['the supervisor of three workers', 3, 'all'],
  ] as const)
    test(`${name}: every call that reached an upstream has one row`, async () => {
      const data = join(newFolder(), 'data')
      mkdirSync(data)
      const env = workers > 0 ? { WORKERS: String(workers) } : {}
      const from = upstream.requests.length
      for (let round = 0; round < 3; round++) {
        const gateway = await begin(data, {}, { env })
        const headers = { connection: 'close' }
        const load = askMany(gateway, 150, headers)
        await sleep(150 + Math.random() * 600)
        const pids = workersOf(gateway)
        if (target === 'all') {
          await kill(gateway)
          await load
          // Workers end when their supervisor has ended.
          for (let waited = 0; pids.some(isAlive); waited += 50) {
            assert.ok(waited < 20_000, 'a worker still runs')
            await sleep(50)
          }
        } else {
          const [pid] = pids
          assert.ok(pid)
          process.kill(pid, 'SIGKILL')
          await load
          await askMany(gateway, 20, headers)
          await gateway.stop()
        }
      }
      const last = await begin(data, {}, { env })
      assert.equal((await ask(last)).status, 200)
      await assertRows(data, from)
      assert.equal(await last.stop(), 0)
      checkStoredUsage(data, { budgets: true })
    })
})
