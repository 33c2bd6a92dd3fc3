import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CONTROL_ENGINES, type ControlEngine, connectTo, readPlace } from '../../../test/support/control-engines.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { plainDigest } from '../entities/secret-digest.ts'
import { ControlClient } from './control-client.ts'
import { CONTROL_FILE, readStoredAccounts } from './read-accounts.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlPlace,
  ControlResult,
  StoredAccounts,
} from './record-operations.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const CONTEXT: ControlContext = {
  actor: { kind: 'operator', id: 'root', name: 'root' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}
const createKey = (name: string) => ({ do: 'create', kind: 'key', body: { name } }) as const

const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-control-client-'))
  closers.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const inFile = (): ControlPlace => ({ folder: newFolder(), database: null })
const given = (place: ControlPlace, since: number | null = null) => {
  const changes: AccountsChange[] = []
  const complete: StoredAccounts[] = []
  const states: (string | null)[] = []
  const client = new ControlClient(
    {
      ...place,
      settings: () => ({ pepper: null, configured: [], auditDays: 365, file: NO_ACCOUNTS }),
      onChange: (change) => changes.push(change),
      onComplete: (stored) => complete.push(stored),
      onState: (problem) => states.push(problem),
    },
    since,
  )
  closers.push(() => client.close())
  return { ...place, place, client, changes, complete, states }
}
const value = (result: ControlResult) => {
  assert.ok(result.ok, JSON.stringify(result))
  return result.value
}
/** Audit rows after those that the database has, with a valid chain. */
const addAuditRows = async (place: ControlPlace, count: number) => {
  const database = connectTo(place)
  const [last] = await database.rows('SELECT last_seq, last_hash FROM audit_range')
  let [seq, previous] = [Number(last?.last_seq), String(last?.last_hash)]
  const values = (id: string) => [id, 1, '{}', null, 'login', 'x', '{}'] as const
  const rows = Array.from({ length: count }, () => {
    seq++
    const row = values(`aud_${seq}`)
    const before = previous
    previous = hash('sha256', JSON.stringify([before, seq, ...row]), 'hex')
    return `(${seq}, 'aud_${seq}', 1, '{}', NULL, 'login', 'x', '{}', '${before}', '${previous}')`
  })
  for (let n = 0; n < rows.length; n += 5_000)
    await database.run(
      `INSERT INTO audit (seq, id, at, actor, source, action, object, doc, previous, hash) VALUES ${rows.slice(n, n + 5_000).join(', ')}`,
    )
  await database.run(`UPDATE audit_range SET last_seq = ${seq}, last_hash = '${previous}'`)
  await database.close()
}

const until = async (condition: () => boolean, what: string) => {
  for (let waited = 0; !condition(); waited += 20) {
    assert.ok(waited < 20_000, what)
    await sleep(20)
  }
}

/** Creates keys one after the other, and prints the name and secret of each once it is answered. */
const WRITER = `
import { ControlClient } from ${JSON.stringify(new URL('./control-client.ts', import.meta.url).href)}
import { NO_ACCOUNTS } from ${JSON.stringify(new URL('../../core/accounts.ts', import.meta.url).href)}
const place = JSON.parse(process.argv[1])
const ignore = () => {}
const client = new ControlClient({ ...place, settings: () => ({ pepper: null, configured: [], auditDays: 365, file: NO_ACCOUNTS }),
  onChange: ignore, onComplete: ignore, onState: ignore }, null)
const context = { actor: { kind: 'cli', id: 'x', name: 'x' }, from: null, requestId: null, teams: null, idempotencyKey: null }
for (let n = 0; ; n++) {
  // Digits could form a number that names must not contain.
  const name = (process.pid + '-' + n).replace(/[0-9]/g, (digit) => 'abcdefghij'[digit])
  const operation = { do: 'create', kind: 'key', body: { name } }
  const result = await client.run(operation, { ...context, idempotencyKey: 'once-' + process.pid + '-' + n })
  if (!result.ok) throw new Error(JSON.stringify(result))
  console.log(JSON.stringify({ n, secret: result.value.secret, operation }))
}
`

test('control client: a file that is no database is reported, and used once it is replaced', async () => {
  const { folder, client, states } = given(inFile())
  writeFileSync(join(folder, CONTROL_FILE), 'x'.repeat(10_000))
  assert.throws(() => readStoredAccounts(folder))
  const refused = await client.run(createKey('a'), CONTEXT)
  assert.deepEqual(!refused.ok && [refused.error.status, refused.error.code], [503, 'control_unavailable'])
  assert.notEqual(client.problem, null)
  rmSync(join(folder, CONTROL_FILE))
  await until(() => client.problem === null, 'the database does not work again')
  value(await client.run(createKey('a'), CONTEXT))
  assert.equal(states.at(-1), null)
})

test('control client: no new database replaces a file that was moved away; the restored one is read again', async () => {
  const { folder, client, complete } = given(inFile())
  value(await client.run(createKey('a'), CONTEXT))
  const files = ['', '-wal', '-shm'].map((end) => join(folder, `${CONTROL_FILE}${end}`))
  const move = (from: string, to: string) => {
    for (const file of files) renameSync(file + from, file + to)
  }
  move('', '.away')
  const refused = await client.run(createKey('b'), CONTEXT)
  assert.equal(!refused.ok && refused.error.code, 'control_unavailable')
  assert.equal(readStoredAccounts(folder), null)
  for (const file of files.slice(0, 1)) renameSync(`${file}.away`, file)
  const seen = complete.length
  await until(() => complete.length > seen && client.problem === null, 'the restored file was not read')
  value(await client.run({ do: 'list', kind: 'key', query: {} }, CONTEXT))
})

