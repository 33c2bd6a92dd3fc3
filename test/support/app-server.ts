/** The gateway's HTTP server with handlers that record their calls, and clients that send raw bytes to it. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import { isObject, type JsonObject, object } from '../../src/core/json.ts'
import { RETRY_TRIGGERS } from '../../src/core/retry-triggers.ts'
import { type Settings, settingsSchema } from '../../src/core/settings.ts'
import { type Handlers, ROUTES } from '../../src/server/routes.ts'
import { type Server, type ServerOptions, startServer } from '../../src/server/server.ts'
import type { RefusedRequest } from '../../src/server/server-context.ts'

/** A request that reached a handler. */
export type HandlerCall = {
  readonly name: string
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
  readonly rest: string
}

type ServerFixture = {
  readonly server: Server
  readonly calls: HandlerCall[]
  readonly refused: RefusedRequest[]
  readonly errors: unknown[]
  settings: Settings
  /** Runs for every request that reaches a handler. */
  answer: (call: HandlerCall) => void | Promise<void>
}

/** Closed after the last test of the file. */
const running: Server[] = []

after(async () => {
  for (const server of running) await server.close()
})

/** Answers with the name of the handler and what it received. */
export const echo = ({ name, received, reply, rest }: HandlerCall) => {
  reply.writeHead(200, { 'content-type': 'application/json' })
  reply.end(JSON.stringify({ name, rest, body: received.body.text, query: received.query }))
}

const fixtureFor = (httpServer: 'own' | 'node') => {
  const given = async (
    settings: Parameters<typeof settingsSchema.parse>[0] = {},
    options: Partial<ServerOptions> = {},
  ): Promise<ServerFixture> => {
    const calls: HandlerCall[] = []
    const refused: RefusedRequest[] = []
    const errors: unknown[] = []
    const handler = (name: string) => (received: IncomingRequest, reply: ResponseWriter, rest: string) => {
      const call = { name, received, reply, rest }
      calls.push(call)
      return made.answer(call)
    }
    const handlers = Object.fromEntries(Object.keys(ROUTES).map((name) => [name, handler(name)]))
    const made: Omit<ServerFixture, 'server'> = {
      calls,
      refused,
      errors,
      settings: settingsSchema.parse(settings),
      answer: echo,
    }
    const server = await startServer({
      port: 0,
      host: '127.0.0.1',
      settings: () => made.settings,
      // `Object.fromEntries` does not keep the names of the routes.
      handlers: handlers as unknown as Handlers,
      onError: (error) => errors.push(error),
      onRefused: (one) => refused.push(one),
      httpServer,
      ...options,
      timing: { check: 20, linger: 100, farewell: 200, ...options.timing },
    })
    running.push(server)
    return Object.assign(made, { server })
  }
  return { httpServer, given }
}

/** All tests run on both servers; each is the reference for the other. */
export const onBothServers = (
  name: string,
  run: (fixture: ReturnType<typeof fixtureFor>, t: TestContext) => void | Promise<void>,
): void => {
  for (const variant of ['own', 'node'] as const) test(`${variant} server: ${name}`, (t) => run(fixtureFor(variant), t))
}

type ParsedResponse = { status: number; headers: Map<string, string>; body: string; json: JsonObject; closed: boolean }

/** ms without the expected responses after which a test fails. */
const LONGEST = 60_000

/**
 * Sends bytes. Returns what was received until the server closed, marked `<closed>`, or until `responses` are complete and the
 * last one does not announce a close.
 */
export const sendBytes = async (
  port: number,
  pieces: string | readonly (string | Buffer)[],
  responses = 1,
): Promise<string> => {
  const sent = typeof pieces === 'string' ? [pieces] : pieces
  const hasBody = !String(sent[0] ?? '').startsWith('HEAD ')
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.setEncoding('latin1')
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  return new Promise((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve(received)
    }
    const timer = setTimeout(() => {
      socket.destroy()
      reject(new Error(`Neither ${responses} complete responses nor a close, but: ${received}`))
    }, LONGEST)
    socket.on('data', (text: string) => {
      received += text
      const { count, closes } = completeResponses(received, hasBody)
      if (count >= responses && !closes) finish()
    })
    socket.on('close', () => {
      received += '<closed>'
      finish()
    })
    for (const piece of sent) socket.write(piece)
  })
}

