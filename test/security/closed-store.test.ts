/** Attempts to open model calls by the loss of the store of keys, or of the last credential. */
import assert from 'node:assert/strict'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { NO_ACCOUNTS } from '../../src/core/accounts.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import { KeyStore, type KeyStoreOptions } from '../../src/records/store/key-store.ts'
import { AccessRules, NOT_LOOKED_UP } from '../../src/server/access-rules.ts'
import { type ApiRoute, ROUTES } from '../../src/server/routes.ts'
import { post, start } from '../e2e/support/process.ts'
import { testBudget } from '../support/accounts.ts'
import { openControl } from '../support/control.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-closed-'))
  folders.push(folder)
  return folder
}

const DATA = 'data'
const ROUTE: ApiRoute = { name: 'chat', ...ROUTES.chat }

/** The gate of a process with this data folder. `answer`: the failure of a model call, or `open`. */
const gate = (
  home: string,
  options: Partial<KeyStoreOptions> = {},
  settings: Parameters<typeof settingsSchema.parse>[0] = {},
) => {
  const problems: (string | null)[] = []
  const store = new KeyStore({
    folder: join(home, DATA),
    database: null,
    file: () => NO_ACCOUNTS,
    auth: () => ({ keys: [] }),
    auditDays: () => 365,
    isConfigured: () => false,
    needsStore: () => false,
    date: Date.now,
    onState: (problem) => problems.push(problem),
    ...options,
  })
  const rules = new AccessRules(store)
  const requestWith = (presented?: string) => ({
    route: ROUTE,
    address: '192.0.2.1',
    hosts: ['localhost'],
    version: '1.1',
    headers: (name: string) => (name === 'authorization' && presented ? `Bearer ${presented}` : undefined),
  })
  const parsed = settingsSchema.parse(settings)
  const shown = (result: ReturnType<AccessRules['check']>) =>
    result.ok ? result.value.name || 'open' : result.failure.kind
  const answer = (presented?: string) => shown(rules.check(parsed, requestWith(presented)))
  /** With the look-up of a key that is not known. */
  const answerInTheEnd = async (presented?: string) => {
    const result = rules.check(parsed, requestWith(presented))
    const isOpen = !result.ok && result.failure === NOT_LOOKED_UP
    return shown(isOpen ? await rules.lookUp(parsed, requestWith(presented)) : result)
  }
  return { store, problems, answer, answerInTheEnd, isReady: () => !store.isLoading() }
}

/** A home with a key in its data folder. */
const withKey = async () => {
  const home = newFolder()
  using control = await openControl(join(home, DATA))
  return { home, data: join(home, DATA), secret: (await control.createKey('alice')).secret }
}

