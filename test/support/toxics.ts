/**
 * A bad line: a TCP proxy on this machine that spoils what passes through it, in either direction. Toxics are added and
 * taken away while connections live, and each applies from the next bytes on.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'

export type Toxic =
  /** Everything is `ms` on its way, give or take `jitter` ms; nothing overtakes. */
  | { readonly kind: 'latency'; readonly ms: number; readonly jitter?: number }
  | { readonly kind: 'bandwidth'; readonly bytesPerSecond: number }
  /** Pieces of `size` bytes with `gap` ms between them. */
  | { readonly kind: 'slicer'; readonly size: number; readonly gap: number }
  /** Nothing gets through while it is there; what came meanwhile goes on when it is taken away. */
  | { readonly kind: 'stop' }
  /** What goes in is gone; an end is told once it is taken away. */
  | { readonly kind: 'black-hole' }
  /** The end of one side is told to the other `ms` later. */
  | { readonly kind: 'slow-close'; readonly ms: number }
  /**
   * After so many bytes of a connection: RST to both sides; FIN to both sides; or FIN to the receiver only, while its
   * own words still get through.
   */
  | Cut<'reset'>
  | Cut<'close'>
  | Cut<'half-close'>

type Cut<Kind> = { readonly kind: Kind; readonly after: number }

/** `up`: from who connects to what is behind the proxy. */
export type Direction = 'up' | 'down'

export type ToxicProxy = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  readonly port: number
  /** Spoils this direction until what is given back is called. */
  add(direction: Direction, toxic: Toxic): () => void
  clear(): void
  /** Sockets open now, on both sides. */
  open(): number
  /** Connections made to it so far. */
  connections(): number
  close(): Promise<void>
}

type Options = { readonly host?: string; readonly port?: number; readonly random?: () => number }

/** At most so many bytes wait in one direction of one connection; then its sender is held back. */
const MOST_WAITING = 256 * 1024

export const toxicProxy = async (to: number, options: Options = {}): Promise<ToxicProxy> => {
  const { host = '127.0.0.1', port: wanted = 0, random = Math.random } = options
  const toxics: Record<Direction, Set<Toxic>> = { up: new Set(), down: new Set() }
  const changed: Record<Direction, Set<() => void>> = { up: new Set(), down: new Set() }
  const sockets = new Set<Socket>()
  let connections = 0

  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  }
  const tell = (direction: Direction) => {
    for (const wake of [...changed[direction]]) wake()
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    connections++
    const upstream = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true })
    keep(client)
    keep(upstream)
    const over = new AbortController()
    const end = (how: 'reset' | 'destroy') => {
      over.abort()
      for (const socket of [client, upstream])
        if (how === 'reset') socket.resetAndDestroy()
        else socket.destroy()
    }
    // A side that broke takes the other with it; one that ended in order is told by `carry`.
    for (const socket of [client, upstream]) socket.once('close', (broken) => broken && end('reset'))
    const carrying = (direction: Direction, from: Socket, into: Socket) =>
      carry({
        from,
        into,
        random,
        over: over.signal,
        end,
        toxics: toxics[direction],
        change: (wake) => {
          changed[direction].add(wake)
          return () => void changed[direction].delete(wake)
        },
      })
    void Promise.all([carrying('up', client, upstream), carrying('down', upstream, client)]).then(
      () => over.abort(),
      () => end('destroy'),
    )
  })
  await new Promise<void>((resolve) => server.listen(wanted, host, resolve))
  const { port } = server.address() as AddressInfo

  return {
    url: `http://${host}:${port}`,
    port,
    add(direction, toxic) {
      toxics[direction].add(toxic)
      tell(direction)
      return () => {
        toxics[direction].delete(toxic)
        tell(direction)
      }
    },
    clear() {
      for (const direction of ['up', 'down'] as const) {
        toxics[direction].clear()
        tell(direction)
      }
    },
    open: () => sockets.size,
    connections: () => connections,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

type Carrying = {
  readonly from: Socket
  readonly into: Socket
  readonly toxics: ReadonlySet<Toxic>
  /** Calls when the toxics have changed, until what is given back is called. */
  readonly change: (wake: () => void) => () => void
  readonly over: AbortSignal
  readonly end: (how: 'reset' | 'destroy') => void
  readonly random: () => number
}

/** One direction of one connection, to its end. Rejects when the connection is over before that. */
const carry = async ({ from, into, toxics, change, over, end, random }: Carrying): Promise<void> => {
  const waiting: { readonly bytes: Buffer | null; readonly at: number }[] = []
  let size = 0
  let passed = 0
  let wake = () => {}
  const forget = change(() => wake())
  over.addEventListener('abort', () => wake())
  const come = (bytes: Buffer | null) => {
    waiting.push({ bytes, at: performance.now() })
    size += bytes?.length ?? 0
    if (size > MOST_WAITING) from.pause()
    wake()
  }
  from.on('data', come)
  from.once('end', () => come(null))
  const woken = () => new Promise<void>((resolve) => (wake = resolve))
  const find = <K extends Toxic['kind']>(kind: K): Extract<Toxic, { readonly kind: K }> | undefined => {
    // The filter is the type's own discriminant, which the compiler does not follow through a predicate on K.
    for (const toxic of toxics) if (toxic.kind === kind) return toxic as Extract<Toxic, { readonly kind: K }>
    return undefined
  }
  const wait = (ms: number) => (ms > 0 ? after(ms, undefined, { signal: over }) : undefined)

  try {
    for (;;) {
      over.throwIfAborted()
      const next = waiting[0]
      if (!next || find('stop')) {
        await woken()
        continue
      }
      waiting.shift()
      const latency = find('latency')
      if (latency) {
        const { ms, jitter = 0 } = latency
        await wait(next.at + ms + (2 * random() - 1) * jitter - performance.now())
      }
      if (next.bytes === null) {
        while (find('black-hole')) {
          over.throwIfAborted()
          await woken()
        }
        await wait(find('slow-close')?.ms ?? 0)
        into.end()
        return
      }
      size -= next.bytes.length
      if (size <= MOST_WAITING) from.resume()
      for (let at = 0; at < next.bytes.length; ) {
        while (find('stop')) {
          over.throwIfAborted()
          await woken()
        }
        const slicer = find('slicer')
        const bandwidth = find('bandwidth')
        const cut = find('reset') ?? find('close') ?? find('half-close')
        const left = cut ? cut.after - passed : Number.POSITIVE_INFINITY
        if (cut && left <= 0) {
          // What was written before gets a moment to leave: a reset throws away what still waits.
          await wait(20)
          if (cut.kind === 'reset') return end('reset')
          into.end()
          if (cut.kind === 'close') from.end()
          from.resume()
          return
        }
        const most = Math.min(
          slicer?.size ?? Number.POSITIVE_INFINITY,
          bandwidth ? tenth(bandwidth) : next.bytes.length,
          left,
        )
        const piece = next.bytes.subarray(at, at + most)
        at += piece.length
        passed += piece.length
        if (find('black-hole')) continue
        if (!into.write(piece))
          await new Promise<void>((resolve) => void into.once('drain', resolve).once('close', resolve))
        if (slicer) await wait(slicer.gap)
        if (bandwidth) await wait((piece.length / bandwidth.bytesPerSecond) * 1000)
      }
    }
  } finally {
    forget()
  }
}

/** Bytes of a tenth of a second. */
const tenth = ({ bytesPerSecond }: { readonly bytesPerSecond: number }) => Math.max(1, Math.floor(bytesPerSecond / 10))
