/** Keys of the database in a real process: its start, changes by another process, and a database that cannot be read. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { readStoredAccounts } from '../../src/records/store/read-accounts.ts'
import { openControl } from '../support/control.ts'
import { run, type Started, start } from './support/process.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-control-e2e-'))
  folders.push(folder)
  return folder
}

const call = (gateway: Started, key?: string) =>
  fetch(`${gateway.base}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }),
  })
const statusOf = async (gateway: Started, key?: string) => {
  const response = await call(gateway, key)
  await response.arrayBuffer()
  return response.status
}
/** Waits until the status of a call is the expected one; changes arrive within a second on an idle machine. */
const becomes = async (gateway: Started, key: string | undefined, status: number) => {
  for (let waited = 0; (await statusOf(gateway, key)) !== status; waited += 50) {
    assert.ok(waited < 15_000, `the status is not ${status}`)
    await sleep(50)
  }
}
type Health = { readonly status: string; readonly auth: string; readonly problems?: readonly { component: string }[] }
// The shape of the page is checked by the tests of its schema.
const healthOf = async (gateway: Started) => (await (await fetch(`${gateway.url}/health`)).json()) as Health

test('control: keys of another process are valid without a restart, and their changes act', async () => {
  const folder = newFolder()
  await using gateway = await start({ env: { DATA_DIR: folder } })
  assert.equal(await statusOf(gateway), 200)
  assert.equal((await healthOf(gateway)).auth, 'open')
  using control = await openControl(folder)
  const { id, secret } = await control.createKey('a')
  await becomes(gateway, undefined, 401)
  assert.equal(await statusOf(gateway, secret), 200)
  assert.equal((await healthOf(gateway)).auth, 'keys')
  const rotated = await control.run({ do: 'rotate', id, overlap: '24h' })
  await becomes(gateway, String(rotated.secret), 200)
  assert.equal(await statusOf(gateway, secret), 200)
  await control.run({ do: 'block', kind: 'key', id })
  await becomes(gateway, secret, 401)
  await control.run({ do: 'unblock', kind: 'key', id })
  await becomes(gateway, secret, 200)
  await control.run({ do: 'block', kind: 'team', id: 'team_default' })
  await becomes(gateway, secret, 403)
  assert.equal(await gateway.stop(), 0)
})

test('control: a start reads 1,000 keys, serves them at once, and stores when they were used', async () => {
  const folder = newFolder()
  const keys: { readonly id: string; readonly secret: string }[] = []
  {
    using control = await openControl(folder)
    for (let n = 0; n < 1_000; n++)
      keys.push(await control.createKey(`k${n.toString(2).replaceAll('0', 'a').replaceAll('1', 'b')}`))
  }
  assert.equal(readStoredAccounts(folder)?.records.keys.length, 1_000)
  await using gateway = await start({ env: { DATA_DIR: folder } })
  const { id = '', secret } = keys[500] ?? {}
  assert.equal(await statusOf(gateway), 401)
  assert.equal(await statusOf(gateway, secret), 200)
  assert.equal(await statusOf(gateway, `${secret?.slice(0, -1)}!`), 401)
  // The thread, which stores the last use, starts after the first requests.
  await sleep(1_500)
  for (let n = 0; n < 20; n++) assert.equal(await statusOf(gateway, keys[n]?.secret), 200)
  assert.equal(await gateway.stop(), 0)
  assert.ok(!gateway.output().includes(String(secret)))
  using control = await openControl(folder)
  const shown = await control.run({ do: 'get', kind: 'key', id: keys[7]?.id ?? '' })
  assert.match(String(shown.last_used_at), /:00:00\.000Z$/)
  assert.ok(id)
})

test('control: while the database cannot be read, keys are 503, and they work once it can', async () => {
  const folder = newFolder()
  const path = join(folder, 'control.db')
  let secret = ''
  {
    using control = await openControl(folder)
    secret = (await control.createKey('a')).secret
  }
  renameSync(path, `${path}.good`)
  writeFileSync(path, 'x'.repeat(20_000))
  await using gateway = await start({ env: { DATA_DIR: folder } })
  const refused = await call(gateway, secret)
  assert.equal(refused.status, 503)
  assert.match(await refused.text(), /"keys_unavailable"/)
  assert.equal(refused.headers.get('retry-after'), '2')
  assert.equal(await statusOf(gateway), 503)
  const health = await healthOf(gateway)
  assert.deepEqual([health.status, health.problems?.[0]?.component], ['degraded', 'control'])
  assert.ok(!JSON.stringify(health).includes(folder))
  writeFileSync(path, readFileSync(`${path}.good`))
  await becomes(gateway, secret, 200)
  await gateway.line(({ event, status }) => event === 'control' && status === 'ok')
  assert.equal((await healthOf(gateway)).problems, undefined)
})

test('control: a start with one name in the file and in the database is refused with both places', async () => {
  const folder = newFolder()
  {
    using control = await openControl(folder)
    await control.run({ do: 'create', kind: 'team', body: { name: 'search' } })
  }
  const process = await run({ env: { DATA_DIR: folder }, files: { 'headgate.yaml': 'teams:\n  search: {}\n' } })
  assert.equal(await process.exited, 1)
  assert.match(
    process.output(),
    /headgate\.yaml:2:3: teams\.search: found the team "search", which is in the database too \(team_[a-z]{12}\)/,
  )
  assert.match(process.output(), /headgate adopt team search/)
  const checked = await run({
    args: ['config', 'check'],
    env: { DATA_DIR: folder },
    files: { 'headgate.yaml': 'teams:\n  search: {}\n' },
  })
  assert.equal(await checked.exited, 3)
  assert.match(checked.output(), /headgate adopt team search/)
})

test('control: a key of the file may belong to a team of the database; a reload with a name of both is refused', async () => {
  const folder = newFolder()
  {
    using control = await openControl(folder)
    await control.run({ do: 'create', kind: 'team', body: { name: 'search' } })
  }
  const secret = 'a-key-of-the-file-for-the-team-search'
  const yaml = `keys:\n  a: { team: search, secret: ${secret} }\n`
  await using gateway = await start({ env: { DATA_DIR: folder }, files: { 'headgate.yaml': yaml } })
  assert.equal(await statusOf(gateway, secret), 200)
  writeFileSync(join(gateway.folder, 'headgate.yaml'), `${yaml}teams:\n  search: {}\n`)
  const refused = await gateway.line(({ event }) => event === 'config_refused')
  assert.match(
    String(refused.message),
    /headgate\.yaml:4:3.*in the database too \(team_[a-z]{12}\).*headgate adopt team search/,
  )
  assert.equal(await statusOf(gateway, secret), 200)
})
