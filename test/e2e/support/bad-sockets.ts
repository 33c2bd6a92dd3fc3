/** Addresses that fail before HTTP begins. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createSecureServer, type TlsOptions } from 'node:tls'
import { Worker } from 'node:worker_threads'
import { selfSigned } from '../../support/certificate.ts'

export type BadAddress = { readonly url: string; connections(): number; close(): Promise<void> }

/** Accepts each connection and resets it immediately. */
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
 * A port where connecting hangs: its process sleeps and its backlog is full, so the kernel drops further SYNs. Null
 * where the system behaves differently.
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
  // Until one connection hangs, the backlog has room.
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

export type Secure = {
  readonly urls: Readonly<Record<'stranger' | 'expired' | 'another host' | 'old' | 'plain' | 'silent', string>>
  /** A file with the certificates to trust, so that the named defect is the only one. */
  readonly trusted: string
  close(): Promise<void>
}

/** Upstreams to which every TLS connection must fail. */
export const badlySecured = async (): Promise<Secure> => {
  const closers: (() => Promise<unknown>)[] = []
  const listening = async (options: TlsOptions | null, say?: string): Promise<string> => {
    const sockets = new Set<Socket>()
    const keep = (socket: Socket) => {
      sockets.add(socket.resume())
      if (say !== undefined) socket.once('data', () => socket.end(say))
      socket.on('error', () => {})
      socket.once('close', () => sockets.delete(socket))
    }
    const server = options ? createSecureServer(options, keep) : createServer(keep)
    server.on('tlsClientError', () => {})
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(resolve))
    })
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const made = { expired: selfSigned('expired'), another: selfSigned('another host'), old: selfSigned() }
  const folder = await mkdtemp(join(tmpdir(), 'headgate-trusted-'))
  const trusted = join(folder, 'trusted.pem')
  await writeFile(
    trusted,
    Object.values(made)
      .map(({ cert }) => cert)
      .join(''),
  )
  closers.push(() => rm(folder, { recursive: true, force: true }))
  return {
    urls: {
      stranger: await listening(selfSigned()),
      expired: await listening(made.expired),
      'another host': await listening(made.another),
      // Current OpenSSL refuses TLS 1.1 at its default security level.
      old: await listening({ ...made.old, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' }),
      plain: await listening(null, 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n'),
      silent: await listening(null),
    },
    trusted,
    close: () => Promise.all(closers.map((close) => close())).then(() => {}),
  }
}
