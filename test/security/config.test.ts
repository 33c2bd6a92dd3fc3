/**
 * SEC-40: the start warns of files with keys that everybody may read; an invalid change keeps the running
 * configuration.
 */
import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readTexts } from '../../src/config/load.ts'

const CASES = [
  ['.env', 'OPENAI_API_KEY=sk-0123456789', 0o644, true],
  ['.env', 'OPENAI_API_KEY=sk-0123456789', 0o604, true],
  ['.env', 'OPENAI_API_KEY=sk-0123456789', 0o600, false],
  ['.env', 'OPENAI_API_KEY=sk-0123456789', 0o640, false],
  ['.env', 'export OPENAI_API_KEY_2="sk-0123456789"', 0o644, true],
  ['.env', 'AUTH_KEYS=0123456789', 0o644, true],
  ['.env', 'PORT=3000\nOPENAI_API_KEY=\n', 0o644, false],
  ['headgate.yaml', 'providers:\n  openai:\n    keys: [ sk-0123456789 ]', 0o644, true],
  ['headgate.yaml', 'providers:\n  openai:\n    keys:\n      - sk-0123456789', 0o644, true],
  ['headgate.yaml', '{"providers":{"openai":{"keys":["sk-0123456789"]}}}', 0o644, true],
  ['headgate.yaml', 'providers:\n  openai:\n    keys: [ { value: sk-0123456789, weight: 2 } ]', 0o644, true],
  ['headgate.yaml', 'auth:\n  admin: 0123456789', 0o644, true],
  ['headgate.yaml', 'providers:\n  openai:\n    keys: [ sk-0123456789 ]', 0o600, false],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what people write
  ['headgate.yaml', 'providers:\n  openai:\n    keys: [ "${OPENAI_API_KEY}" ]', 0o644, false],
  ['headgate.yaml', 'circuit: { resetTimeout: 60000 }', 0o644, false],
] as const

for (const [name, text, mode, warned] of CASES)
  test(`config: ${name} of mode ${mode.toString(8)} with ${JSON.stringify(text)} is ${warned ? '' : 'not '}reported`, async (t) => {
    if (process.platform === 'win32') return t.skip('Windows has no file modes')
    const folder = await mkdtemp(join(tmpdir(), 'headgate-config-'))
    try {
      await writeFile(join(folder, name), text)
      await chmod(join(folder, name), mode)
      const { warnings } = await readTexts({ env: {}, folder })
      assert.equal(
        warnings.some((line) => line.includes(`chmod 600 ${name}`)),
        warned,
        String(warnings),
      )
      assert.ok(warnings.every((line) => !line.includes('0123456789')))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
