/**
 * A TCP proxy that simulates a bad network in either direction. Toxics are added and removed while connections are
 * open, and apply from the next bytes on.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'

export type Toxic =
  /** Delays everything by `ms` ± `jitter` ms, in order. */
  | { readonly kind: 'latency'; readonly ms: number; readonly jitter?: number }
  | { readonly kind: 'bandwidth'; readonly bytesPerSecond: number }
  /** Pieces of `size` bytes, `gap` ms apart. */
  | { readonly kind: 'slicer'; readonly size: number; readonly gap: number }
  /** Holds everything back until it is removed. */
  | { readonly kind: 'stop' }
  /** Discards all bytes. A FIN is forwarded once it is removed. */
  | { readonly kind: 'black-hole' }
  /** Forwards a FIN `ms` later. */
  | { readonly kind: 'slow-close'; readonly ms: number }
  /**
   * After this many bytes of a connection: RST to both sides; FIN to both sides; or FIN to the receiver only, whose own
   * data still passes.
   */
  | Cut<'reset'>
  | Cut<'close'>
  | Cut<'half-close'>

type Cut<Kind> = { readonly kind: Kind; readonly after: number }

/** `up`: from the client to the proxied server. */
export type Direction = 'up' | 'down'

export type ToxicProxy = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  readonly port: number
  /** Applies a toxic to this direction until the returned function is called. */
  add(direction: Direction, toxic: Toxic): () => void
  clear(): void
  /** Open sockets, on both sides. */
  open(): number
  /** Connections accepted so far. */
  connections(): number
  close(): Promise<void>
}

type Options = { readonly host?: string; readonly port?: number; readonly random?: () => number }

/** Backpressure limit: bytes buffered in one direction of one connection. */
const MAX_BUFFERED = 256 * 1024

/** `to`: the port of the server; a function is called at each connection. */
export const toxicProxy = async (to: number | (() => number), options: Options = {}): Promise<ToxicProxy> => {
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
    const upstream = connect({ port: typeof to === 'number' ? to : to(), host: '127.0.0.1', allowHalfOpen: true })
    keep(client)
    keep(upstream)
    const over = new AbortController()
    const end = (how: 'reset' | 'destroy') => {
      over.abort()
      for (const socket of [client, upstream])
        if (how === 'reset') socket.resetAndDestroy()
        else socket.destroy()
    }
    // A broken side closes the other too; `carry` forwards an orderly end.
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
  /** Calls `wake` on each change of the toxics, until the returned function is called. */
  readonly change: (wake: () => void) => () => void
  readonly over: AbortSignal
  readonly end: (how: 'reset' | 'destroy') => void
  readonly random: () => number
}

/** Forwards one direction of one connection until it ends. Rejects if the connection closes earlier. */
const carry = async (carrying: Carrying): Promise<void> => {
  const { from, into, change, over } = carrying
  const waiting: { readonly bytes: Buffer | null; readonly at: number }[] = []
  let size = 0
  let passed = 0
  let wake = () => {}
  const forget = change(() => wake())
  over.addEventListener('abort', () => wake())
  const receive = (bytes: Buffer | null) => {
    waiting.push({ bytes, at: performance.now() })
    size += bytes?.length ?? 0
    if (size > MAX_BUFFERED) from.pause()
    wake()
  }
  from.on('data', receive)
  from.once('end', () => receive(null))
  const woken = () => new Promise<void>((resolve) => (wake = resolve))
  const active = activeToxics(carrying, woken)

  try {
    for (;;) {
      over.throwIfAborted()
      const next = waiting[0]
      if (!next || active.find('stop')) {
        await woken()
        continue
      }
      waiting.shift()
      await active.delay(next.at)
      if (next.bytes === null) {
        await active.waitWhile('black-hole')
        await active.wait(active.find('slow-close')?.ms ?? 0)
        into.end()
        return
      }
      size -= next.bytes.length
      if (size <= MAX_BUFFERED) from.resume()
      if (!(await forward(carrying, active, { bytes: next.bytes, passed }))) return
      passed += next.bytes.length
    }
  } finally {
    forget()
  }
}

type ActiveToxics = ReturnType<typeof activeToxics>

/** The toxics of one direction, and waits that end when the connection closes. */
const activeToxics = ({ toxics, over, random }: Carrying, woken: () => Promise<void>) => {
  const find = <K extends Toxic['kind']>(kind: K): Extract<Toxic, { readonly kind: K }> | undefined => {
    // TypeScript does not narrow by the discriminant through a predicate on K.
    for (const toxic of toxics) if (toxic.kind === kind) return toxic as Extract<Toxic, { readonly kind: K }>
    return undefined
  }
  const wait = (ms: number) => (ms > 0 ? after(ms, undefined, { signal: over }) : undefined)
  const waitWhile = async (kind: 'black-hole' | 'stop') => {
    while (find(kind)) {
      over.throwIfAborted()
      await woken()
    }
  }
  /** Waits for the latency of bytes that arrived at this time. */
  const delay = async (arrived: number) => {
    const latency = find('latency')
    if (!latency) return
    const { ms, jitter = 0 } = latency
    await wait(arrived + ms + (2 * random() - 1) * jitter - performance.now())
  }
  return { find, wait, waitWhile, delay }
}

/** Writes bytes in pieces, after `passed` bytes of the same direction. Returns false if a toxic closed the connection. */
const forward = async (
  { from, into, end }: Carrying,
  { find, wait, waitWhile }: ActiveToxics,
  { bytes, passed }: { readonly bytes: Buffer; readonly passed: number },
): Promise<boolean> => {
  for (let at = 0; at < bytes.length; ) {
    await waitWhile('stop')
    const slicer = find('slicer')
    const bandwidth = find('bandwidth')
    const cut = find('reset') ?? find('close') ?? find('half-close')
    const left = cut ? cut.after - passed - at : Number.POSITIVE_INFINITY
    if (cut && left <= 0) {
      // Lets written bytes leave first: a reset discards what is still buffered.
      await wait(20)
      if (cut.kind === 'reset') {
        end('reset')
        return false
      }
      into.end()
      if (cut.kind === 'close') from.end()
      from.resume()
      return false
    }
    const most = Math.min(slicer?.size ?? Number.POSITIVE_INFINITY, bandwidth ? tenth(bandwidth) : bytes.length, left)
    const piece = bytes.subarray(at, at + most)
    at += piece.length
    if (find('black-hole')) continue
    if (!into.write(piece))
      await new Promise<void>((resolve) => void into.once('drain', resolve).once('close', resolve))
    if (slicer) await wait(slicer.gap)
    if (bandwidth) await wait((piece.length / bandwidth.bytesPerSecond) * 1000)
  }
  return true
}

/** Bytes in a tenth of a second. */
const tenth = ({ bytesPerSecond }: { readonly bytesPerSecond: number }) => Math.max(1, Math.floor(bytesPerSecond / 10))
