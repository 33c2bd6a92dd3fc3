/** Addresses at which something is wrong before HTTP begins. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'

export type BadAddress = { readonly url: string; connections(): number; close(): Promise<void> }

/** Accepts each connection and resets it at once. */
export const resettingUrl = async (): Promise<BadAddress> => {
  let connections = 0
  const server = createServer((socket) => {
    connections++
    socket.on('error', () => {})
    socket.resetAndDestroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    connections: () => connections,
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  }
}

/**
 * A port at which connecting neither succeeds nor fails: its owner sleeps and its queue of waiting connections is full,
 * so that the kernel drops whatever else comes. Null where the system does not behave so.
 */
export const blackHole = async (): Promise<BadAddress | null> => {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const server = require('node:net').createServer()
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port)
       setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 20)
     })`,
    { eval: true },
  )
  const [port] = (await once(worker, 'message')) as [number]
  await new Promise((resolve) => setTimeout(resolve, 100))
  const waiting: Socket[] = []
  const close = async () => {
    for (const socket of waiting) socket.destroy()
    await worker.terminate()
  }
  // Until one is left hanging, the queue has room.
  for (let tried = 0; tried < 16; tried++) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    waiting.push(socket)
    const connected = await Promise.race([
      once(socket, 'connect').then(() => true),
      new Promise<boolean>((resolve) => setTimeout(resolve, 250, false)),
    ])
    if (!connected) return { url: `http://127.0.0.1:${port}`, connections: () => 0, close }
  }
  await close()
  return null
}
