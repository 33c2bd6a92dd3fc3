// Runs inside an image, which has no shell: starts the gateway, sends a request to its demo provider, and stops it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const url = `http://127.0.0.1:${process.env.PORT}`
const program = '/app/node_modules/headgate/bin/headgate.mjs'
const gateway = spawn(process.execPath, [program], { stdio: ['ignore', 'ignore', 'inherit'] })
const isReady = () =>
  fetch(`${url}/health/ready`).then(
    ({ ok }) => ok,
    () => false,
  )
for (let tries = 0; !(await isReady()); tries++) {
  if (gateway.exitCode !== null || tries === 300) throw new Error('the image does not start')
  await sleep(100)
}
const body = JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] })
const headers = { 'content-type': 'application/json' }
const { status } = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
gateway.kill('SIGTERM')
const [code] = await once(gateway, 'exit')
if (status !== 200 || code !== 0) throw new Error(`the image answered with ${status} and ended with ${code}`)
