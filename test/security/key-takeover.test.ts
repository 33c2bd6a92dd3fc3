/** Attempts to take over the key of another team or of the configuration by a record with the same secret. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { ClientKey } from '../../src/core/accounts.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { buildDirectory } from '../../src/policy/accounts/directory.ts'
import { digestsOf, pepperedDigest, plainDigest } from '../../src/records/entities/secret-digest.ts'
import { ControlDatabase } from '../../src/records/store/control-database.ts'
import { controlSettings } from '../../src/records/store/control-settings.ts'
import { readStoredAccounts } from '../../src/records/store/read-accounts.ts'
import { KeyIndex } from '../../src/server/key-index.ts'
import { load } from '../support/config.ts'

const PEPPER = 'a pepper of some length'
const ADMIN = 'the-token-of-the-operator-1'
const STATIC = 'a-key-of-the-environment-1'
const FILE_KEY = 'sk-a-key-of-the-file-0123456789'
const OTHER = 'sk-a-key-of-another-team-0123456789'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A file with a key, and what loading it with these records gives. */
const configWith = (folder: string, pepper?: string, digest = plainDigest(FILE_KEY)) =>
  load({
    env: { OPENAI_API_KEY: 'sk-x', AUTH_KEYS: STATIC, AUTH_ADMIN: ADMIN, ...(pepper && { AUTH_PEPPER: pepper }) },
    yaml: `keys: { prod: { digest: "${digest}" } }\n`,
    stored: () => readStoredAccounts(folder)?.records ?? null,
  })

const gateway = async (pepper?: string) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-takeover-'))
  folders.push(folder)
  const loaded = configWith(folder, pepper)
  assert.ok(loaded.ok)
  const { accounts, settings } = loaded.config
  const control = controlSettings({ accounts, auth: settings.auth, auditDays: 365 })
  const database = await ControlDatabase.open({ folder, database: null }, control)
  const run = async (
    body: JsonObject,
    teams: readonly string[] | null = null,
    kind: 'key' | 'team' | 'token' = 'key',
  ) => {
    const context = {
      actor: { kind: 'token', id: 'adm_x', name: 'x' },
      from: null,
      requestId: null,
      teams,
      idempotencyKey: null,
    }
    const result = await database.run({ do: 'create', kind, body }, context, Date.now())
    return result.ok ? result.value : { ...result.error, errors: null }
  }
  return { folder, run, database, [Symbol.dispose]: () => database.close() }
}

for (const pepper of [undefined, PEPPER])
  for (const [owner, secret] of [
    ['a key of headgate.yaml', FILE_KEY],
    ['a key of auth.keys', STATIC],
    ['auth.admin', ADMIN],
  ] as const)
    for (const [spelling, body] of [
      ['its plain digest', { digest: plainDigest(secret) }],
      ['its digest and the end of another key', { digest: plainDigest(secret), last4: 'zzzz', logBodies: true }],
      ['the secret itself', { secret }],
      ...(pepper && owner !== 'a key of headgate.yaml'
        ? [['its digest with the pepper', { digest: pepperedDigest(secret, pepper) }] as const]
        : []),
    ] as const)
      test(`key takeover: ${owner} cannot be created again by ${spelling}, ${pepper ? 'with' : 'without'} a pepper`, async () => {
        using at = await gateway(pepper)
        const { status, code, path } = await at.run({ name: 'mine', ...body })
        assert.deepEqual([status, code, path], [409, 'secret_taken', 'secret'])
      })

test('key takeover: the secret of a revoked key of another team, and of an admin token, cannot be created again', async () => {
  using at = await gateway(PEPPER)
  const { id: team } = await at.run({ name: 'other' }, null, 'team')
  const { id } = await at.run({ name: 'theirs', team: String(team), secret: OTHER })
  const { secret } = await at.run({ name: 'root', bindings: [{ role: 'admin' }] }, null, 'token')
  const context = {
    actor: { kind: 'x', id: 'x', name: 'x' },
    from: null,
    requestId: null,
    teams: null,
    idempotencyKey: null,
  }
  await at.database.run({ do: 'delete', kind: 'key', id: String(id), rev: null }, context, Date.now())
  for (const body of [
    { secret: OTHER },
    { digest: pepperedDigest(OTHER, PEPPER) },
    { secret: String(secret) },
    { digest: pepperedDigest(String(secret), PEPPER) },
  ])
    assert.equal((await at.run({ name: 'mine', ...body })).code, 'secret_taken', JSON.stringify(body))
})

