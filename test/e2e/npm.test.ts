import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/upstream.ts'

const ROOT = join(import.meta.dirname, '..', '..')

test('npm start: installs first, and a signal to npm drains the gateway', async () => {
  // A supervisor signals npm only, not its process group as a terminal does.
  const npm = spawn('npm', ['start'], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', PORT: '0', LOG_FORMAT: 'json' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  const hear = (text: Buffer) => {
    output += text
  }
  npm.stdout.on('data', hear)
  npm.stderr.on('data', hear)
  const exit = once(npm, 'close')
  try {
    await until('the gateway is ready', () => /"event":"ready"/.test(output), 60_000)
    assert.match(output, /> node scripts\/setup\.mjs/)
    npm.kill('SIGTERM')
    const [code] = await exit
    assert.match(output, /"event":"draining".*\n.*"event":"stopped"/)
    assert.equal(code, 0)
  } finally {
    // In every case no process of its group may remain.
    if (npm.pid !== undefined && isThere(-npm.pid)) process.kill(-npm.pid, 'SIGKILL')
  }
})

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    // No such process.
    return false
  }
}
