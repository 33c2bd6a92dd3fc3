import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import type { StoredResponse } from '../../core/stored-response.ts'
import { type Database, FILE, openDatabase } from './database.ts'

const DAY = 86_400_000

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** The database, with one transaction per write. */
type Opened = Omit<Database, 'put' | 'delete'> & {
  readonly put: (response: StoredResponse) => void
  readonly delete: (id: string, owner: string) => boolean
}

const opened = (database: Database): Opened => ({
  transaction: (run) => database.transaction(run),
  put: (response) => void database.transaction(() => database.put(response)),
  get: (id, owner) => database.get(id, owner),
  holding: (item, owner) => database.holding(item, owner),
  turns: (id, owner) => database.turns(id, owner),
  delete: (id, owner) => database.transaction(() => database.delete(id, owner)),
  abandon: (isGone, restated) => database.abandon(isGone, restated),
  sweep: () => database.sweep(),
  probe: () => database.probe(),
  checkpoint: () => database.checkpoint(),
  moved: () => database.moved(),
  close: () => database.close(),
  runs: database.runs,
  claims: database.claims,
})

type DatabaseFixture = {
  readonly folder: string
  readonly store: Opened
  /** ms since 1970. */
  date: number
  keepDays: number
  maxMegabytes: number
  readonly reopen: () => Opened
}

const given = (): DatabaseFixture => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-store-'))
  folders.push(root)
  const folder = join(root, 'data')
  const state = { folder, date: 1_700_000_000_000, keepDays: 10, maxMegabytes: 1 }
  const open = () =>
    opened(
      openDatabase({
        folder,
        date: () => state.date,
        worker: 'one',
        limits: () => ({ keepDays: state.keepDays, maxMegabytes: state.maxMegabytes, answerMegabytes: 1 }),
      }),
    )
  return Object.assign(state, { store: open(), reopen: open })
}

const response = (id: string, more: Partial<StoredResponse> = {}): StoredResponse => ({
  id,
  owner: 'me',
  previous: null,
  status: 'completed',
  created: 1_700_000_000,
  input: `[{"id":"msg_${id}"}]`,
  response: `{"id":"${id}"}`,
  events: null,
  items: [`msg_${id}`],
  maker: null,
  users: [],
  ...more,
})

test('store: a stored response is read unchanged, in a new process too', () => {
  const { store, reopen } = given()
  const all = [
    response('plain'),
    response('whole', {
      previous: 'plain',
      status: 'incomplete',
      input: '[{"x":"\\u0000 \u{1f600} \ud800"}]'.toWellFormed(),
      events: '{"type":"a"}\n{"type":"b"}',
      items: ['msg_1', 'rs_2', 'fc_3'],
      maker: { instance: 'one', key: 'a1f3', model: 'm', id: 'resp_theirs' },
      users: ['eve 4711', 'other'],
    }),
  ]
  for (const one of all) store.put(one)
  for (const one of all) assert.deepEqual(store.get(one.id, 'me'), { ...one, items: [...one.items].sort() })
  store.close()
  const again = reopen()
  for (const one of all) assert.deepEqual(again.get(one.id, 'me'), { ...one, items: [...one.items].sort() })
  again.close()
})

test('store: a second put replaces the first', () => {
  const { store } = given()
  store.put(response('a', { status: 'queued', items: ['msg_old'] }))
  store.put(response('a', { status: 'completed', items: ['msg_new'] }))
  assert.equal(store.get('a', 'me')?.status, 'completed')
  assert.equal(store.holding('msg_old', 'me'), undefined)
  assert.equal(store.holding('msg_new', 'me')?.id, 'a')
  store.close()
})

test('store: owners are isolated from each other', () => {
  const { store } = given()
  store.put(response('a'))
  store.put(response('a', { owner: 'you', response: '{"yours":true}' }))
  assert.equal(store.get('a', 'me')?.response, '{"id":"a"}')
  assert.equal(store.get('a', 'you')?.response, '{"yours":true}')
  assert.equal(store.get('a', ''), undefined)
  assert.equal(store.holding('msg_a', 'another'), undefined)
  assert.equal(store.delete('a', 'another'), false)
  assert.equal(store.delete('a', 'me'), true)
  assert.equal(store.delete('a', 'me'), false)
  assert.equal(store.get('a', 'me'), undefined)
  assert.equal(store.holding('msg_a', 'me'), undefined)
  assert.equal(store.holding('msg_a', 'you')?.owner, 'you')
  store.close()
})

