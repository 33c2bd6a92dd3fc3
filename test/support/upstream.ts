/**
 * A scriptable provider: a real HTTP server whose script decides for each request what it answers and how the answer
 * breaks. It records each request and how its connection ended.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect, createServer as createPlainServer, type Socket } from 'node:net'
import { isObject, type JsonObject, text } from '../../src/core/json.ts'

/** A received request, as a script sees it. */
export type UpstreamRequest = {
  /** The number of earlier requests. */
  readonly number: number
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** The raw request body. */
  readonly body: string
  /** The parsed body if it is a JSON object, else an empty object. */
  readonly json: JsonObject
  readonly model: string | undefined
  readonly stream: boolean
  /** The credential, from whichever header carries it. */
  readonly key: string | undefined
  /** The number of its connection, from 0. */
  readonly connection: number
}

/** What happens to the connection after the last write. */
export type Ending =
  /** A regular end of the response. */
  | 'end'
  /** RST. */
  | 'reset'
  /** FIN, although the answer is not complete. */
  | 'close'
  /** Sends nothing more and stays open. */
  | 'stall'

export type Act =
  | {
      readonly do: 'answer'
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>>
      /** An object is sent as JSON. */
      readonly body?: string | Uint8Array | object
      /** Delay before anything is sent, in ms. */
      readonly after?: number
    }
  | {
      readonly do: 'stream'
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>>
      /** Each piece is a separate write. */
      readonly pieces: Iterable<string | Uint8Array>
      /** Bytes per write. If absent, each piece is one write. */
      readonly slice?: number
      /** Delays in ms: before the header block, before the first piece, and between two writes. */
      readonly after?: number
      readonly first?: number
      readonly gap?: number
      readonly ending?: Ending
      /** Without chunked encoding: the body ends with the connection. */
      readonly untilClose?: boolean
    }
  /** Sends these bytes instead of an HTTP response. */
  | { readonly do: 'raw'; readonly bytes: string | Uint8Array; readonly after?: number; readonly ending?: Ending }
  | { readonly do: 'reset' | 'close' | 'hang' }

export type Script = (request: UpstreamRequest) => Act | Promise<Act>

/** A request and its outcome. */
export type RecordedRequest = UpstreamRequest & {
  /** Arrival, in ms on the monotonic clock. */
  readonly at: number
  /** Body bytes written to the connection so far. */
  sent: number
  /** `finished`: answered completely. `cut`: ended by the script. `aborted`: the client left. */
  ended: 'open' | 'finished' | 'cut' | 'aborted'
  endedAt: number | undefined
}

export type Upstream = {
  /** `http://127.0.0.1:…`, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly requests: readonly RecordedRequest[]
  /** Connections accepted so far, and those open now. */
  connections(): number
  open(): number
  /** Replaces the script from the next request on. */
  play(script: Script): void
  /** Closes idle connections, as servers do after an idle timeout. */
  closeIdle(how?: 'close' | 'reset'): void
  close(): Promise<void>
}

export type UpstreamOptions = {
  readonly tls?: { readonly key: string; readonly cert: string }
  /** The port to listen on; if absent, any free port. */
  readonly port?: number
  /** Keeps no record of requests, for runs of hours. */
  readonly discardsRecords?: boolean
}

