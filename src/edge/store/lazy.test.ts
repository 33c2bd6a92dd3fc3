import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import type { StoredResponse } from '../../core/stored.ts'
import { lazyResponses } from './lazy.ts'
import { FILE, openResponses } from './responses.ts'

const roots: string[] = []
after(() => {
  for (const root of roots) rmSync(root, { recursive: true, force: true })
})

const given = () => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-lazy-'))
  roots.push(root)
  const folder = join(root, 'data')
  const problems: string[] = []
  const setting = { date: 1_000 }
  const open = (at = folder) =>
    lazyResponses(
      { folder: at, date: () => setting.date, limits: () => ({ keepDays: 1, maxMegabytes: 1 }) },
      (message) => problems.push(message),
    )
  return { root, folder, path: join(folder, FILE), problems, setting, open }
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

const impossible: readonly (readonly [string, (root: string) => string, RegExp])[] = [
  ['below a file', (root) => join(root, 'file', 'data'), /ENOTDIR|EEXIST|ENOENT/],
  // Nothing can be made there, and the kernel says that it does not exist.
  ...(process.platform === 'linux' ? [['below /proc', () => '/proc/headgate/data', /ENOENT/] as const] : []),
]
for (const [name, at, said] of impossible)
  test(`store: a folder that cannot be made is said, and does not stop the process: ${name}`, () => {
    const { problems, root, open } = given()
    writeFileSync(join(root, 'file'), '')
    const store = open(at(root))
    store.put(one)
    assert.equal(store.get('a', 'me')?.id, 'a')
    assert.equal(problems.length, 1)
    assert.match(problems[0] ?? '', said)
    store.close()
  })

const modes = { skip: process.platform === 'win32' && 'there are no modes' }
test('store: the folders above are made too, for nobody else to read', modes, () => {
  const { problems, root, open } = given()
  const store = open(join(root, 'deep', 'er', 'data'))
  store.put(one)
  store.close()
  assert.deepEqual(problems, [])
  for (const made of ['deep', 'deep/er', 'deep/er/data']) assert.equal(statSync(join(root, made)).mode & 0o077, 0)
})

test('store: nothing kept, nothing on the disk', () => {
  const { folder, open } = given()
  const store = open()
  assert.equal(store.get('a', 'me'), undefined)
  store.close()
  assert.equal(existsSync(folder), false)
})

test('store: what another process with the same folder has kept since is found', () => {
  const { problems, open } = given()
  const [first, second] = [open(), open()]
  second.put(one)
  assert.equal(first.get('a', 'me')?.id, 'a')
  first.close()
  second.close()
  assert.deepEqual(problems, [])
})

test('store: what a process that is gone had under way has failed; what one that lives has is left to it', () => {
  const { folder, problems, open } = given()
  const dead = spawnSync(process.execPath, ['--version']).pid
  const workers: readonly (readonly [string, string])[] = [
    [`${dead}@${hostname()}`, 'failed'],
    [`${process.ppid}@${hostname()}`, 'queued'],
    // An earlier one that had this process's own number, as the first of a container has.
    [`${process.pid}@${hostname()}`, 'failed'],
    [`${process.ppid}@another-machine`, 'failed'],
  ]
  for (const [worker] of workers) {
    const limits = () => ({ keepDays: 1, maxMegabytes: 1 })
    const file = openResponses({ folder, date: () => 1_000, worker, limits })
    file.put({ ...one, id: worker, items: [], status: 'queued' })
    file.close()
  }
  const store = open()
  assert.deepEqual(
    workers.map(([worker]) => [worker, store.get(worker, 'me')?.status]),
    workers,
  )
  store.close()
  assert.deepEqual(problems, [])
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
    /newer Headgate/,
  ],
  ['a folder in its place', (path) => mkdirSync(path), /open/],
]
for (const [name, make, why] of unusable)
  test(`store: with ${name} it starts, says so, and keeps in memory`, () => {
    const { folder, path, problems, open } = given()
    mkdirSync(folder)
    make(path)
    const store = open()
    assert.equal(problems.length, 1)
    assert.match(problems[0] ?? '', why)
    assert.equal(store.put(one), null)
    assert.equal(store.get('a', 'me')?.id, 'a')
    assert.equal(problems.length, 1)
    store.close()
  })

test('store: a file that could not be opened for a moment is opened later, and nothing of the time between is missing', () => {
  const { folder, path, problems, setting, open } = given()
  mkdirSync(folder)
  mkdirSync(path)
  const store = open()
  assert.equal(store.put({ ...one, id: 'between' }), null)
  rmSync(path, { recursive: true })
  assert.equal(store.put({ ...one, id: 'still' }), null)
  setting.date += 10_001
  assert.equal(store.put({ ...one, id: 'after' }), null)
  for (const id of ['between', 'still', 'after']) assert.ok(store.get(id, 'me'), id)
  assert.equal(problems.length, 1)
  store.close()
  const again = open()
  assert.deepEqual(
    ['between', 'still', 'after'].map((id) => again.get(id, 'me')?.id),
    [undefined, undefined, 'after'],
  )
  again.close()
})
