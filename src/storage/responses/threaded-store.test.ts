import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Failure } from '../../core/failure.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { FILE, openDatabase } from './database.ts'
import { type StoreChange, type ThreadedStore, threadedStore } from './threaded-store.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const limits = { keepDays: 10, maxMegabytes: 1_000, answerMegabytes: 10 }
const settings = {
  responses: { ...limits, timeout: 1_000 },
  idempotency: { keep: 60_000, finish: 60_000, maxMegabytes: 10 },
}

const given = () => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-client-'))
  closers.push(() => rmSync(root, { recursive: true, force: true }))
  const folder = join(root, 'data')
  const changes: StoreChange[] = []
  const open = (at = folder): ThreadedStore => {
    const store = threadedStore({
      folder: at,
      settings: () => settings,
      date: Date.now,
      changed: (change) => changes.push(change),
    })
    closers.push(() => store.close())
    return store
  }
  return { root, folder, path: join(folder, FILE), changes, open }
}

const one: StoredResponse = {
  id: 'a',
  owner: 'me',
  previous: null,
  status: 'completed',
  created: 1,
  input: '[]',
  response: '{}',
  events: null,
  items: ['msg_a'],
  maker: null,
}
const large = (id: string, size: number): StoredResponse => ({ ...one, id, items: [], response: 'x'.repeat(size) })

const until = async (is: () => boolean | Promise<boolean>, what: string) => {
  for (const end = performance.now() + 120_000; !(await is()); await sleep(5))
    assert.ok(performance.now() < end, `${what} within 120 s`)
}

const found = async (store: ThreadedStore, id: string): Promise<StoredResponse | undefined> => {
  const read = await store.get(id, 'me')
  assert.ok(read.ok, JSON.stringify(read))
  return read.value
}

/** A busy machine may need longer to start the thread than an operation may take. */
const isRunning = (store: ThreadedStore) => until(async () => (await store.get('none', 'me')).ok, 'the thread runs')

/** Locks the database for writing, as another process does. */
const lock = (path: string): (() => void) => {
  const other = new DatabaseSync(path)
  other.exec('BEGIN IMMEDIATE')
  closers.push(() => other.isOpen && other.close())
  return () => other.close()
}

test('store: stored responses are read, listed and deleted', async () => {
  const { open, changes } = given()
  const store = open()
  await isRunning(store)
  assert.equal(await store.put(one), null)
  assert.equal(await store.put({ ...one, id: 'b', previous: 'a', items: ['msg_b'] }), null)
  assert.deepEqual(await found(store, 'a'), { ...one, users: [] })
  const turns = await store.turns('b', 'me')
  assert.deepEqual(turns.ok && turns.value.map(({ id }) => id), ['b', 'a'])
  const holding = await store.findByItem('msg_b', 'me')
  assert.equal(holding.ok && holding.value?.id, 'b')
  assert.deepEqual(await store.delete('a', 'me'), { ok: true, value: true })
  assert.deepEqual(await store.delete('a', 'me'), { ok: true, value: false })
  assert.equal(await found(store, 'a'), undefined)
  assert.deepEqual([changes, store.problem()], [[], null])
})

test('store: without stored responses there is no file', async () => {
  const { folder, open } = given()
  const store = open()
  store.prepare()
  assert.equal(await found(store, 'a'), undefined)
  assert.deepEqual(await store.turns('a', 'me'), { ok: true, value: [] })
  await store.close()
  assert.equal(existsSync(folder), false)
})

const modes = { skip: process.platform === 'win32' && 'there are no modes' }
test('store: parent folders are created too, readable by their owner only', modes, async () => {
  const { root, open } = given()
  const store = open(join(root, 'deep', 'er', 'data'))
  assert.equal(await store.put(one), null)
  for (const made of ['deep', 'deep/er', 'deep/er/data']) assert.equal(statSync(join(root, made)).mode & 0o077, 0)
})