for (const { name, skip, start } of CONTROL_ENGINES)
  describe(`control client with ${name}`, { skip, concurrency: false }, () => {
    let engine: ControlEngine
    before(async () => {
      engine = await start()
      closers.unshift(() => engine.remove())
    })
    const newPlace = () => engine.newPlace(newFolder())

    test('creates the database with the first operation, and reports the change before the result', async () => {
      const { place, client, complete, changes } = given(newPlace())
      assert.equal(await readPlace(place), null)
      const first = value(await client.run(createKey('a'), CONTEXT))
      assert.ok(complete.length + changes.length > 0)
      const known = () => [...complete.map((stored) => stored.records), ...changes.map((change) => change.records)]
      assert.ok(known().some(({ keys }) => keys.some(({ id }) => id === first.id)))
      const second = value(await client.run(createKey('b'), CONTEXT))
      assert.equal(changes.at(-1)?.records.keys[0]?.id, second.id)
      assert.equal((await readPlace(place))?.records.keys.length, 2)
    })

    test('a change of another process arrives without a request', async () => {
      const place = newPlace()
      const other = given(place)
      value(await other.client.run(createKey('a'), CONTEXT))
      const { client, changes } = given(place, (await readPlace(place))?.seq ?? null)
      client.start()
      value(await client.run({ do: 'list', kind: 'key', query: {} }, CONTEXT))
      assert.equal(changes.length, 0)
      value(await other.client.run(createKey('b'), CONTEXT))
      await until(() => changes.length > 0, 'no change was reported')
      assert.deepEqual(
        changes[0]?.records.keys.map(({ name }) => name),
        ['b'],
      )
    })

    test('last uses are stored at the end, with the precision of an hour', async () => {
      const { place, client } = given(newPlace())
      const { id } = value(await client.run(createKey('a'), CONTEXT))
      client.used(String(id), Date.parse('2026-11-23T12:34:56Z'))
      await client.close()
      const next = given(place)
      const shown = value(await next.client.run({ do: 'get', kind: 'key', id: String(id) }, CONTEXT))
      assert.equal(shown.last_used_at, '2026-11-23T12:00:00.000Z')
    })

    test('a use before the thread has started is stored', async () => {
      const { place, client } = given(newPlace())
      const { id } = value(await client.run(createKey('a'), CONTEXT))
      await client.close()
      const next = given(place)
      next.client.used(String(id), Date.parse('2026-11-23T12:34:56Z'))
      next.client.start()
      await next.client.close()
      const shown = value(await given(place).client.run({ do: 'get', kind: 'key', id: String(id) }, CONTEXT))
      assert.equal(shown.last_used_at, '2026-11-23T12:00:00.000Z')
    })

    test('a process killed at any time loses no answered write, and a repeated one happens once', async () => {
      const place = newPlace()
      const answered: {
        readonly n: number
        readonly secret: string
        readonly operation: ReturnType<typeof createKey>
      }[] = []
      let pid = 0
      for (let round = 0; round < 4; round++) {
        const child = spawn(process.execPath, ['--input-type=module', '-e', WRITER, JSON.stringify(place)], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        pid = child.pid ?? 0
        let lines = 0
        for await (const line of createInterface({ input: child.stdout })) {
          answered.push(JSON.parse(line))
          if (++lines === 5 + round * 3) child.kill('SIGKILL')
        }
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
        assert.equal(child.signalCode, 'SIGKILL')
      }
      const accounts = await readPlace(place)
      const digests = new Set(accounts?.records.keys.flatMap(({ secrets }) => secrets.map(({ digest }) => digest)))
      for (const { secret, n } of answered)
        assert.ok(digests.has(plainDigest(secret)), `key ${n} was answered and is lost`)

      const { client } = given(place)
      assert.equal(value(await client.run({ do: 'verify' }, CONTEXT)).ok, true)
      // The answer of the last write is lost for a client that was killed: it repeats the request.
      const last = answered.at(-1)
      assert.ok(last)
      const context = {
        ...CONTEXT,
        actor: { kind: 'cli', id: 'x', name: 'x' },
        idempotencyKey: `once-${pid}-${last.n}`,
      }
      const keys = (await readPlace(place))?.records.keys.length
      const repeated = await client.run(last.operation, context)
      assert.equal(repeated.ok && repeated.replayed, true)
      assert.equal(value(repeated).secret, null)
      assert.equal((await readPlace(place))?.records.keys.length, keys)
    })

    test('a write passes a verification of many audit rows that is in progress', async () => {
      const { place, client } = given(newPlace())
      value(await client.run(createKey('a'), CONTEXT))
      await addAuditRows(place, 50_000)
      const order: string[] = []
      const verification = client.run({ do: 'verify' }, CONTEXT).finally(() => order.push('verified'))
      const write = client.run(createKey('b'), CONTEXT).finally(() => order.push('written'))
      value(await write)
      const { ok, checked } = value(await verification)
      assert.deepEqual(order, ['written', 'verified'])
      // The rows of both keys and those between them.
      assert.deepEqual([ok, checked], [true, 50_002])
    })

    test('a verification ends with the client, and the thread does not open the database again', async () => {
      const { place, client } = given(newPlace())
      value(await client.run(createKey('a'), CONTEXT))
      await addAuditRows(place, 50_000)
      const verification = client.run({ do: 'verify' }, CONTEXT)
      await client.close()
      const result = await verification
      assert.ok(result.ok || result.error.status === 503, JSON.stringify(result))
    })
  })
