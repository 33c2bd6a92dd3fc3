/** Accepts connections of proxies that state their client first (PROXY protocol). Loaded only where it is configured. */
import { createServer, type Socket } from 'node:net'
import type { OpenListener } from './http-server.ts'
import { readProxyHead } from './proxy-protocol.ts'

export type ProxiedOptions = {
  /** Accepts what follows the head; absent: plain HTTP. */
  readonly tls: OpenListener | undefined
  /** Whether the peer of a connection may state a client. */
  readonly isTrusted: (peer: string) => boolean
  /** A connection was closed. `why`: a sentence without text of the peer. */
  readonly onRefused: (peer: string, why: string) => void
  /** ms for a whole head. Default 2,000. */
  readonly timeout?: number
}

const UNTRUSTED = 'It is not one of trustedProxies.'
const LATE = 'It sent no PROXY header in time.'
const MALFORMED = 'It sent no valid PROXY header.'

/** A server whose connections all begin with a head. A head is optional nowhere: a client could write it itself. */
export const proxiedListener =
  ({ tls, isTrusted, onRefused, timeout = 2_000 }: ProxiedOptions): OpenListener =>
  (options, serve) => {
    /** Over TLS another socket is served: both have the same peer, which has one connection from this port. */
    const clients = new Map<string, string>()
    const named = (socket: Socket) => serve(socket, clients.get(keyOf(socket)) ?? peerOf(socket))
    // It listens on nothing.
    const inner = (tls ?? createServer)(options, named)
    return createServer(options, (socket) => {
      const peer = peerOf(socket)
      socket.on('error', ignored)
      const refuse = (why: string) => {
        onRefused(peer, why)
        socket.destroy()
      }
      if (!isTrusted(peer)) return refuse(UNTRUSTED)
      readHead(socket, { timeout, refuse }, (client) => {
        const key = keyOf(socket)
        clients.set(key, withoutLoopback(client ?? peer))
        socket.once('close', () => clients.delete(key))
        inner.emit('connection', socket)
        if (!tls) socket.resume()
      })
    })
  }

const ignored = (): void => {}
const peerOf = ({ remoteAddress = '' }: Socket): string => remoteAddress
const keyOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

/** A proxy of this machine, or a client of it that a proxy states, is no operator of this machine: it has no address. */
const withoutLoopback = (address: string): string => (/^(?:::ffff:)?127\.|^::1$/i.test(address) ? '' : address)

type HeadOptions = { readonly timeout: number; readonly refuse: (why: string) => void }

/** `done` receives the socket paused, with the bytes after the head. */
const readHead = (socket: Socket, { timeout, refuse }: HeadOptions, done: (client: string | null) => void): void => {
  let received: Buffer = Buffer.alloc(0)
  const stop = () => {
    clearTimeout(timer)
    socket.off('data', read).off('close', stop).off('end', ended)
  }
  const end = (why: string) => {
    stop()
    refuse(why)
  }
  const ended = () => end(MALFORMED)
  const read = (part: Buffer) => {
    received = received.length === 0 ? part : Buffer.concat([received, part])
    const head = readProxyHead(received)
    if (head.is === 'partial') return
    if (head.is === 'invalid') return end(MALFORMED)
    stop()
    socket.pause()
    if (received.length > head.length) socket.unshift(received.subarray(head.length))
    done(head.client)
  }
  const timer = setTimeout(() => end(LATE), timeout)
  socket.on('data', read).on('close', stop).on('end', ended)
}