export const startUpstream = async (
  script: Script,
  { tls, port: wanted = 0, discardsRecords: forgets = false }: UpstreamOptions = {},
): Promise<Upstream> => {
  const seen: RecordedRequest[] = []
  const sockets = new Map<Socket, { readonly number: number; busy: boolean; used: boolean }>()
  const timers = new Set<NodeJS.Timeout>()
  let connections = 0
  let requests = 0
  let current = script

  const later = (ms: number, run: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer)
      run()
    }, ms)
    timers.add(timer)
  }

  const handle = async (req: IncomingMessage, res: ServerResponse) => {
    const { socket } = req
    const number = requests++
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part as Buffer)
    const connection = sockets.get(socket)
    if (connection) connection.busy = true
    const record: RecordedRequest = {
      ...describe(req, Buffer.concat(parts).toString('utf8'), number, connection?.number ?? -1),
      at: performance.now(),
      sent: 0,
      ended: 'open',
      endedAt: undefined,
    }
    if (!forgets) seen.push(record)
    const close = (ended: 'finished' | 'cut' | 'aborted') => {
      if (record.ended !== 'open') return
      record.ended = ended
      record.endedAt = performance.now()
      if (connection) Object.assign(connection, { busy: false, used: true })
      socket.off('close', aborted)
    }
    const aborted = () => close('aborted')
    res.on('finish', () => close('finished'))
    socket.once('close', aborted)
    const act = await current(record)
    if (socket.destroyed) return
    perform(act, { socket, res, record, later, cut: () => close('cut') })
  }

  const listener = (req: IncomingMessage, res: ServerResponse) => {
    // A client may leave while it is still sending.
    handle(req, res).catch(() => req.socket.destroy())
  }
  const server = tls ? createSecureServer(tls, listener) : createServer(listener)
  server.keepAliveTimeout = 0
  server.on('clientError', (_error, socket) => socket.destroy())
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    sockets.set(socket, { number: connections, busy: false, used: false })
    connections++
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(wanted, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    port,
    requests: seen,
    connections: () => connections,
    open: () => sockets.size,
    play(next) {
      current = next
    },
    closeIdle(how = 'close') {
      for (const [socket, { busy, used }] of sockets) {
        if (busy || !used) continue
        if (how === 'reset') socket.resetAndDestroy()
        else socket.end()
      }
    },
    async close() {
      for (const timer of timers) clearTimeout(timer)
      for (const socket of sockets.keys()) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const describe = (req: IncomingMessage, body: string, number: number, connection: number): UpstreamRequest => {
  let json: JsonObject = {}
  try {
    const value: unknown = JSON.parse(body)
    if (isObject(value)) json = value
  } catch {
    // `body` has the raw text; a script that needs JSON gets an empty object.
  }
  const apiKey = req.headers['x-api-key'] ?? req.headers['x-goog-api-key']
  return {
    number,
    method: req.method ?? '',
    path: req.url ?? '',
    headers: req.headers,
    body,
    json,
    // Gemini and Bedrock carry both in the path.
    model: text(json.model) ?? modelIn(req.url ?? ''),
    stream: json.stream === true || /:streamGenerateContent|\/converse-stream$/.test(req.url ?? ''),
    key: req.headers.authorization?.replace(/^Bearer /, '') ?? (typeof apiKey === 'string' ? apiKey : undefined),
    connection,
  }
}

const modelIn = (path: string): string | undefined => {
  const [, gemini, bedrock] = /\/models\/([^:?]+):|\/model\/([^/]+)\/converse/.exec(path) ?? []
  return gemini ?? (bedrock && decodeURIComponent(bedrock))
}

type Stage = {
  readonly socket: Socket
  readonly res: ServerResponse
  readonly record: RecordedRequest
  readonly later: (ms: number, run: () => void) => void
  /** Records that the script ends the connection. */
  readonly cut: () => void
}

const perform = (act: Act, stage: Stage): void => {
  const { socket, res, record, later, cut } = stage
  switch (act.do) {
    case 'reset':
      cut()
      socket.resetAndDestroy()
      return
    case 'close':
      cut()
      socket.end()
      return
    case 'hang':
      return
    case 'raw':
      after(act.after, later, () => {
        socket.write(act.bytes)
        finish(act.ending ?? 'close', stage)
      })
      return
    case 'answer':
      after(act.after, later, () => {
        const { body = '' } = act
        const bytes =
          typeof body === 'string' || body instanceof Uint8Array ? Buffer.from(body) : Buffer.from(JSON.stringify(body))
        record.sent = bytes.length
        res.writeHead(act.status ?? 200, {
          'content-type': 'application/json',
          'content-length': String(bytes.length),
          ...act.headers,
        })
        res.end(bytes)
      })
      return
    case 'stream':
      after(act.after, later, () => stream(act, stage))
      return
    default:
      throw new Error(`unknown act ${JSON.stringify(act satisfies never)}`)
  }
}

const after = (ms: number | undefined, later: Stage['later'], run: () => void): void => {
  if (ms === undefined) run()
  else later(ms, run)
}

const finish = (ending: Ending, { socket, res, cut }: Stage): void => {
  switch (ending) {
    case 'end':
      res.end()
      return
    case 'reset':
      cut()
      // Lets written bytes leave first: a reset discards what is still buffered.
      setImmediate(() => setImmediate(() => socket.resetAndDestroy()))
      return
    case 'close':
      cut()
      socket.end()
      return
    case 'stall':
      return
    default:
      throw new Error(`unknown ending ${ending satisfies never}`)
  }
}

const stream = (act: Extract<Act, { do: 'stream' }>, stage: Stage): void => {
  const { socket, res, record, later } = stage
  const headers = { 'content-type': 'text/event-stream; charset=utf-8', ...act.headers }
  const write = (bytes: Buffer): boolean => {
    record.sent += bytes.length
    return act.untilClose ? socket.write(bytes) : res.write(bytes)
  }
  if (act.untilClose) {
    const lines = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`HTTP/1.1 ${act.status ?? 200} OK\r\n${lines.join('')}\r\n`)
  } else {
    res.writeHead(act.status ?? 200, headers)
    res.flushHeaders()
  }
  const slices = sliced(act.pieces, act.slice)
  const step = () => {
    for (;;) {
      if (socket.destroyed) return
      const next = slices.next()
      if (next.done) {
        finish(act.untilClose && (act.ending ?? 'end') === 'end' ? 'close' : (act.ending ?? 'end'), stage)
        return
      }
      const room = write(next.value)
      if (!room) {
        ;(act.untilClose ? socket : res).once('drain', step)
        return
      }
      if (act.gap !== undefined) {
        later(act.gap, step)
        return
      }
    }
  }
  after(act.first, later, step)
}

function* sliced(pieces: Iterable<string | Uint8Array>, size = Number.POSITIVE_INFINITY): Generator<Buffer> {
  for (const piece of pieces) {
    const bytes = Buffer.from(piece as string)
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, Math.min(at + size, bytes.length))
  }
}

/**
 * A URL whose port refuses connections until this process ends. A connected socket is bound to the port, so that the
 * system gives it to no other server meanwhile.
 */
export const refusingUrl = async (): Promise<string> => {
  const server = createPlainServer((socket) => void socket.unref())
  server.unref()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  // With an address to bind to, the system reserves the port; otherwise other connections may share it.
  const holder = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.1' })
  await new Promise<void>((resolve) => holder.once('connect', resolve))
  holder.unref()
  return `http://127.0.0.1:${holder.localPort}`
}

/** Polls every 2 ms until the check passes; throws after `ms`. */
export const until = async (what: string, check: () => boolean, ms = 20_000): Promise<void> => {
  const end = performance.now() + ms
  while (!check()) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}