const isRoot = process.getuid?.() === 0
const losses: readonly (readonly [string, (data: string) => void, boolean?])[] = [
  ['the folder may not be entered', (data) => chmodSync(data, 0o000), isRoot],
  ['control.db may not be read', (data) => chmodSync(join(data, 'control.db'), 0o000), isRoot],
  [
    'a file is in the place of the folder',
    (data) => {
      rmSync(data, { recursive: true })
      writeFileSync(data, '')
    },
  ],
  [
    'a file is in the place of a folder above',
    (data) => {
      rmSync(data, { recursive: true })
      rmSync(join(data, '..'), { recursive: true })
      writeFileSync(join(data, '..'), '')
    },
  ],
  [
    'the folder is a link that leads nowhere',
    (data) => {
      renameSync(data, `${data}.away`)
      symlinkSync(join(data, '..', 'not-mounted'), data)
    },
  ],
  [
    'the folder is a link to itself',
    (data) => {
      renameSync(data, `${data}.away`)
      symlinkSync(data, data)
    },
  ],
  [
    'control.db is a link that leads nowhere',
    (data) => {
      rmSync(join(data, 'control.db'))
      symlinkSync(join(data, 'other.db'), join(data, 'control.db'))
    },
  ],
  ['control.db is empty', (data) => writeFileSync(join(data, 'control.db'), '')],
  ['control.db is no database', (data) => writeFileSync(join(data, 'control.db'), 'x'.repeat(9_000))],
  [
    'control.db is a folder',
    (data) => {
      rmSync(join(data, 'control.db'))
      mkdirSync(join(data, 'control.db'))
    },
  ],
  [
    'only the log of control.db is left',
    (data) => {
      rmSync(join(data, 'control.db'))
      writeFileSync(join(data, 'control.db-wal'), 'x')
    },
  ],
  [
    'the keys are in Postgres and DATABASE_URL is not set',
    (data) => {
      rmSync(join(data, 'control.db'))
      writeFileSync(join(data, 'control-snapshot.json'), '{}')
    },
  ],
]
for (const [loss, lose, skip = false] of losses)
  test(`lost keys: ${loss}: model calls are 503, and the gateway is not ready`, { skip }, async () => {
    const { home, data, secret } = await withKey()
    lose(data)
    const { problems, answer, answerInTheEnd, isReady } = gate(home)
    try {
      assert.deepEqual(
        [answer(), await answerInTheEnd(secret), await answerInTheEnd('sk-any')],
        Array(3).fill('keys_unavailable'),
      )
      assert.equal(isReady(), false)
      assert.match(String(problems), /./)
    } finally {
      if (loss.includes('may not')) chmodSync(data, 0o700)
    }
  })

for (const code of ['EACCES', 'EPERM', 'EIO', 'ENOTDIR', 'EMFILE'])
  test(`lost keys: control.db cannot be opened (${code}): 503 for every key, and not ready`, async () => {
    const { home, secret } = await withKey()
    const read = () => {
      throw Object.assign(new Error(`${code}: control.db`), { code })
    }
    const { problems, answer, answerInTheEnd, isReady } = gate(home, { read })
    assert.deepEqual(
      [answer(), await answerInTheEnd(secret), await answerInTheEnd('sk-any')],
      Array(3).fill('keys_unavailable'),
    )
    assert.equal(isReady(), false)
    assert.match(String(problems), /./)
  })

for (const [name, pepper] of [
  ['is not set', undefined],
  ['is another one', 'another pepper of some length'],
] as const)
  test(`lost keys: keys that were stored with a pepper open nothing where it ${name}`, async () => {
    const home = newFolder()
    const stored = 'the pepper of the first start'
    using control = await openControl(join(home, DATA), stored)
    const { secret } = await control.createKey('alice')
    const auth = (now: string | undefined) => ({ auth: { required: 'auto', ...(now && { pepper: now }) } })
    assert.equal(gate(home, {}, auth(stored)).answer(secret), 'alice')
    const { answer } = gate(home, {}, auth(pepper))
    assert.deepEqual([answer(), answer(secret), answer('sk-any')], Array(3).fill('unauthenticated'))
  })

test('lost keys: a missing control.db is 503 where only stored keys can be valid, until a key is created', async () => {
  const home = newFolder()
  const { store, problems, answer, isReady } = gate(home, { isConfigured: () => true, needsStore: () => true })
  assert.deepEqual([answer(), answer('sk-any'), isReady()], ['keys_unavailable', 'keys_unavailable', false])
  assert.match(problems.join(), /no control\.db .* first key/)
  using control = await openControl(join(home, DATA))
  const { secret } = await control.createKey('alice')
  await store.refresh()
  assert.deepEqual([answer(), answer(secret), isReady(), problems.at(-1)], ['unauthenticated', 'alice', true, null])
  await store.close()
})

