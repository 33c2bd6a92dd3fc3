/** Connections that a gateway with a tape opens. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Launch } from '../../src/config/environment.ts'
import type { Failure } from '../../src/core/failure.ts'
import { taped } from '../../src/process/tape.ts'
import { NO_KEY } from '../../src/tape/settings.ts'

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