const times: readonly (readonly [string, number, boolean])[] = [
  ['at once', 0, true],
  ['a moment before its time is over', 10 * DAY - 1, true],
  ['when it is over', 10 * DAY, false],
  ['long after', 100 * DAY, false],
]
for (const [name, later, there] of times)
  for (const swept of [false, true])
    test(`store: expiry: ${name}${swept ? ', swept' : ''}`, () => {
      const setting = given()
      setting.store.put(response('a'))
      setting.date += later
      if (swept) setting.store.sweep()
      assert.equal(setting.store.get('a', 'me') !== undefined, there)
      assert.equal(setting.store.holding('msg_a', 'me') !== undefined, there)
      setting.store.close()
      const file = new DatabaseSync(join(setting.folder, FILE))
      const [rows, items, size] = [
        'SELECT count(*) n FROM response',
        'SELECT count(*) n FROM item',
        'SELECT coalesce(sum(size), 0) n FROM total',
      ].map((query) => Number(file.prepare(query).get()?.n))
      file.close()
      const left = there || !swept
      assert.deepEqual([rows, items, (size ?? 0) > 0], left ? [1, 1, true] : [0, 0, false])
    })

test('store: a continued response expires with the last one that continues it', () => {
  const setting = given()
  setting.store.put(response('one'))
  setting.date += 6 * DAY
  setting.store.put(response('two', { previous: 'one' }))
  setting.store.put(response('beside', { previous: 'one', owner: 'you' }))
  setting.date += 6 * DAY
  setting.store.put(response('three', { previous: 'two' }))
  setting.date += 6 * DAY
  setting.store.sweep()
  for (const id of ['one', 'two', 'three']) assert.ok(setting.store.get(id, 'me'), id)
  assert.equal(setting.store.get('beside', 'you'), undefined)
  setting.date += 4 * DAY
  setting.store.sweep()
  for (const id of ['one', 'two', 'three']) assert.equal(setting.store.get(id, 'me'), undefined, id)
  setting.store.close()
})

test('store: reading a cycle of turns ends', () => {
  const { store } = given()
  store.put(response('a', { previous: 'b' }))
  store.put(response('b', { previous: 'a' }))
  store.close()
})

test('store: above the maximum size the oldest are deleted, and the newest stays', () => {
  const setting = given()
  const large = 'x'.repeat(100_000)
  for (let at = 0; at < 30; at++) {
    setting.date += 1_000
    setting.store.put(response(`r${at}`, { response: large }))
  }
  const left = Array.from({ length: 30 }, (_, at) => at).filter((at) => setting.store.get(`r${at}`, 'me'))
  // The newest ones without a gap, at most a mebibyte.
  assert.deepEqual(
    left,
    Array.from({ length: left.length }, (_, at) => 30 - left.length + at),
  )
  assert.ok(left.length >= 8 && left.length <= 10, String(left.length))

  setting.date += 1_000
  setting.store.put(response('huge', { response: 'x'.repeat(3_000_000) }))
  assert.ok(setting.store.get('huge', 'me'))
  assert.equal(setting.store.get('r29', 'me'), undefined)
  setting.date += 1_000
  setting.store.put(response('next'))
  assert.equal(setting.store.get('huge', 'me'), undefined)
  assert.ok(setting.store.get('next', 'me'))
  setting.store.close()
})

test('store: the owner with the most data is evicted first', () => {
  const setting = given()
  for (let at = 0; at < 5; at++) setting.store.put(response(`mine${at}`, { response: 'x'.repeat(20_000) }))
  for (let at = 0; at < 40; at++) {
    setting.date += 1_000
    setting.store.put(response(`yours${at}`, { owner: 'you', response: 'x'.repeat(100_000) }))
  }
  for (let at = 0; at < 5; at++) assert.ok(setting.store.get(`mine${at}`, 'me'), `mine${at}`)
  assert.equal(setting.store.get('yours0', 'you'), undefined)
  assert.ok(setting.store.get('yours39', 'you'))
  setting.store.close()
})

test('store: deleted space is returned to the disk', () => {
  const setting = given()
  for (let at = 0; at < 200; at++) {
    setting.date += 1_000
    setting.store.put(response(`r${at}`, { response: 'x'.repeat(100_000) }))
  }
  setting.store.close()
  // 20 MB were written in all; a mebibyte remains.
  assert.ok(statSync(join(setting.folder, FILE)).size < 4_000_000, String(statSync(join(setting.folder, FILE)).size))
})

