import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkpoints } from './checkpoints.ts'

const MIB = 1_048_576
/** Pages, 8 MiB. */
const MOST = 2_000

/** A database with a log of its own that SQLite does not move by itself. */
const logged = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-log-'))
  const path = join(folder, 'x.db')
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE x (y)')
  const insert = database.prepare('INSERT INTO x VALUES (randomblob(?))')
  return {
    path,
    write: (bytes: number) => insert.run(bytes),
    size: () => statSync(path).size,
    logSize: () => statSync(`${path}-wal`).size,
    [Symbol.dispose]() {
      database.close()
      rmSync(folder, { recursive: true })
    },
  }
}

const until = async (is: () => boolean, what: string) => {
  for (const end = performance.now() + 10_000; !is(); await sleep(5))
    assert.ok(performance.now() < end, `${what} within 10 s`)
}

test('checkpoints: a thread moves what has been written into the file, again and again, and the log stays short', async () => {
  using file = logged()
  const log = checkpoints(file.path, { most: MOST, failed: () => assert.fail('there is a thread') })
  for (let size = 5 * MIB; size <= 40 * MIB; size += 5 * MIB) {
    file.write(5 * MIB)
    log.wrote(5 * MIB)
    await until(() => file.size() >= size, `${size} bytes in the file`)
    // It says so a moment later, and is asked for nothing before.
    await sleep(50)
  }
  assert.ok(file.logSize() < 20 * MIB, `the log has ${file.logSize()} bytes`)
  await log.close()
})

test('checkpoints: a thread that leaves the log too long is asked again only after a commit, which can move the rest', async () => {
  using file = logged()
  const log = checkpoints(file.path, { most: 1, failed: () => assert.fail('there is a thread') })
  file.write(5 * MIB)
  log.wrote(5 * MIB)
  log.wrote(5 * MIB)
  await until(() => file.size() >= 5 * MIB, '5 MiB in the file')
  await sleep(100)
  file.write(5 * MIB)
  await sleep(100)
  assert.ok(file.size() < 10 * MIB, 'the thread was not asked for what came meanwhile')
  log.wrote(0)
  await until(() => file.size() >= 10 * MIB, '10 MiB in the file')
  await log.close()
})

test('checkpoints: a little is left where it is', async () => {
  using file = logged()
  const log = checkpoints(file.path, { most: MOST, failed: () => assert.fail('there is a thread') })
  const before = file.size()
  file.write(MIB)
  log.wrote(MIB)
  await sleep(200)
  assert.equal(file.size(), before)
  await log.close()
})

test('checkpoints: where the thread cannot go on that is said once', async () => {
  let failures = 0
  const log = checkpoints('/nowhere/x.db', { most: MOST, failed: () => failures++ })
  await until(() => failures > 0, 'it is said')
  log.wrote(100 * MIB)
  await sleep(50)
  await log.close()
  assert.equal(failures, 1)
})

test('checkpoints: one that is closed has not failed', async () => {
  using file = logged()
  let failures = 0
  await checkpoints(file.path, { most: MOST, failed: () => failures++ }).close()
  await sleep(50)
  assert.equal(failures, 0)
})

test('checkpoints: a thread that nobody has ended keeps no process alive', () => {
  using file = logged()
  const path = JSON.stringify(file.path)
  const code = `import { checkpoints } from ${JSON.stringify(import.meta.resolve('./checkpoints.ts'))}
    checkpoints(${path}, { most: ${MOST}, failed() {} }).wrote(1e9); setTimeout(() => process.stdout.write('over'), 500)`
  const { stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 20_000 })
  assert.equal(signal, null, 'it has not ended by itself')
  assert.equal(String(stdout), 'over')
})
