import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openControl } from '../../../test/support/control.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { BUDGET_MEMBERS } from '../entities/budget.ts'
import { KEY_MEMBERS } from '../entities/key.ts'
import { TEAM_MEMBERS } from '../entities/team.ts'
import { readStoredAccounts } from './read-accounts.ts'
import type { StoredAccounts } from './record-operations.ts'
import { readSnapshot, writeSnapshot } from './snapshot.ts'
import { SnapshotKeeper } from './snapshot-keeper.ts'

const URL = 'postgres://user:secret@db.example.com/headgate'
const FILE = 'control-snapshot.json'
const EMPTY: StoredAccounts = { seq: 1, records: NO_ACCOUNTS, tokens: [], decisions: [] }

const newFolder = (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-snapshot-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A database with a record of each kind. */
const filled = async (folder: string): Promise<StoredAccounts> => {
  using control = await openControl(folder)
  await control.run({ do: 'create', kind: 'team', body: { name: 'search' } })
  await control.createKey('a', { team: 'search' })
  await control.run({ do: 'create', kind: 'budget', body: { name: 'b', amount: '5', period: 'day' } })
  await control.run({ do: 'create', kind: 'price', body: { provider: 'openai', model: '*', prices: { input: 1 } } })
  await control.run({ do: 'create', kind: 'token', body: { name: 't', bindings: [{ role: 'viewer' }] } })
  await control.run({ do: 'decide', kind: 'circuit', id: 'openai', state: 'open', until: null, reason: 'x' })
  const stored = readStoredAccounts(folder)
  assert.ok(stored)
  // Rows of SQLite have no prototype.
  return structuredClone(stored)
}

test('snapshot: what is written is read, by the same database only, whatever its password', async (t) => {
  const folder = newFolder(t)
  const stored = await filled(folder)
  writeSnapshot(folder, URL, stored)
  assert.deepEqual(readSnapshot(folder, URL), stored)
  assert.deepEqual(readSnapshot(folder, 'postgres://other:new@db.example.com:5432/headgate?sslmode=require'), stored)
  for (const other of [
    'postgres://user:secret@db.example.com/other',
    'postgres://user:secret@db2.example.com/headgate',
    'postgres://user:secret@db.example.com:5433/headgate',
  ])
    assert.equal(readSnapshot(folder, other), null)
  assert.equal(statSync(join(folder, FILE)).mode & 0o777, 0o600)
  assert.doesNotMatch(readFileSync(join(folder, FILE), 'utf8'), /secret@|db\.example\.com/)
})

test('snapshot: a damaged file, another format and no file are not read', (t) => {
  const folder = newFolder(t)
  assert.equal(readSnapshot(folder, URL), null)
  writeSnapshot(folder, URL, EMPTY)
  const text = readFileSync(join(folder, FILE), 'utf8')
  for (const bad of ['', '{}', 'null', text.slice(0, -2), text.replace('"format":1', '"format":0')]) {
    writeFileSync(join(folder, FILE), bad)
    assert.equal(readSnapshot(folder, URL), null, bad)
  }
})

test('snapshot: beside the members of the schemas it has these; raise FORMAT in snapshot.ts when they change', async (t) => {
  const { records, tokens, decisions } = await filled(newFolder(t))
  const members = (list: readonly object[], schema: object = {}) =>
    Object.keys(list.at(-1) ?? {})
      .filter((name) => !Object.hasOwn(schema, name))
      .sort()
      .join(' ')
  assert.equal(members(records.teams, TEAM_MEMBERS), 'id managed name status')
  assert.equal(members(records.keys, KEY_MEMBERS), 'createdAt expiresAt id managed name secrets status team')
  assert.equal(members(records.keys[0]?.secrets ?? []), 'createdAt digest last4 until')
  assert.equal(members(records.budgets, BUDGET_MEMBERS), 'amount createdAt id managed name')
  assert.equal(members(records.prices), 'effectiveFrom id managed model prices provider')
  assert.equal(members(tokens), 'bindings digests expiresAt id name status')
  assert.equal(members(decisions), 'id kind reason state until')
})

test('snapshot keeper: changes are in the snapshot, and a folder that cannot be written is reported', async (t) => {
  const folder = newFolder(t)
  const stored = await filled(join(folder, 'source'))
  const problems: (string | null)[] = []
  const data = join(folder, 'data')
  const keeper = () => {
    const made = new SnapshotKeeper({ folder: data, url: URL, onProblem: (problem) => problems.push(problem) })
    t.after(() => made.close())
    return made
  }
  const [key] = stored.records.keys
  assert.ok(key)
  const first = keeper()
  first.replace(stored)
  const change = { records: { ...NO_ACCOUNTS, keys: [{ ...key, status: 'revoked' as const }] }, tokens: [] }
  first.apply({ seq: 9, ...change, removed: stored.records.budgets.map(({ id }) => id), decisions: null })
  first.close()
  const found = readSnapshot(data, URL)
  assert.deepEqual(
    [found?.seq, found?.records.keys[0]?.status, found?.records.budgets, found?.tokens, found?.decisions.length],
    [9, 'revoked', [], [], 1],
  )
  assert.deepEqual(readdirSync(data), [FILE])
  rmSync(data, { recursive: true })
  writeFileSync(data, '')
  const second = keeper()
  second.replace(EMPTY)
  second.close()
  assert.match(String(problems.at(-1)), /^E[A-Z]+ \(/)
  rmSync(data)
  mkdirSync(data)
  second.close()
  assert.deepEqual([problems.at(-1), readSnapshot(data, URL)?.seq], [null, 1])
})