test('store: responses left unfinished by an earlier process are failed', () => {
  const setting = given()
  for (const status of ['queued', 'in_progress', 'completed', 'cancelled'] as const)
    setting.store.put(response(status, { status, items: [`msg_${status}`] }))
  setting.store.close()
  const again = setting.reopen()
  assert.equal(
    again.abandon(
      () => false,
      () => '',
    ),
    0,
  )
  assert.equal(again.get('queued', 'me')?.status, 'queued')
  assert.equal(
    again.abandon(
      (worker) => worker === 'one',
      ({ id }) => `{"restated":"${id}"}`,
    ),
    2,
  )
  for (const status of ['queued', 'in_progress']) {
    const found = again.get(status, 'me')
    assert.deepEqual([found?.status, found?.response], ['failed', `{"restated":"${status}"}`])
    assert.deepEqual(found?.items, [`msg_${status}`])
  }
  assert.equal(again.get('completed', 'me')?.status, 'completed')
  assert.equal(
    again.abandon(
      () => true,
      () => '',
    ),
    0,
  )
  again.close()
})

test('store: a file of the first version is upgraded, and its responses have no end user', () => {
  const setting = given()
  setting.store.put(response('old', { users: ['eve'] }))
  setting.store.close()
  const older = new DatabaseSync(join(setting.folder, FILE))
  older.exec('ALTER TABLE response DROP COLUMN users; PRAGMA user_version = 1')
  older.close()
  const upgraded = setting.reopen()
  assert.deepEqual(upgraded.get('old', 'me'), response('old'))
  upgraded.put(response('new', { users: ['eve'] }))
  assert.deepEqual(upgraded.get('new', 'me')?.users, ['eve'])
  upgraded.close()
})

test('store: a file of a newer version is not touched', () => {
  const setting = given()
  setting.store.put(response('a'))
  setting.store.close()
  const path = join(setting.folder, FILE)
  const newer = new DatabaseSync(path)
  newer.exec('PRAGMA user_version = 7')
  newer.close()
  assert.throws(() => setting.reopen(), /newer version of Headgate/)
  const file = new DatabaseSync(path)
  assert.equal(file.prepare('PRAGMA user_version').get()?.user_version, 7)
  file.close()
})

test('store: a file that is not a database is reported and not touched', () => {
  const setting = given()
  setting.store.close()
  const path = join(setting.folder, FILE)
  writeFileSync(path, 'no database '.repeat(1_000))
  assert.throws(() => setting.reopen(), /not a database/)
  assert.match(readFileSync(path, 'utf8'), /^no database/)
})

test('store: a full disk is an error, and stored responses remain', () => {
  const setting = given()
  setting.store.put(response('a'))
  // The limit is per connection: the current file size and a little more.
  const { exec } = DatabaseSync.prototype
  DatabaseSync.prototype.exec = function (sql: string) {
    exec.call(this, sql)
    if (sql.includes('journal_mode')) exec.call(this, 'PRAGMA max_page_count = 30')
  }
  const full = setting.reopen()
  DatabaseSync.prototype.exec = exec
  assert.throws(() => full.put(response('b', { response: 'x'.repeat(500_000) })), /disk is full/)
  assert.equal(full.get('b', 'me'), undefined)
  full.put(response('c'))
  assert.ok(full.get('a', 'me') && full.get('c', 'me'))
  full.close()
  setting.store.close()
})

test('store: a disk that fails at close loses nothing', (t) => {
  const setting = given()
  setting.store.put(response('a'))
  const { exec } = DatabaseSync.prototype
  const mocked = t.mock.method(DatabaseSync.prototype, 'exec', function (this: DatabaseSync, sql: string) {
    if (sql.includes('wal_checkpoint')) throw new Error('database or disk is full')
    exec.call(this, sql)
  })
  setting.store.close()
  mocked.mock.restore()
  const again = setting.reopen()
  assert.ok(again.get('a', 'me'))
  again.close()
})

test('store: a shorter expiry applies to stored responses, and later ones are still the newest', () => {
  const setting = given()
  for (let at = 0; at < 20; at++) setting.store.put(response(`old${at}`, { response: 'x'.repeat(50_000) }))
  setting.keepDays = 2
  setting.date += DAY
  for (let at = 0; at < 5; at++) setting.store.put(response(`new${at}`, { response: 'x'.repeat(50_000) }))
  for (let at = 0; at < 5; at++) assert.ok(setting.store.get(`new${at}`, 'me'), `new${at}`)
  setting.date += DAY
  assert.equal(setting.store.get('old19', 'me'), undefined)
  assert.ok(setting.store.get('new0', 'me'))
  setting.store.close()
})

