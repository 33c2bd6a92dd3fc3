import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { endDescendants } from './descendants.ts'

/** A process that starts one that ends by SIGTERM and one that ignores it, and writes their IDs. */
const PARENT = `
const { spawn } = require('node:child_process')
const start = (code) => spawn(process.execPath, ['-e', code + '; process.stdout.write("ready"); setInterval(() => {}, 1000)'])
const children = [start(''), start('process.on("SIGTERM", () => {})')]
const ready = children.map((child) => new Promise((resolve) => child.stdout.once('data', resolve)))
Promise.all(ready).then(() => process.stdout.write(children.map(({ pid }) => pid).join()))
setInterval(() => {}, 1000)`

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('descendants of a process are ended, also those that ignore SIGTERM', async (t) => {
  const parent = spawn(process.execPath, ['-e', PARENT], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => parent.kill('SIGKILL'))
  const [text] = await once(parent.stdout, 'data')
  const pids = String(text).split(',').map(Number)
  assert.deepEqual(pids.map(isRunning), [true, true])
  await endDescendants(parent.pid ?? 0)
  for (const end = performance.now() + 120_000; pids.some(isRunning); await sleep(20))
    assert.ok(performance.now() < end)
  assert.equal(isRunning(parent.pid ?? 0), true)
})