for (const where of ['at the start', 'while the gateway runs'] as const)
  test(`lost keys: a copy of control.db without its log is closed ${where}`, async () => {
    const home = newFolder()
    using control = await openControl(join(home, 'first'))
    await control.createKey('alice')
    mkdirSync(join(home, DATA))
    if (where === 'at the start') copyFileSync(join(home, 'first', 'control.db'), join(home, DATA, 'control.db'))
    const { store, answer } = gate(home)
    if (where !== 'at the start') {
      assert.equal(answer(), 'open')
      copyFileSync(join(home, 'first', 'control.db'), join(home, DATA, 'control.db'))
      await store.refresh()
    }
    assert.equal(answer(), 'unauthenticated')
    await store.close()
  })

test('lost keys: a data folder that is removed while the gateway runs is 503, but for keys that are known', async () => {
  const { home, data, secret } = await withKey()
  const { store, answer, isReady } = gate(home)
  const context = {
    actor: { kind: 'x', id: 'x', name: 'x' },
    from: null,
    requestId: null,
    teams: null,
    idempotencyKey: null,
  }
  const operate = async () => await store.run({ do: 'create', kind: 'key', body: { name: 'bob' } }, context)
  // Before the thread has opened the file, and after.
  rmSync(data, { recursive: true })
  const refused = await operate()
  assert.deepEqual(!refused.ok && [refused.error.status, refused.error.code], [503, 'control_unavailable'])
  assert.deepEqual([answer(secret), answer(), isReady()], ['alice', 'keys_unavailable', false])
  // Another, empty database is no replacement.
  {
    using control = await openControl(data)
    await control.run({ do: 'note', action: 'x', object: 'x', details: {} })
  }
  const other = await operate()
  assert.match(other.ok ? '' : other.error.message, /has lost its client keys/)
  assert.deepEqual([answer(secret), answer()], ['alice', 'keys_unavailable'])
  await store.close()
})

// ── Named once, closed for ever ──────────────────────────────────────────────────────────────────────────────────────

for (const [name, operations] of [
  ['a key that was revoked', [{ do: 'create', kind: 'key', body: { name: 'a' } }]],
  ['a team that was deleted', [{ do: 'create', kind: 'team', body: { name: 'a' } }]],
  ['a budget that was deleted', [{ do: 'create', kind: 'budget', body: { name: 'a', amount: '1', period: 'day' } }]],
  [
    'an admin token that was revoked',
    [{ do: 'create', kind: 'token', body: { name: 'a', bindings: [{ role: 'viewer' }] } }],
  ],
] as const)
  test(`opened again: ${name} leaves the gateway closed, also after a restart`, async () => {
    const home = newFolder()
    {
      using control = await openControl(join(home, DATA))
      for (const operation of operations) {
        const { id } = await control.run(operation)
        await control.run({ do: 'delete', kind: operation.kind, id: String(id), rev: null })
      }
    }
    assert.equal(gate(home).answer(), 'unauthenticated')
  })

test('opened again: a file that loses its last budget while the gateway runs does not open it', () => {
  let file = { ...NO_ACCOUNTS, budgets: [testBudget(1)] }
  const { store, answer } = gate(newFolder(), { file: () => file })
  assert.equal(answer(), 'unauthenticated')
  file = { ...NO_ACCOUNTS, budgets: [] }
  store.settingsChanged()
  assert.equal(answer(), 'unauthenticated')
})

test('opened again: without credentials the gateway is open over restarts, also with a control.db', async () => {
  const home = newFolder()
  assert.equal(gate(home).answer(), 'open')
  assert.equal(gate(home).answer('any'), 'open')
  {
    using control = await openControl(join(home, DATA))
    await control.run({ do: 'decide', kind: 'circuit', id: 'openai', state: 'open', until: null, reason: 'rest' })
    await control.run({ do: 'note', action: 'x', object: 'x', details: {} })
  }
  const { answer, isReady } = gate(home)
  assert.deepEqual([answer(), isReady()], ['open', true])
})

