/** Listens on a Unix socket. Loaded only where it is configured. */
import { chmodSync, lstatSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { HttpServer, OpenListener } from './http-server.ts'

/** `mode`: permissions of the file, such as 0o660. */
export type SocketFile = { readonly path: string; readonly mode: number }

/**
 * Connections that must be refused before a socket counts as left over, and ms between them. One is not enough: outside
 * of Linux a socket also refuses while its queue of connections is full.
 */
const REFUSALS = { count: 5, pause: 100 }
/** ms for a connection. */
const PATIENCE = 1_000

/** Listeners have no addresses here, so every peer has the same one: `peer`. `tls`: accepts TLS; absent: plain HTTP. */
export const socketListener =
  (peer: string, tls: OpenListener | undefined): OpenListener =>
  (options, serve) =>
    (tls ?? createServer)(options, (socket) => serve(socket, peer))

/**
 * Listens, in place of a socket that is left over. The file is removed when the server closes or the process exits. Returns
 * port 0. Rejects with Node's error, or with one whose message is for the operator.
 */
export const listenOnSocket = async (
  server: Pick<HttpServer, 'listen'>,
  { path, mode }: SocketFile,
): Promise<number> => {
  const { problem, stale } = await look(path)
  if (problem !== undefined) throw new Error(problem)
  // Another process may have replaced it meanwhile.
  if (stale !== undefined && inodeOf(path) === stale) rmSync(path)
  // No connection is accepted before the next turn of the event loop.
  await server.listen({ path })
  const own = inodeOf(path)
  process.once('exit', () => {
    // A server that closes removes its file; a process that exits without does not.
    if (inodeOf(path) !== own) return
    try {
      rmSync(path)
    } catch {
      // A file that stays is replaced at the next start.
    }
  })
  chmodSync(path, mode)
  return 0
}

/** `stale`: the inode of a socket without a process. */
type PathState = { readonly problem?: string; readonly stale?: bigint }

const look = async (path: string): Promise<PathState> => {
  const file = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (!file) return {}
  if (!file.isSocket()) return { problem: `${path} exists and is no socket. Choose another path.` }
  for (let tries = 0; tries < REFUSALS.count; tries++) {
    if (tries > 0) await wait(REFUSALS.pause)
    const code = await codeOf(path)
    if (code === 'ENOENT') return {}
    if (code === 'EACCES')
      return { problem: `${path} exists, and this user has no permission to find out whether it is in use (EACCES).` }
    if (code !== 'ECONNREFUSED')
      return { problem: `${path} is in use by another process. Stop it, or choose another path.` }
  }
  return { stale: file.ino }
}

/** The error code of a connection; empty: a process listens, or its answer takes too long. */
const codeOf = (path: string): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect({ path, timeout: PATIENCE })
    const end = (code: string) => {
      socket.destroy()
      resolve(code)
    }
    socket.once('connect', () => end(''))
    socket.once('timeout', () => end(''))
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? ''))
  })

const inodeOf = (path: string): bigint | undefined => lstatSync(path, { bigint: true, throwIfNoEntry: false })?.ino
