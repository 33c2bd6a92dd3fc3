/**
 * A forward proxy on 127.0.0.1: CONNECT, and requests in absolute form. It connects to `ports` instead of resolving names,
 * and records what it received.
 */
import { createServer as createHttpServer, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

/** What the proxy does with a connection after it has received the request. */
export type ProxyAct =
  | { readonly do: 'connect'; readonly head?: string; readonly slice?: number; readonly after?: string }
  /** Sends these bytes, and closes the connection. */
  | { readonly do: 'answer'; readonly bytes: string; readonly slice?: number }
  /** Never answers. */
  | { readonly do: 'freeze' }
  /** Sends these bytes, and resets the connection. */
  | { readonly do: 'cut'; readonly bytes: string }

export type TestProxy = {
  readonly port: number
  /** The first lines of the requests: `CONNECT api.openai.com:443 HTTP/1.1`. */
  readonly seen: readonly string[]
  /** The user agents of tunnel requests. */
  readonly agents: readonly string[]
  /** The credentials of each request; null: none. */
  readonly credentials: readonly (string | null)[]
  /** Connections accepted so far. */
  connections(): number
  play(act: ProxyAct): void
  close(): Promise<void>
}

const CONNECTED = 'HTTP/1.1 200 Connection established\r\n\r\n'

export type TestProxyOptions = {
  /** The port of a host, by name. */
  readonly ports: { readonly [host: string]: number }
  readonly tls?: { readonly key: string; readonly cert: string }
}

/** Writes a text in pieces, each in a turn of the event loop of its own. */
const writeSliced = async (socket: Socket, text: string, slice = text.length): Promise<void> => {
  for (let at = 0; at < text.length; at += slice) {
    socket.write(text.slice(at, at + slice), 'latin1')
    if (slice < text.length) await new Promise((resolve) => setImmediate(resolve))
  }
}

export const startProxy = async ({ ports, tls }: TestProxyOptions): Promise<TestProxy> => {
  const seen: string[] = []
  const credentials: (string | null)[] = []
  const agents: string[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  let act: ProxyAct = { do: 'connect' }

  const note = (line: string, authorization: string | undefined) => {
    seen.push(line)
    credentials.push(authorization ?? null)
  }

  const tunnel = async (client: Socket, target: string, { head, slice, after = '' }: ProxyAct & { do: 'connect' }) => {
    const upstream = connect(ports[target.replace(/:\d+$/, '')] ?? 1, '127.0.0.1')
    sockets.add(upstream)
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
    await writeSliced(client, (head ?? CONNECTED) + after, slice)
    client.pipe(upstream).pipe(client)
  }

  /** Requests in absolute form are read by a server of their own. */
  const forwarding = createHttpServer((req, res) => {
    note(`${req.method} ${req.url} HTTP/1.1`, req.headers['proxy-authorization'])
    const url = new URL(req.url ?? '')
    const headers = { ...req.headers }
    delete headers['proxy-authorization']
    const sent = request(
      { port: ports[url.hostname], host: '127.0.0.1', method: req.method, path: url.pathname + url.search, headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(res)
      },
    )
    sent.on('error', () => res.writeHead(502).end())
    req.pipe(sent)
  })

  const accept = (client: Socket) => {
    connections++
    sockets.add(client)
    client.on('error', () => {})
    const first = async (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      const line = text.slice(0, text.indexOf('\r\n'))
      const [method, target = ''] = line.split(' ')
      // The other server reads requests in absolute form, and further ones on the connection.
      agents.push(...(/^user-agent: (.*)$/im.exec(text)?.slice(1) ?? []))
      const isForwarded = act.do === 'connect' && method !== 'CONNECT'
      if (!isForwarded) note(line, /^proxy-authorization: (.*)$/im.exec(text)?.[1]?.trim())
      switch (act.do) {
        case 'freeze':
          return
        case 'answer':
          await writeSliced(client, act.bytes, act.slice)
          return void client.end()
        case 'cut':
          client.write(act.bytes, 'latin1')
          return void setImmediate(() => client.resetAndDestroy())
        case 'connect':
          if (method === 'CONNECT') return void tunnel(client, target, act)
          client.unshift(chunk)
          return void forwarding.emit('connection', client)
        default:
          throw new Error(`unknown act ${JSON.stringify(act satisfies never)}`)
      }
    }
    let head: Buffer = Buffer.alloc(0)
    const read = (chunk: Buffer) => {
      // tinyproxy sends the lines of a tunnel request one by one.
      head = Buffer.concat([head, chunk])
      if (!head.includes('\r\n\r\n')) return
      client.off('data', read)
      void first(head)
    }
    client.on('data', read)
  }

  const server: Server = tls ? createTlsServer(tls, accept) : createServer(accept)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    // Its address is that of a TCP port.
    port: (server.address() as AddressInfo).port,
    seen,
    credentials,
    agents,
    connections: () => connections,
    play(next) {
      act = next
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      forwarding.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