test('store: many concurrent writes are all stored, in order, and again after a restart', async () => {
  const { open } = given()
  const store = open()
  await isRunning(store)
  const results = await Promise.all(
    Array.from({ length: 500 }, (_, at) => store.put({ ...one, id: `r${at % 100}`, items: [], created: at })),
  )
  await store.close()
  const again = open()
  const stored = results.flatMap((failure, at) => (failure ? [] : [at]))
  assert.ok(stored.length > 0)
  for (let at = 0; at < 100; at++)
    assert.equal(
      (await found(again, `r${at}`))?.created,
      stored.findLast((each) => each % 100 === at),
    )
})

test('store: responses stored by another process in the same folder are found', async () => {
  const { open } = given()
  const [first, second] = [open(), open()]
  assert.equal(await found(first, 'a'), undefined)
  assert.equal(await second.put(one), null)
  assert.equal((await found(first, 'a'))?.id, 'a')
})

test('store: unfinished responses of an ended process are failed; those of a live one are not touched', async () => {
  const { folder, open } = given()
  const dead = spawnSync(process.execPath, ['--version']).pid
  const workers: readonly (readonly [string, string])[] = [
    [`${dead}@${hostname()}`, 'failed'],
    [`${process.ppid}@${hostname()}`, 'queued'],
    // An earlier process with the same PID, as in a container.
    [`${process.pid}@${hostname()}`, 'failed'],
    [`${process.ppid}@another-machine`, 'failed'],
  ]
  for (const [worker] of workers) {
    const file = openDatabase({ folder, date: Date.now, worker, limits: () => limits })
    file.transaction(() => file.put({ ...one, id: worker, items: [], status: 'queued' }))
    file.close()
  }
  const store = open()
  for (const [worker, status] of workers) assert.equal((await found(store, worker))?.status, status, worker)
})

const unusable: readonly (readonly [string, (path: string) => void, RegExp])[] = [
  ['a file that is no database', (path) => writeFileSync(path, 'no database '.repeat(1_000)), /not a database/],
  [
    'a file of a newer version',
    (path) => {
      const file = new DatabaseSync(path)
      file.exec('PRAGMA user_version = 9')
      file.close()
    },
    /newer version of Headgate/,
  ],
  ['a folder in its place', (path) => mkdirSync(path), /open/],
]
for (const [name, make, why] of unusable)
  test(`store: with ${name} nothing is stored, which is reported once, until it is repaired`, async () => {
    const { folder, path, changes, open } = given()
    mkdirSync(folder)
    make(path)
    const store = open()
    for (let turn = 0; turn < 2; turn++) {
      const failure: Failure | null = await store.put(one)
      assert.equal(failure?.kind, 'storage')
      assert.match(failure.message, why)
      assert.match(failure.message, /DATA_DIR/)
      assert.ok(!failure.message.includes(folder))
    }
    const read = await store.get('a', 'me')
    assert.equal(!read.ok && read.failure.kind, 'storage')
    assert.equal(changes.length, 1)
    assert.match(store.problem()?.reason ?? '', why)
    rmSync(path, { recursive: true })
    await until(() => store.problem() === null, 'it recovers')
    assert.equal(await store.put(one), null)
    assert.deepEqual(
      changes.map(({ status }) => status),
      ['degraded', 'ok'],
    )
  })

test('store: a write that waits for a lock does not block reads, and is kept although it is late', async () => {
  const { path, open, changes } = given()
  const store = open()
  await isRunning(store)
  await store.put(one)
  const unlock = lock(path)
  const order: string[] = []
  const write = store.put({ ...one, id: 'b' }).then((failure) => {
    order.push('write')
    return failure
  })
  for (let turn = 0; turn < 3; turn++) {
    assert.equal((await found(store, 'a'))?.id, 'a')
    order.push('read')
  }
  const failure = await write
  assert.match(failure?.message ?? '', /locked/)
  assert.equal(order[0], 'read')
  unlock()
  await until(() => store.problem() === null, 'it recovers')
  assert.equal((await found(store, 'b'))?.id, 'b')
  assert.deepEqual(
    changes.map(({ status }) => status),
    ['degraded', 'ok'],
  )
})

