/** Gateways with a fake of the Realtime API, and clients of them. */
import { WebSocket } from 'ws'
import { type RealtimeOptions, type RealtimeUpstream, startRealtime } from '../../support/realtime-upstream.ts'
import { type Started, type StartOptions, start } from './process.ts'

export const KEY = 'sk-upstream-canary-0123456789'
export const CLIENT = 'hg-client-canary-0123456789'

export type Gateway = {
  readonly gateway: Started
  readonly upstream: RealtimeUpstream
  [Symbol.asyncDispose](): Promise<void>
}

const opening = (options: Parameters<typeof start>[0]) => start(options).catch((error: Error) => error)

export const started = async (
  options: RealtimeOptions = {},
  { env = {}, files = {} }: Pick<StartOptions, 'env' | 'files'> = {},
): Promise<Gateway> => {
  const upstream = await startRealtime(options)
  const gateway = await opening({
    env: { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: upstream.base, AUTH_KEYS: CLIENT, HTTP_CLIENT: 'own', ...env },
    files,
  })
  if (gateway instanceof Error) {
    await upstream.close()
    throw gateway
  }
  return {
    gateway,
    upstream,
    async [Symbol.asyncDispose]() {
      await gateway.stop()
      await upstream.close()
    },
  }
}

/** The members of events that are read here. */
type Event = {
  readonly type: string
  readonly session: { readonly model: string }
  readonly response: { readonly usage: object }
  readonly error: { readonly code: string }
}

export type Peer = {
  readonly socket: WebSocket
  readonly events: readonly Event[]
  readonly headers: Readonly<Record<string, unknown>>
  send(event: object): void
  /** Resolves with the next event of this type that was not returned. */
  next(type: string): Promise<Event>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
}

export const url = (gateway: Started, query = '?model=gpt-realtime'): string =>
  `${gateway.base.replace('http', 'ws')}/realtime${query}`

export const connect = (
  address: string,
  headers: Record<string, string> = { authorization: `Bearer ${CLIENT}` },
): Promise<Peer> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(address, { headers, perMessageDeflate: false })
    const events: Event[] = []
    const waiting: { type: string; resolve: (event: Event) => void }[] = []
    let answered: Readonly<Record<string, unknown>> = {}
    const taken = new Set<Event>()
    socket.on('message', (data) => {
      const event = JSON.parse(data.toString())
      events.push(event)
      const at = waiting.findIndex(({ type }) => type === event.type)
      if (at === -1) return
      taken.add(event)
      waiting.splice(at, 1)[0]?.resolve(event)
    })
    socket.on('upgrade', (response) => {
      answered = response.headers
    })
    socket.on('unexpected-response', (_request, response) => {
      let body = ''
      response.on('data', (part) => {
        body += part
      })
      response.on('end', () =>
        reject(
          Object.assign(new Error(`status ${response.statusCode}: ${body}`), {
            status: response.statusCode,
            body,
            headers: response.headers,
          }),
        ),
      )
    })
    socket.on('error', reject)
    const closed = new Promise<{ code: number; reason: string }>((done) =>
      socket.on('close', (code, reason) => done({ code, reason: reason.toString() })),
    )
    socket.on('open', () =>
      resolve({
        socket,
        events,
        headers: answered,
        send: (event) => socket.send(JSON.stringify(event)),
        next: (type) => {
          const found = events.find((event) => event.type === type && !taken.has(event))
          if (found) {
            taken.add(found)
            return Promise.resolve(found)
          }
          return new Promise((done) => waiting.push({ type, resolve: done }))
        },
        closed,
      }),
    )
  })

export const refused = async (
  address: string,
  headers?: Record<string, string>,
): Promise<{ status: number; body: { readonly error: { readonly code: string } } }> => {
  try {
    const peer = await connect(address, headers)
    peer.socket.terminate()
  } catch (error) {
    const { status, body } = error as { status: number; body: string }
    return { status, body: JSON.parse(body) }
  }
  throw new Error('the session was opened')
}
