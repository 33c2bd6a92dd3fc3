import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { configVersion, configVersions, historyFolder, keepConfig } from './config-history.ts'
import { maskedText } from './masked-text.ts'

const CANARY = 'canary-0123456789'
const cases: readonly (readonly [name: string, text: string, masked: string])[] = [
  [
    'the key of a provider',
    `providers:\n  own: { keys: [${CANARY}, "\${OWN_KEY}"], models: [gpt-5] } # own\n`,
    `providers:\n  own: { keys: ["\${HIDDEN_PROVIDERS_OWN_KEYS_0}", "\${OWN_KEY}"], models: [gpt-5] } # own\n`,
  ],
  [
    'a header',
    `providers:\n  own:\n    headers: { x-team: ${CANARY} }\n`,
    `providers:\n  own:\n    headers: { x-team: "\${HIDDEN_PROVIDERS_OWN_HEADERS_X_TEAM}" }\n`,
  ],
  ['a pepper as a number', 'auth:\n  pepper: 12345678\n', `auth:\n  pepper: "\${HIDDEN_AUTH_PEPPER}"\n`],
  ['an address with a password', `redis:\n  url: redis://u:${CANARY}@h/0\n`, `redis:\n  url: "\${HIDDEN_REDIS_URL}"\n`],
  [
    'the address of alerts',
    `alerts:\n  url: https://hooks.example/${CANARY}\n`,
    `alerts:\n  url: "\${HIDDEN_ALERTS_URL}"\n`,
  ],
  [
    'a base URL with a query',
    `providers:\n  own:\n    baseUrl: https://h/v1?k=${CANARY}\n`,
    `providers:\n  own:\n    baseUrl: "\${HIDDEN_PROVIDERS_OWN_BASEURL}"\n`,
  ],
  [
    'a block of text',
    `sso:\n  clientSecret: |\n    ${CANARY}\n    more\ncircuit:\n  timeout: 1\n`,
    `sso:\n  clientSecret: "\${HIDDEN_SSO_CLIENTSECRET}"\ncircuit:\n  timeout: 1\n`,
  ],
  [
    'an alias',
    `circuit:\n  timeout: &a ${CANARY}\nauth:\n  pepper: *a\n`,
    `circuit:\n  timeout: &a "\${HIDDEN_AUTH_PEPPER}"\nauth:\n  pepper: *a\n`,
  ],
  [
    'a key in a comment',
    '# was sk-proj-0123456789abcdef\ncircuit:\n  timeout: 1 # Xy0123456789abcdefghij\n',
    '# was …\ncircuit:\n  timeout: 1 # …\n',
  ],
  [
    'nothing',
    'budgets:\n  all: { amount: "1.00", appliesTo: { keys: [ci] } }\nteams:\n  a: { limits: { tokensPerMinute: 5 } }\n',
    'budgets:\n  all: { amount: "1.00", appliesTo: { keys: [ci] } }\nteams:\n  a: { limits: { tokensPerMinute: 5 } }\n',
  ],
]
for (const [name, text, masked] of cases)
  test(`masked configuration: ${name}`, () => {
    assert.equal(maskedText(text), masked)
    assert.ok(!masked.includes(CANARY))
    // Still the same shape.
    assert.deepEqual(Object.keys(parse(masked)), Object.keys(parse(text)))
  })

test('configuration history: keeps what changed, newest first, for the owner only, without secrets', async (context) => {
  const data = await mkdtemp(join(tmpdir(), 'headgate-history-'))
  context.after(() => rm(data, { recursive: true, force: true }))
  assert.deepEqual(await configVersions(data), [])
  const textOf = (n: number) => `auth:\n  pepper: ${CANARY}\ncircuit:\n  timeout: ${n}\n`
  const start = Date.parse('2026-11-28T10:00:00.123Z')
  for (let n = 0; n < 60; n++) {
    await keepConfig(data, textOf(n), start + n * 1_000)
    await keepConfig(data, textOf(n), start + n * 1_000 + 1)
  }
  const versions = await configVersions(data)
  assert.equal(versions.length, 50)
  assert.equal(versions[0]?.at, '2026-11-28T10:00:59.123Z')
  assert.equal(versions.at(-1)?.at, '2026-11-28T10:00:10.123Z')
  const [{ id } = assert.fail()] = versions
  assert.equal(await configVersion(data, id), `auth:\n  pepper: "\${HIDDEN_AUTH_PEPPER}"\ncircuit:\n  timeout: 59\n`)
  const folder = historyFolder(data)
  for (const name of await readdir(folder)) {
    assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600)
    assert.ok(!(await readFile(join(folder, name), 'utf8')).includes(CANARY))
  }
  // IDs are names of such files, not paths.
  await writeFile(join(data, 'other.yaml'), 'x: 1\n')
  for (const wrong of ['../other', 'other', '', `${id}/..`]) assert.equal(await configVersion(data, wrong), null)
})
