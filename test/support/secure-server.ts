/**
 * An HTTPS server in a worker thread that counts its connections. It posts its port and certificate, and the count on
 * request.
 */
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { parentPort } from 'node:worker_threads'
import { selfSigned } from './certificate.ts'

export type SecureServer = { readonly port: number; readonly cert: string }

const { key, cert } = selfSigned()
let connections = 0
const server = createServer({ key, cert }, (req, res) => {
  req.resume().on('end', () => res.end('{"a":1}'.repeat(100)))
})
server.on('secureConnection', () => connections++)
server.listen(0, '127.0.0.1', () => {
  // Its address is that of a TCP port.
  const { port } = server.address() as AddressInfo
  parentPort?.postMessage({ port, cert } satisfies SecureServer)
})
parentPort?.on('message', () => parentPort?.postMessage(connections))
