// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { providers } from '../../test/support/config.ts'
import { effectiveConfig } from './effective.ts'
import { loadTexts, readTexts } from './load.ts'

const YAML = `circuit: { timeout: 7000 }
retry:
  maxAttempts: 3
auth: { keys: [ canary-one, canary-two ], pepper: "\${PEPPER}" }
providers:
  openai: { keys: [ "\${OPENAI}" ], baseUrl: "https://llm.example/v1" }
routes: { fast: { targets: [ openai/m ] } }
keys:
  a: { secret: canary-key-0123456789 }
budgets: { b: { amount: 1, period: day } }
`

test('effective configuration: each value has its origin, and no secret is shown', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-effective-'))
  try {
    await writeFile(join(folder, 'headgate.yaml'), YAML, { mode: 0o600 })
    await writeFile(join(folder, '.env'), 'CIRCUIT_WINDOW=500\nRETRY_MAX_ATTEMPTS=4\nOPENAI=canary-openai\n', {
      mode: 0o600,
    })
    await writeFile(join(folder, 'admin'), 'canary-admin\n', { mode: 0o600 })
    const env = {
      RETRY_MAX_ATTEMPTS: '5',
      PEPPER: 'canary-pepper-long',
      AUTH_ADMIN_FILE: 'admin',
      GROQ_API_KEY: 'canary-groq',
    }
    const texts = await readTexts({ env, folder })
    const loaded = loadTexts(texts, { env, providers })
    assert.ok(loaded.ok, JSON.stringify(loaded))
    const shown = effectiveConfig(loaded, texts, env)
    assert.doesNotMatch(JSON.stringify(shown), /canary/)
    const settings = new Map(shown.settings.map(({ name, value, origin }) => [name, [value, origin]]))
    assert.deepEqual(
      [
        'circuit.timeout',
        'circuit.window',
        'retry.maxAttempts',
        'auth.keys',
        'auth.admin',
        'auth.pepper',
        'coalesce',
        'ledger.folder',
      ].map((name) => [name, ...(settings.get(name) ?? [])]),
      [
        ['circuit.timeout', 7000, 'headgate.yaml:1'],
        ['circuit.window', 500, '.env'],
        ['retry.maxAttempts', 5, 'env'],
        ['auth.keys', '2 values', 'headgate.yaml:4'],
        ['auth.admin', 'set', 'env'],
        ['auth.pepper', 'set', 'headgate.yaml:4'],
        ['coalesce', false, 'default'],
        ['ledger.folder', null, 'default'],
      ],
    )
    assert.deepEqual(
      shown.providers.map(({ id, base_url, origin }) => [id, base_url, origin]),
      [
        ['openai', 'https://llm.example/v1', 'headgate.yaml:6'],
        ['groq', 'https://api.groq.example/v1', 'env'],
      ],
    )
    assert.deepEqual(
      shown.routes.map(({ name, origin }) => [name, origin]),
      [['fast', 'headgate.yaml:7']],
    )
    assert.deepEqual(
      shown.accounts.map(({ kind, name, origin }) => [kind, name, origin]),
      [
        ['key', 'a', 'headgate.yaml:9'],
        ['budget', 'b', 'headgate.yaml:10'],
      ],
    )
  } finally {
    await rm(folder, { recursive: true })
  }
})