test('store: a write that waits for a short lock is stored', async () => {
  const { path, open } = given()
  const store = open()
  await isRunning(store)
  await store.put(one)
  const unlock = lock(path)
  const write = store.put({ ...one, id: 'b' })
  await found(store, 'a')
  unlock()
  await write
  await until(async () => (await found(store, 'b')) !== undefined, 'it is stored')
})

test('store: the queue is bounded', async () => {
  const { path, open } = given()
  const store = open()
  await isRunning(store)
  await store.put(one)
  const unlock = lock(path)
  const writes = Array.from({ length: 2_100 }, (_, at) => store.put({ ...one, id: `r${at}`, items: [] }))
  const refused = await Promise.all(writes.slice(2_000))
  for (const failure of refused) assert.match(failure?.message ?? '', /too slow/)
  unlock()
  await Promise.all(writes)
  await until(async () => (await store.put({ ...one, id: 'after' })) === null, 'it recovers')
  for (let at = 0; at < writes.length; at += 50)
    assert.equal((await found(store, `r${at}`)) === undefined, at >= 2_000, `r${at}`)
})

test('store: a name whose release the queue has refused is released later', async () => {
  const { path, open } = given()
  const store = open()
  await isRunning(store)
  const claims = store.claims()
  assert.ok(claims)
  await claims.claim('n', 'f')
  const unlock = lock(path)
  const writes = Array.from({ length: 2_000 }, (_, at) => store.put({ ...one, id: `r${at}`, items: [] }))
  assert.match((await claims.release('n'))?.message ?? '', /too slow/)
  unlock()
  await Promise.all(writes)
  const claimed = () => {
    const file = new DatabaseSync(path, { readOnly: true })
    const { length } = file.prepare('SELECT name FROM claim').all()
    file.close()
    return length
  }
  await until(() => claimed() === 0, 'it is released')
})

test('store: the log is checkpointed in pauses and stays short', async () => {
  const { path, open } = given()
  const store = open()
  for (let at = 1; at <= 4; at++) {
    await until(async () => (await store.put(large(`big${at}`, 10 * 1_048_576))) === null, 'it is stored')
    await until(() => statSync(path).size >= at * 10 * 1_048_576, `answer ${at} is in the file`)
  }
  assert.ok(statSync(`${path}-wal`).size < 40 * 1_048_576, `the log has ${statSync(`${path}-wal`).size} bytes`)
})

test('store: close moves everything into the file, and nothing is stored afterwards', async () => {
  const { path, open, changes } = given()
  const store = open()
  const write = store.put(one)
  await store.close()
  assert.equal(await write, null)
  assert.equal(existsSync(`${path}-wal`), false)
  assert.match((await store.put({ ...one, id: 'b' }))?.message ?? '', /shutting down/)
  assert.deepEqual(changes, [])
})

test('store: the end of its thread is reported, and the next thread continues', async (t) => {
  const { open, changes } = given()
  const threads: Worker[] = []
  class Watched extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args)
      threads.push(this)
    }
  }
  t.mock.method(process, 'getBuiltinModule', () => ({ Worker: Watched }))
  const store = open()
  assert.equal(await store.put(one), null)
  const ended = threads[0]?.terminate()
  const waiting = store.put({ ...one, id: 'b' })
  await ended
  assert.equal((await waiting)?.kind, 'storage')
  assert.notEqual(store.problem(), null)
  await until(() => store.problem() === null, 'it recovers')
  // A busy machine may refuse a write for its time limit.
  await until(async () => (await store.put({ ...one, id: 'c' })) === null, 'it is stored')
  assert.equal((await found(store, 'a'))?.id, 'a')
  assert.deepEqual([threads.length, changes.slice(0, 2).map(({ status }) => status)], [2, ['degraded', 'ok']])
})

