/** Connections that a gateway with a tape opens. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { Launch } from '../../src/config/environment.ts'
import type { Failure } from '../../src/core/failure.ts'
import { taped, withTapeKeys } from '../../src/process/tape.ts'
import { keyOf } from '../../src/tape/ask.ts'
import { NO_KEY } from '../../src/tape/settings.ts'
import { exchangeLines, headLine } from '../../src/tape/tape-file.ts'
import { folderFor } from './session.ts'

const CALLS = [
  ['a key', 'https://api.example/v1/models', { authorization: 'Bearer sk-1' }],
  ['no key in a header', 'https://api.example/v1/models', { authorization: `Bearer ${NO_KEY}` }],
  ['no key in the address', `https://api.example/v1/models?key=${NO_KEY}`, {}],
] as const

/** The calls that each mode makes. */
const MADE = {
  off: [true, true, true],
  record: [true, false, false],
  replay: [true, false, false],
  strict: [],
} as const

for (const [mode, made] of Object.entries(MADE))
  test(`tape: calls without a key are not sent in the mode ${mode}`, async () => {
    for (const [at, [name, url, headers]] of CALLS.entries()) {
      let isMade = false
      const launch = { tape: mode === 'off' ? undefined : { mode } } as Launch // Of a launch only the tape is read.
      const dial = taped(launch, () => {
        isMade = true
        return { abort() {}, resume() {} }
      })
      const failure = await new Promise<Failure | null>((resolve) => {
        const listener = { onHeaders() {}, onBody: () => true, onEnd() {}, onFailure: resolve }
        dial({ method: 'GET', url, headers, connectTimeout: 0 }, listener)
        if (isMade) resolve(null)
      })
      assert.equal(isMade, made[at] ?? false, name)
      assert.equal(failure?.kind, isMade ? undefined : 'tape_miss', name)
    }
  })

test('tape: providers of the tapes get the key that stands for none, also by .env and for empty variables', async (t) => {
  const folder = folderFor(t)
  mkdirSync(join(folder, 'own'))
  const ask = { call: 'chat', model: 'm', messages: [], tools: [], settings: {} }
  const rest = { test: '', at: '', replaces: false, style: 'openai-chat' }
  const lines = ['openai', 'groq'].map((provider) => {
    const target = { provider, model: 'm', protocol: null, stream: false }
    const answer = { status: 200, headers: {}, ms: 0, events: [] }
    return exchangeLines({ key: keyOf(ask), ask, target, answer, ...rest }, new Set())
  })
  writeFileSync(join(folder, 'own', 'main.jsonl'), headLine([]) + lines.join(''))
  writeFileSync(join(folder, '.env'), 'HEADGATE_TAPE=strict\nHEADGATE_TAPE_DIR=own\nGROQ_API_KEY=sk-1\n')
  const env = await withTapeKeys({ env: { OPENAI_API_KEY: '' }, folder, providers: await loadProviders() })
  assert.deepEqual(env, { OPENAI_API_KEY: NO_KEY })
})
