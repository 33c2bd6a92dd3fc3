// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to files are under test
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { providers } from '../../test/support/config.ts'
import { settingAt } from './definition.ts'
import { loadConfig, readEnvironment } from './load.ts'
import { problemLine } from './problem.ts'
import { settingRows } from './rows.ts'
import { type Reloaded, watchConfig } from './watch.ts'

/** Runs in a folder with these files. */
const inFolder = async (files: Readonly<Record<string, string>>, run: (folder: string) => Promise<void>) => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-secrets-'))
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { mode: 0o600 })
    await run(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

const SECRET = 'canary-key-0123456789-canary'

test('secret files: a reference in the file, a variable with _FILE, and a reference to a variable with _FILE', () =>
  inFolder(
    {
      one: `${SECRET}\n`,
      two: `${SECRET}-2\r\n`,
      three: `${SECRET}-3`,
      'headgate.yaml':
        'providers: { anthropic: { keys: [ "${file:one}" ] } }\nkeys: { a: { secret: "${DEV_KEY}" } }\nauth: { admin: "${file: three }" }\n',
    },
    async (folder) => {
      const env = { OPENAI_API_KEY_FILE: 'two', DEV_KEY_FILE: join(folder, 'three'), OTHER_FILE: '/nowhere' }
      const loaded = await loadConfig({ env, folder, providers })
      assert.ok(loaded.ok, JSON.stringify(loaded))
      const { instances, accounts, settings } = loaded.config
      assert.deepEqual(
        instances.map(({ id, keys }) => [id, keys[0]?.secret?.reveal()]),
        [
          ['anthropic', SECRET],
          ['openai', `${SECRET}-2`],
        ],
      )
      assert.equal(accounts.keys[0]?.secrets[0]?.last4, 'ry-3')
      assert.equal(settings.auth.admin, `${SECRET}-3`)
      assert.equal((await readEnvironment({ env, folder, providers })).OPENAI_API_KEY, `${SECRET}-2`)
    },
  ))

const VALUES: Readonly<Record<string, string>> = {
  'database.url': `postgres://headgate:${SECRET}@db/headgate`,
  'database.readUrl': `postgres://headgate:${SECRET}@replica/headgate`,
  'redis.url': `redis://:${SECRET}@cache:6379`,
  'otel.headers': `authorization=${SECRET}`,
  'otel.traces.headers': `authorization=${SECRET}`,
  'otel.metrics.headers': `authorization=${SECRET}`,
}

for (const { name, env, path } of settingRows.filter(({ secret }) => secret))
  test(`secret files: ${name} can be in the file of ${env}_FILE`, () => {
    const value = VALUES[name] ?? SECRET
    return inFolder({ it: `${value}\n` }, async (folder) => {
      const loaded = await loadConfig({ env: { [`${env}_FILE`]: 'it' }, folder, providers })
      assert.ok(loaded.ok, JSON.stringify(loaded))
      assert.deepEqual([settingAt(loaded.config.settings, path)].flat(), [value])
    })
  })

const refused: readonly (readonly [string, Record<string, string>, Record<string, string>, RegExp])[] = [
  [
    'a missing file',
    { 'headgate.yaml': 'auth: { admin: "${file:none}" }\n' },
    {},
    /^headgate\.yaml:1:16: found the file "none", which does not exist; allowed: a file that can be read, at most 65536 bytes$/,
  ],
  ['an empty file', { none: '\n' }, { AUTH_ADMIN_FILE: 'none' }, /^AUTH_ADMIN_FILE: found "none", which is empty/],
  ['a file above the limit', { big: 'x'.repeat(65_537) }, { AUTH_KEYS_FILE: 'big' }, /which has 65537 bytes/],

  [
    'a folder',
    { x: 'x' },
    { OPENAI_EAST_API_KEY_2_FILE: '.' },
    /^OPENAI_EAST_API_KEY_2_FILE: found "\.", which is not a file/,
  ],
  ['a device', { x: 'x' }, { AUTH_PEPPER_FILE: '/dev/zero' }, /which is not a file/],
  [
    'a variable beside its file',
    { x: SECRET },
    { OPENAI_API_KEY_FILE: 'x', OPENAI_API_KEY: SECRET },
    /^OPENAI_API_KEY_FILE: found a file, although OPENAI_API_KEY is set; allowed: OPENAI_API_KEY or OPENAI_API_KEY_FILE, not both$/,
  ],
  [
    'an invalid value from a file',
    { x: `${SECRET}\n`, 'headgate.yaml': 'circuit: { timeout: "${file:x}" }\n' },
    {},
    /^headgate\.yaml:1:21: circuit\.timeout: found /,
  ],
]
for (const [name, files, env, expected] of refused)
  test(`secret files: ${name} is refused, and no content is shown`, () =>
    inFolder(files, async (folder) => {
      const loaded = await loadConfig({ env, folder, providers })
      assert.ok(!loaded.ok)
      const lines = loaded.problems.map(problemLine).join('\n')
      assert.match(lines, expected)
      assert.doesNotMatch(lines, /canary/)
    }))

test('secret files: the file of another program is ignored', () =>
  inFolder({}, async (folder) => {
    const env = {
      SOME_TOOL_API_KEY_FILE: '/nowhere',
      SSL_CERT_FILE: '/nowhere',
      AWS_WEB_IDENTITY_TOKEN_FILE: '/nowhere',
    }
    const loaded = await loadConfig({ env, folder, providers })
    assert.ok(loaded.ok)
  }))

test('secret files: a changed secret is applied, also by a swapped link, and a missing one keeps the old', () =>
  inFolder({ 'headgate.yaml': 'providers: { openai: { keys: [ "${file:mount/key}" ] } }\n' }, async (folder) => {
    for (const version of ['v1', 'v2']) {
      await mkdir(join(folder, version))
      await writeFile(join(folder, version, 'key'), `${SECRET}-${version}\n`)
    }
    await symlink('v1', join(folder, 'mount'))
    const sources = { env: {}, folder, providers }
    const running = await loadConfig(sources)
    assert.ok(running.ok)
    const reloads: Reloaded[] = []
    let wake = () => {}
    const signals = { on: () => {}, off: () => {} }
    const watching = watchConfig({
      ...sources,
      running,
      interval: 20,
      settle: 5,
      signals,
      onReload: (reloaded) => {
        reloads.push(reloaded)
        if (reloaded.kind === 'changed') wake()
      },
    })
    try {
      await watching.reload()
      const next = new Promise<void>((resolve) => {
        wake = resolve
      })
      await symlink('v2', join(folder, 'next'))
      await rename(join(folder, 'next'), join(folder, 'mount'))
      await next
      const changed = reloads.find(({ kind }) => kind === 'changed')
      assert.ok(changed?.kind === 'changed')
      assert.equal(changed.config.instances[0]?.keys[0]?.secret?.reveal(), `${SECRET}-v2`)
      assert.doesNotMatch(changed.changes.join('\n'), /canary/)
      await rm(join(folder, 'mount'))
      await watching.reload()
      const last = reloads.at(-1)
      assert.ok(last?.kind === 'refused')
      assert.match(last.problems.map(problemLine).join('\n'), /which does not exist/)
    } finally {
      watching.stop()
    }
  }))