/** Counts the complete final responses in a text; `closes`: the last one ends the connection. */
const completeResponses = (text: string, hasBody: boolean): { readonly count: number; readonly closes: boolean } => {
  let count = 0
  let closes = false
  for (let at = 0; ; ) {
    const head = /^HTTP\/1\.1 (\d{3})[\s\S]*?\r\n\r\n/.exec(text.slice(at))
    if (!head) return { count, closes }
    at += head[0].length
    if (head[1]?.startsWith('1')) continue
    const length = /\r\ncontent-length: *(\d+)/i.exec(head[0])?.[1]
    if (!hasBody || head[1] === '204' || head[1] === '304') at += 0
    else if (length !== undefined) at += Number(length)
    else if (/\r\ntransfer-encoding: *chunked/i.test(head[0])) {
      const end = text.indexOf('\r\n0\r\n\r\n', at - 2)
      at = end < 0 ? Number.POSITIVE_INFINITY : end + 7
    } else at = Number.POSITIVE_INFINITY
    if (at > text.length) return { count, closes }
    count++
    closes = /\r\nconnection: *close/i.test(head[0])
  }
}

/** Parses one response from what `sendBytes` received. */
export const parseResponse = (text: string): ParsedResponse => {
  const closed = text.endsWith('<closed>')
  const plain = text.replace(/<closed>$/, '')
  const end = plain.indexOf('\r\n\r\n')
  const [first = '', ...lines] = plain.slice(0, end).split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const length = headers.get('content-length')
  const body = plain.slice(end + 4, length === undefined ? undefined : end + 4 + Number(length))
  let json: JsonObject = {}
  try {
    const value: unknown = JSON.parse(body)
    if (isObject(value)) json = value
  } catch {
    // Not every response is JSON; tests check the members of those that are.
  }
  return { status: Number(first.split(' ')[1]), headers, body, json, closed }
}

/** Builds an HTTP/1.1 request with `Host`, and with `Content-Length` if there is a body. */
export const requestText = (
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): string => {
  const all = {
    host: 'localhost',
    ...(body !== '' && { 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

/** Sends one request, and parses its response. */
export const send = async (port: number, ...what: Parameters<typeof requestText>): Promise<ParsedResponse> =>
  parseResponse(await sendBytes(port, requestText(...what)))

export const CHAT = '/v1/chat/completions'

/** The `error` member of an OpenAI-style error response. */
export const errorOf = (answer: ParsedResponse): JsonObject => object(answer.json.error) ?? {}

/** Checks what every refusal has in common: JSON, the error's code, and the request ID. */
export const assertRefusal = (answer: ParsedResponse, status: number, code: string) => {
  assert.equal(answer.status, status, answer.body)
  assert.equal(answer.headers.get('content-type'), 'application/json')
  assert.equal(errorOf(answer).code, code)
  assert.equal(typeof errorOf(answer).message, 'string')
  assert.equal(errorOf(answer).request_id, answer.headers.get('x-request-id'))
  assert.match(answer.headers.get('x-request-id') ?? '', /^req_[a-z]+$/)
  if (answer.headers.get('x-should-retry') === 'false') assert.doesNotMatch(answer.body, RETRY_TRIGGERS)
}

/** Opens a client that sends `text`. It records each read, and its socket can be paused. */
export const openClient = async (port: number, text: string) => {
  const socket: Socket = connect(port, '127.0.0.1')
  const reads: string[] = []
  socket.setEncoding('latin1')
  socket.on('data', (read: string) => reads.push(read))
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(text)
  return { socket, reads, text: () => reads.join('') }
}
