/** Connections that arrive while the process is busy are queued up to the system's limit. */
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

/** Opens the connections, and prints how many were established within a second. */
const CLIENT = `
let established = 0
const sockets = Array.from({ length: ${COMING} }, () =>
  require('node:net').connect(Number(process.argv[1]), '127.0.0.1', () => established++).on('error', () => {}))
setTimeout(() => {
  console.log(established)
  process.exit()
}, 900)
`

test('listening: a blocked process queues more connections than the default of Node', {
  skip: most() <= COMING && `the system queues only ${most()}`,
}, async () => {
  const server = createServer((socket) => socket.destroy())
  const port = await listenOn(server, { port: 0, host: '127.0.0.1' }, () => {})
  // Nothing is accepted until it returns.
  const established = execFileSync(process.execPath, ['-e', CLIENT, String(port)], { encoding: 'utf8' })
  server.close()
  assert.equal(Number(established), COMING)
})
