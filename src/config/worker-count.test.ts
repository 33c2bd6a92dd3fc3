import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { workerCount } from './worker-count.ts'

const cases = [
  ['not set', {}, undefined, 1],
  ['one', { WORKERS: '1' }, undefined, 1],
  ['several', { WORKERS: ' 4 ' }, undefined, 4],
  ['in .env', {}, '\ufeffPORT=1\nWORKERS="3"\n', 3],
  ['the environment takes precedence over .env', { WORKERS: '2' }, 'WORKERS=3', 2],
  ['an empty variable too', { WORKERS: '' }, 'WORKERS=3', 1],
  ['another provider’s variables', {}, 'WORKERS_AI_API_KEY=x', 1],
  ['not a number: rejected later', { WORKERS: 'many' }, undefined, 1],
  ['zero: rejected later', { WORKERS: '0' }, undefined, 1],
  ['too many: rejected later', { WORKERS: '65' }, undefined, 1],
  ['a worker starts no others', { WORKERS: '4', HEADGATE_WORKER: '1/4' }, undefined, 1],
] as const

for (const [name, env, dotenv, count] of cases)
  test(`worker count: ${name}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-wanted-'))
    try {
      if (dotenv !== undefined) writeFileSync(join(folder, '.env'), dotenv)
      assert.equal(workerCount(env, folder), count)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