test('key takeover: a digest is imported by an administrator of all teams only', async () => {
  using at = await gateway()
  const { id: team } = await at.run({ name: 'own' }, null, 'team')
  for (const digest of digestsOf('sk-no-other-has-this-key-0123456789', PEPPER)) {
    const refused = await at.run({ name: 'mine', team: String(team), digest }, [String(team)])
    assert.deepEqual([refused.status, refused.code, refused.path], [403, 'not_permitted', 'digest'])
  }
  assert.equal((await at.run({ name: 'mine', team: String(team) }, [String(team)])).name, 'mine')
})

/** Records as an archive, another gateway or an older version may have stored them. */
const foreign = (folder: string, digest: string, rest: Partial<ClientKey> = {}): ClientKey => {
  const key = readStoredAccounts(folder)?.records.keys.find(({ name }) => name === 'mine')
  assert.ok(key)
  return { ...key, secrets: [{ digest, last4: '', createdAt: 0, until: null }], ...rest }
}

for (const [spelling, pepper, inFile, inDatabase] of [
  ['the same digest', undefined, plainDigest(FILE_KEY), plainDigest(FILE_KEY)],
  ['the plain digest beside one with a pepper', PEPPER, pepperedDigest(FILE_KEY, PEPPER), plainDigest(FILE_KEY)],
  ['the digest with a pepper beside a plain one', PEPPER, plainDigest(FILE_KEY), pepperedDigest(FILE_KEY, PEPPER)],
] as const)
  for (const status of ['active', 'revoked'] as const)
    test(`key takeover: a stored key with ${spelling} (${status}) prevents no start, and the file's key wins`, async () => {
      using at = await gateway(pepper)
      await at.run({ name: 'mine' })
      const key = foreign(at.folder, inDatabase, { status, createdAt: 0 })
      const stored = { teams: [], keys: [key], budgets: [], prices: [], routes: [] }
      const loaded = load({
        env: { OPENAI_API_KEY: 'sk-x', ...(pepper && { AUTH_PEPPER: pepper }) },
        yaml: `keys: { prod: { digest: "${inFile}" } }\n`,
        stored: () => stored,
      })
      assert.ok(loaded.ok)
      if (inFile === inDatabase)
        assert.match(loaded.warnings.join('\n'), /"prod" has the same secret as the key "mine" of the database/)
      const { accounts, settings } = loaded.config
      const index = new KeyIndex({ auth: settings.auth, directory: buildDirectory(accounts, stored), tokens: [] })
      const nameOf = () => {
        const known = index.find(FILE_KEY)
        return known?.kind === 'key' ? known.key.name : known?.kind
      }
      assert.equal(nameOf(), 'prod')
      // Also after the record was changed, removed, and added while the gateway runs.
      const empty = { ...stored, keys: [] }
      for (const records of [{ ...stored, keys: [{ ...key, logBodies: true }] }, empty, stored]) {
        assert.ok(index.update(buildDirectory(accounts, records), []))
        assert.equal(nameOf(), 'prod')
      }
      // A key that is no longer in the file leaves the secret to the next one.
      assert.ok(index.update(buildDirectory({ ...accounts, keys: [] }, stored), []))
      assert.equal(nameOf(), 'mine')
    })

test('key takeover: of two keys of the database with one secret the older one counts', async () => {
  using at = await gateway(PEPPER)
  await at.run({ name: 'mine' })
  const victim = foreign(at.folder, pepperedDigest(OTHER, PEPPER), { id: 'key_victim', name: 'victim', createdAt: 1 })
  const thief = foreign(at.folder, plainDigest(OTHER), { id: 'key_thief', name: 'thief', createdAt: 2 })
  const auth = { keys: [], required: 'auto' as const, pepper: PEPPER }
  const file = { teams: [], keys: [], budgets: [], prices: [], routes: [], places: {} }
  const directory = (keys: readonly ClientKey[]) =>
    buildDirectory(file, { teams: [], keys, budgets: [], prices: [], routes: [] })
  const index = new KeyIndex({ auth, directory: directory([victim]), tokens: [] })
  const idFound = () => {
    const known = index.find(OTHER)
    return known?.kind === 'key' ? known.key.id : undefined
  }
  assert.equal(idFound(), 'key_victim')
  index.update(directory([thief, victim]), [])
  assert.equal(idFound(), 'key_victim')
})

test('key takeover: a secret that the environment has too is a warning that names the setting', async () => {
  using at = await gateway()
  for (const [secret, setting] of [
    [STATIC, 'auth.keys'],
    [ADMIN, 'auth.admin'],
  ] as const) {
    const loaded = configWith(at.folder, undefined, plainDigest(secret))
    assert.ok(loaded.ok)
    assert.match(
      loaded.warnings.join('\n'),
      new RegExp(`"prod" has the same secret as ${setting}, which takes precedence`),
    )
  }
})