test('store: a turn with many continuations is not rewritten with each', () => {
  const setting = given()
  const began = setting.date
  const touchedAt = () => {
    const file = new DatabaseSync(join(setting.folder, FILE))
    const row = file.prepare("SELECT touched FROM response WHERE id = 't0'").get()
    file.close()
    return Number(row?.touched)
  }
  for (let at = 0; at < 30; at++) {
    setting.date += 60_000
    setting.store.put(response(`t${at}`, { previous: at === 0 ? null : `t${at - 1}` }))
  }
  assert.equal(touchedAt(), began + 60_000)
  setting.date += DAY
  setting.store.put(response('late', { previous: 't29' }))
  assert.equal(touchedAt(), setting.date)
  setting.store.close()
})

test('store: a sweep deletes in batches', () => {
  const setting = given()
  for (let at = 0; at < 250; at++) setting.store.put(response(`r${at}`))
  setting.date += 11 * DAY
  const parts: boolean[] = []
  do parts.push(setting.store.sweep())
  while (parts.at(-1))
  assert.deepEqual(parts, [true, true, false])
  setting.store.close()
})

test('store: close neither waits for writers nor blocks them', (t) => {
  const { folder, store } = given()
  store.put(response('a'))
  const other = new DatabaseSync(join(folder, FILE))
  other.exec('BEGIN IMMEDIATE')
  const { mock } = t.mock.method(DatabaseSync.prototype, 'exec')
  store.close()
  // Each other kind of checkpoint waits for writers, and blocks them meanwhile: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
  assert.deepEqual(
    mock.calls.map(({ arguments: [sql] }) => sql),
    ['PRAGMA wal_checkpoint(PASSIVE)'],
  )
  other.exec('COMMIT')
  other.close()
})

test('store: a conversation is read in parts, newest first', () => {
  const { store } = given()
  for (let at = 0; at < 100; at++) store.put(response(`t${at}`, { previous: at === 0 ? null : `t${at - 1}` }))
  const first = store.turns('t99', 'me').map(({ id }) => id)
  assert.deepEqual(
    first,
    Array.from({ length: 64 }, (_, at) => `t${99 - at}`),
  )
  assert.deepEqual(
    store.turns('t35', 'me').map(({ id }) => id),
    Array.from({ length: 36 }, (_, at) => `t${35 - at}`),
  )
  assert.deepEqual(store.turns('t99', 'another'), [])
  store.close()
})

test('store: a part with large turns ends after 4 MiB', () => {
  const setting = given()
  setting.maxMegabytes = 100
  for (let at = 0; at < 10; at++)
    setting.store.put(response(`t${at}`, { previous: `t${at - 1}`, input: 'x'.repeat(1_500_000) }))
  assert.deepEqual(
    setting.store.turns('t9', 'me').map(({ id }) => id),
    ['t9', 't8', 't7'],
  )
  setting.store.close()
})

test('store: deleted, moved or replaced files are detected', () => {
  const setting = given()
  setting.store.put(response('a'))
  assert.equal(setting.store.moved(), false)
  renameSync(setting.folder, `${setting.folder}-away`)
  assert.equal(setting.store.moved(), true)
  const other = setting.reopen()
  other.put(response('b'))
  assert.deepEqual([setting.store.moved(), other.moved()], [true, false])
  other.close()
  rmSync(setting.folder, { recursive: true })
  renameSync(`${setting.folder}-away`, setting.folder)
  assert.equal(setting.store.moved(), false)
  rmSync(join(setting.folder, `${FILE}-wal`))
  assert.equal(setting.store.moved(), true)
  setting.store.close()
})

test('store: a probe writes without changing anything', () => {
  const setting = given()
  setting.store.put(response('a'))
  const log = join(setting.folder, `${FILE}-wal`)
  const before = statSync(log).size
  setting.store.transaction(() => setting.store.probe())
  assert.ok(statSync(log).size > before)
  assert.ok(setting.store.get('a', 'me'))
  setting.store.close()
})

test('store: opening and reading do not wait for a lock', () => {
  const setting = given()
  setting.store.put(response('a'))
  const other = new DatabaseSync(join(setting.folder, FILE))
  other.exec('BEGIN IMMEDIATE')
  const again = setting.reopen()
  assert.ok(again.get('a', 'me'))
  assert.throws(() => again.put(response('b')), /locked/)
  other.exec('COMMIT')
  again.put(response('b'))
  for (const one of [again, setting.store, other]) one.close()
})

test('store: the file and the folder are readable by their owner only', () => {
  const { folder, store } = given()
  store.put(response('a'))
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  for (const file of [FILE, `${FILE}-wal`, `${FILE}-shm`])
    assert.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file)
  store.close()
})

test('store: two processes can open it', () => {
  const setting = given()
  const other = setting.reopen()
  setting.store.put(response('a'))
  other.put(response('b'))
  assert.ok(other.get('a', 'me') && setting.store.get('b', 'me'))
  other.close()
  setting.store.close()
})