test('store: responses in progress of this process stay in progress when its thread restarts', async (t) => {
  const { open } = given()
  const threads: Worker[] = []
  class Watched extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args)
      threads.push(this)
    }
  }
  t.mock.method(process, 'getBuiltinModule', () => ({ Worker: Watched }))
  const store = open()
  assert.equal(await store.put({ ...one, status: 'in_progress' }), null)
  await threads[0]?.terminate()
  await until(() => store.problem() === null, 'it recovers')
  await until(async () => (await store.put({ ...one, id: 'b', items: [] })) === null, 'the next thread stores')
  assert.equal((await found(store, 'a'))?.status, 'in_progress')
})

test('store: a conversation that continues a late write is complete', async () => {
  const { path, open } = given()
  const store = open()
  assert.equal(await store.put(one), null)
  const unlock = lock(path)
  // Its answer states `store: false`, which no SDK reads.
  assert.equal((await store.put({ ...one, id: 'late', previous: 'a', items: [] }))?.kind, 'storage')
  unlock()
  await until(async () => (await found(store, 'late')) !== undefined, 'it is stored')
  await until(async () => (await store.put({ ...one, id: 'next', previous: 'late', items: [] })) === null, 'the next')
  await until(() => store.problem() === null, 'it recovers')
  const turns = await store.turns('next', 'me')
  assert.deepEqual(turns.ok && turns.value.map(({ id }) => id), ['next', 'late', 'a'])
})

test('store: a background response that was refused is not stored later', async () => {
  const { path, open } = given()
  const store = open()
  assert.equal(await store.put(one), null)
  const unlock = lock(path)
  const refused = await store.put({ ...one, id: 'job', status: 'queued', items: [] })
  assert.equal(refused?.kind, 'storage')
  // The thread has received the cancellation when it answers this.
  assert.equal(await found(store, 'job'), undefined)
  unlock()
  await until(() => store.problem() === null, 'it recovers')
  assert.equal(await found(store, 'job'), undefined)
})

test('store: a folder without access is a problem without a path, and the thread continues', async () => {
  const { root, folder, open } = given()
  const store = open()
  assert.equal(await store.put(one), null)
  renameSync(folder, join(root, 'away'))
  symlinkSync(folder, folder)
  const failure = await store.put({ ...one, id: 'b', items: [] })
  assert.equal(failure?.kind, 'storage')
  assert.ok(!failure.message.includes(root), failure.message)
  assert.ok(!store.problem()?.reason.includes(root), store.problem()?.reason)
  assert.doesNotMatch(failure.message, /thread has ended/)
  rmSync(folder)
  renameSync(join(root, 'away'), folder)
  await until(() => store.problem() === null, 'it recovers')
  assert.equal((await found(store, 'a'))?.id, 'a')
})

test('store: without a thread nothing is stored', () => {
  const { folder } = given()
  const code = `import { threadedStore } from ${JSON.stringify(import.meta.resolve('./threaded-store.ts'))}
    const store = threadedStore({ folder: ${JSON.stringify(folder)}, settings: () => (${JSON.stringify(settings)}), date: Date.now, changed() {} })
    process.stdout.write((await store.put(${JSON.stringify(one)})).message)`
  const args = ['--permission', '--allow-fs-read=*', '--input-type=module', '-e', code]
  const { stdout, stderr } = spawnSync(process.execPath, args, { timeout: 60_000, encoding: 'utf8' })
  assert.match(stdout, /thread cannot start/, stderr)
})

test('store: its thread does not keep the process alive', () => {
  const { folder } = given()
  const code = `import { threadedStore } from ${JSON.stringify(import.meta.resolve('./threaded-store.ts'))}
    const store = threadedStore({ folder: ${JSON.stringify(folder)}, settings: () => (${JSON.stringify(settings)}), date: Date.now, changed() {} })
    await store.put(${JSON.stringify(one)}); process.stdout.write('over')`
  const { stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 60_000 })
  assert.equal(signal, null, 'it did not end by itself')
  assert.equal(String(stdout), 'over')
})
