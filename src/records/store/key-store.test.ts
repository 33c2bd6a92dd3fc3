import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openControl } from '../../../test/support/control.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { KeyStore } from './key-store.ts'
import { readStoredAccounts } from './read-accounts.ts'

const given = (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-keys-'))
  let reads = 0
  const store = new KeyStore({
    folder,
    database: null,
    read: (place) => {
      reads++
      return readStoredAccounts(place.folder)
    },
    file: () => NO_ACCOUNTS,
    auth: () => ({ keys: [] }),
    auditDays: () => 365,
    isConfigured: () => false,
    needsStore: () => false,
    date: Date.now,
    onState: (problem) => assert.equal(problem, null),
  })
  t.after(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const names = () => [...store.directory().keys.values()].map(({ name }) => name).toSorted()
  return { folder, store, names, reads: () => reads }
}

test('key store: a refresh reads what another process has written, without waiting for the thread', async (t) => {
  const { folder, store, names, reads } = given(t)
  await store.refresh()
  assert.equal(store.isStored(), false)
  using control = await openControl(folder)
  for (const [name, expected] of [
    ['a', ['a']],
    ['b', ['a', 'b']],
  ] as const) {
    await control.createKey(name)
    const before = reads()
    const refreshed = store.refresh()
    // Before the thread could answer.
    assert.deepEqual([names(), reads()], [expected, before + 1])
    await refreshed
  }
})

test('key store: after the first message of the thread, a refresh waits for it, and nothing older replaces newer rows', async (t) => {
  const { folder, store, names, reads } = given(t)
  using control = await openControl(folder)
  const written: string[] = []
  for (let n = 0; n < 60; n++) {
    const name = `k-${String(n).padStart(2, '0')}`
    await control.createKey(name)
    written.push(name)
    await store.refresh()
    assert.deepEqual(names(), written)
    await new Promise(setImmediate)
    assert.deepEqual(names(), written)
  }
  await store.run({ do: 'refresh' }, CONTEXT)
  const before = reads()
  await store.refresh()
  assert.equal(reads(), before)
})

const CONTEXT = {
  actor: { kind: 'cli', id: 'test', name: 'test' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
} as const
