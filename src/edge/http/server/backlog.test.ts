/** Connections that come while the process is busy wait for it, as many as the system lets: none is turned away for it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { listenOn } from './http-server.ts'

const most = (): number => {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'))
  } catch {
    return 0
  }
}

const COMING = 900

/** Connects so many times, and says how many had been within a second. */
const CLIENT = `
let here = 0
const sockets = Array.from({ length: ${COMING} }, () =>
  require('node:net').connect(Number(process.argv[1]), '127.0.0.1', () => here++).on('error', () => {}))
setTimeout(() => {
  console.log(here)
  process.exit()
}, 900)
`

test('listening: more connections than Node lets wait by itself do so while the process stands still', {
  skip: most() <= COMING && `the system lets only ${most()} wait`,
}, async () => {
  const server = createServer((socket) => socket.destroy())
  const port = await listenOn(server, { port: 0, host: '127.0.0.1' }, () => {})
  // Until it returns nothing is accepted.
  const here = execFileSync(process.execPath, ['-e', CLIENT, String(port)], { encoding: 'utf8' })
  server.close()
  assert.equal(Number(here), COMING)
})