test('opened again: the first credential and the end of the last key say what changes', async () => {
  await using gateway = await start()
  const admin = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return {
      warning: response.headers.get('x-headgate-warning') ?? '',
      id: String(JSON.parse(await response.text()).id),
    }
  }
  const team = await admin('POST', '/teams', { name: 'search' })
  assert.match(
    team.warning,
    /^from now on every model call needs a client key .*There is none so far: headgate keys create/,
  )
  const key = await admin('POST', '/keys', { name: 'alice', access: { models: ['no-such-route'] } })
  assert.match(key.warning, /permits no model and no route that is configured/)
  assert.equal((await admin('POST', '/keys', { name: 'bob', access: { models: ['demo/*'] } })).warning, '')
  const bob = JSON.parse(await (await fetch(`${gateway.url}/admin/api/v1/keys?q=bob`)).text()).data[0].id
  assert.equal((await admin('DELETE', `/keys/${bob}?force=true`)).warning, '')
  assert.match((await admin('DELETE', `/keys/${key.id}?force=true`)).warning, /last client key.*AUTH_REQUIRED=false/)
})

test('lost keys: a production gateway whose data folder is gone refuses calls, is not ready and logs why', async () => {
  const ADMIN = 'admin-token-0123456789abcdef'
  const env = {
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    DRAIN_DELAY: '0',
    OPENAI_API_KEY: 'sk-x',
    AUTH_ADMIN: ADMIN,
    AUTH_REQUIRED: 'auto',
  }
  await using gateway = await start({ env })
  const call = async (key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const { status, json } = await post(`${gateway.base}/chat/completions`, {}, headers)
    return [status, json().error.code]
  }
  const ready = async () => (await fetch(`${gateway.url}/health/ready`)).status
  assert.deepEqual([await call(), await ready()], [[503, 'keys_unavailable'], 503])
  assert.match(String((await gateway.line(({ event }) => event === 'control')).message), /there is no control\.db/)
  const created = await post(
    `${gateway.url}/admin/api/v1/keys`,
    { name: 'alice' },
    { authorization: `Bearer ${ADMIN}` },
  )
  assert.equal(created.status, 201)
  assert.deepEqual([(await call())[0], await ready(), (await call(created.json().secret))[0]], [401, 200, 400])
  renameSync(join(gateway.folder, '.headgate'), join(gateway.folder, 'away'))
  await gateway.line(({ event, message }) => event === 'control' && /deleted, moved/.test(String(message)))
  assert.deepEqual(
    [await call(), await ready(), (await call(created.json().secret))[0]],
    [[503, 'keys_unavailable'], 503, 400],
  )
})

test('lost keys: where keys are required by hand, a balancer leads to the first key, and calls stay 503', () => {
  const options = { isConfigured: () => true, needsStore: () => true, isReadyWithoutStore: () => true }
  const missing = gate(newFolder(), options)
  assert.equal(missing.answer(), 'keys_unavailable')
  assert.equal(missing.answer('sk-any'), 'keys_unavailable')
  assert.equal(missing.isReady(), true)
  // Only a database that is not there may be that of a new installation.
  const broken = newFolder()
  mkdirSync(join(broken, DATA, 'control.db'), { recursive: true })
  assert.equal(gate(broken, options).isReady(), false)
})

test('lost keys: without AUTH_ADMIN too, AUTH_REQUIRED=true is 503 until the first key exists', async () => {
  const env = { NODE_ENV: 'production', HOST: '127.0.0.1', OPENAI_API_KEY: 'sk-x', AUTH_REQUIRED: 'true' }
  await using gateway = await start({ env })
  const { status, json } = await post(`${gateway.base}/chat/completions`, {}, { authorization: 'Bearer sk-any' })
  assert.deepEqual([status, json().error.code], [503, 'keys_unavailable'])
  assert.equal((await fetch(`${gateway.url}/health/ready`)).status, 200)
  assert.match(String((await gateway.line(({ event }) => event === 'control')).message), /there is no control\.db/)
})
