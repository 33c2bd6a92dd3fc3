/**
 * A strict fake of OpenAI's Realtime API. Events have the members of openai-node 7.55.0 (`resources/realtime/realtime.d.ts`); the usage
 * is that of BerriAI/litellm#39851 in shape. What a vendor would refuse is noted in `wrong`.
 */
import { createServer, type Server as HttpServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'

export const USAGE = {
  total_tokens: 253,
  input_tokens: 132,
  output_tokens: 121,
  input_token_details: {
    text_tokens: 119,
    audio_tokens: 13,
    image_tokens: 0,
    cached_tokens: 64,
    cached_tokens_details: { text_tokens: 64, audio_tokens: 0, image_tokens: 0 },
  },
  output_token_details: { text_tokens: 30, audio_tokens: 91 },
}

const EVENTS = new Set([
  'session.update',
  'input_audio_buffer.append',
  'input_audio_buffer.commit',
  'input_audio_buffer.clear',
  'conversation.item.create',
  'conversation.item.truncate',
  'conversation.item.delete',
  'response.create',
  'response.cancel',
])

export type RealtimeUpstream = {
  /** `http://127.0.0.1:…/v1` */
  readonly base: string
  /** Headers and paths of the handshakes, in order. */
  readonly handshakes: readonly { readonly url: string; readonly headers: IncomingMessage['headers'] }[]
  readonly open: ReadonlySet<WebSocket>
  /** Names and codes of closed connections. */
  readonly closed: readonly { readonly code: number; readonly reason: string }[]
  readonly received: readonly { readonly type: string }[]
  readonly wrong: readonly string[]
  close(): Promise<void>
}

export type RealtimeOptions = {
  /** Answers the handshake instead: its status and body. Undefined: it is accepted. */
  readonly refuse?: (
    url: URL,
    headers: IncomingMessage['headers'],
  ) => { readonly status: number; readonly body: string } | undefined
  /** Handles an event instead of the usual answers. Returns whether it has. */
  readonly on?: (event: { readonly type: string }, peer: WebSocket, socket: Duplex) => boolean
  readonly usage?: object | null
  /** Bytes of audio in a response, in Base64 of 4 KB each. */
  readonly deltas?: number
  readonly server?: (handler: Parameters<typeof createServer>[1]) => HttpServer
}

export const startRealtime = async (options: RealtimeOptions = {}): Promise<RealtimeUpstream> => {
  const { usage = USAGE, deltas = 3 } = options
  const handshakes: RealtimeUpstream['handshakes'][number][] = []
  const open = new Set<WebSocket>()
  const closed: { code: number; reason: string }[] = []
  const received: { type: string }[] = []
  const wrong: string[] = []
  let number = 0
  const id = (kind: string) => `${kind}_${(++number).toString().padStart(21, 'A')}`
  const server = (options.server ?? createServer)((request, response) => {
    if (request.url !== '/v1/models') wrong.push(`${request.method} ${request.url} without an upgrade`)
    response.writeHead(404).end()
  })
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 32 * 1024 * 1024 })
  server.on('upgrade', (request, socket, head) => {
    const url = new URL(request.url ?? '/', 'http://upstream')
    handshakes.push({ url: request.url ?? '', headers: request.headers })
    for (const name of ['sec-websocket-protocol', 'sec-websocket-extensions', 'origin', 'cookie'])
      if (request.headers[name] !== undefined) wrong.push(`the header ${name}`)
    const refused = options.refuse?.(url, request.headers)
    if (refused) {
      const length = Buffer.byteLength(refused.body)
      socket.end(
        `HTTP/1.1 ${refused.status} No\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${refused.body}`,
      )
      return
    }
    sockets.handleUpgrade(request, socket, head, (peer) => connected(peer, socket, url))
  })
  const connected = (peer: WebSocket, socket: Duplex, url: URL) => {
    open.add(peer)
    const model = url.searchParams.get('model') ?? url.searchParams.get('deployment')
    if (!model) wrong.push('no model')
    const send = (event: object) => peer.send(JSON.stringify({ ...event, event_id: id('event') }))
    const session = {
      type: 'realtime',
      object: 'realtime.session',
      id: id('sess'),
      model,
      output_modalities: ['audio'],
    }
    send({ type: 'session.created', session })
    peer.on('error', (error) => wrong.push(error.message))
    peer.on('close', (code, reason) => {
      open.delete(peer)
      closed.push({ code, reason: reason.toString() })
    })
    peer.on('message', (data, isBinary) => {
      if (isBinary) return void wrong.push('a binary message')
      const event = JSON.parse(data.toString())
      received.push(event)
      if (!EVENTS.has(event.type)) return void wrong.push(`the event ${event.type}`)
      if (options.on?.(event, peer, socket)) return
      if (event.type === 'session.update') send({ type: 'session.updated', session: { ...session, ...event.session } })
      if (event.type === 'input_audio_buffer.commit')
        send({
          type: 'conversation.item.input_audio_transcription.completed',
          item_id: id('item'),
          content_index: 0,
          transcript: 'hello',
          usage: {
            type: 'tokens',
            total_tokens: 22,
            input_tokens: 13,
            input_token_details: { text_tokens: 0, audio_tokens: 13 },
            output_tokens: 9,
          },
        })
      if (event.type === 'response.create') respond(send, { usage, deltas, id })
    })
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    base: `http://127.0.0.1:${port}/v1`,
    handshakes,
    open,
    closed,
    received,
    wrong,
    close: () =>
      new Promise((resolve) => {
        for (const peer of open) peer.terminate()
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const respond = (
  send: (event: object) => void,
  {
    usage,
    deltas,
    id,
  }: { readonly usage: object | null; readonly deltas: number; readonly id: (kind: string) => string },
): void => {
  const response = { object: 'realtime.response', id: id('resp'), status_details: null, conversation_id: id('conv') }
  const item = { id: id('item'), object: 'realtime.item', type: 'message', role: 'assistant', content: [] }
  const place = { response_id: response.id, item_id: item.id, output_index: 0, content_index: 0 }
  send({ type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } })
  send({ type: 'response.output_item.added', response_id: response.id, output_index: 0, item })
  for (let at = 0; at < deltas; at++)
    send({ type: 'response.output_audio.delta', ...place, delta: Buffer.alloc(3_072, at).toString('base64') })
  send({ type: 'response.output_audio.done', ...place })
  send({ type: 'response.done', response: { ...response, status: 'completed', output: [item], usage } })
  send({
    type: 'rate_limits.updated',
    rate_limits: [{ name: 'tokens', limit: 15_000, remaining: 14_000, reset_seconds: 1 }],
  })
}
