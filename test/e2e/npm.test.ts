import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/upstream.ts'

const ROOT = join(import.meta.dirname, '..', '..')

test('npm start: installs first, and a signal to npm drains the gateway', async () => {
  // As a supervisor does it: only npm is told, not the group of processes a terminal would tell.
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
    await until('it is ready', () => /"event":"ready"/.test(output), 60_000)
    assert.match(output, /> node scripts\/setup\.mjs/)
    npm.kill('SIGTERM')
    const [code] = await exit
    assert.match(output, /"event":"draining".*\n.*"event":"stopped"/)
    assert.equal(code, 0)
  } finally {
    // Whatever became of it, none of its processes stays: the group is its own.
    if (npm.pid !== undefined && isThere(-npm.pid)) process.kill(-npm.pid, 'SIGKILL')
  }
})

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    // Nobody of that number is left.
    return false
  }
}
