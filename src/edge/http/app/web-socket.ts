/**
 * Turns of the responses style over a WebSocket, as OpenAI's WebSocket mode and Open Responses (2026-04-24, "WebSocket
 * Transport") have it: a text message `response.create` is a turn, each event of its stream one text message. Turns of a
 * connection follow one another; what it asked not to be stored is remembered for as long as it is open.
 *
 * From here inwards a turn is a `Received` and a `Reply` like any other. Response headers (`x-headgate-…`) have no place
 * in it: an error says them in `headers`, as OpenAI's do, and of an answer the log has them under the turn's id, which
 * begins with the `x-request-id` the upgrade was answered with.
 */
import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { RawData, WebSocket, WebSocketServer } from 'ws'
import { type Failure, fail, KINDS, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { IncomingRequest, ResponseWriter } from '../../../core/http-exchange.ts'
import { isObject, type JsonObject, object, parseJson, text } from '../../../core/json.ts'
import { DEEPEST, rewrite, type Survey, survey } from '../../../core/json-text.ts'
import { readLarge } from '../../../core/large-json.ts'
import type { Frame } from '../../../core/protocol.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Stage } from '../../../core/stage.ts'
import { inTurns, PIECE } from '../../../core/steps.ts'
import type { MemoryStore, StoredResponse } from '../../../core/stored-response.ts'
import { errorResponse } from '../../../gateway/call/error-response.ts'
import { memoryResponseStore } from '../../../gateway/responses/memory-response-store.ts'
import { sseFrames } from '../../../protocols/framing/sse.ts'
import { openaiResponses } from '../../../protocols/openai-responses/index.ts'
import { turn } from '../../process/turns.ts'
import type { RequestHead } from '../server/http-server.ts'
import { dearSteps, exceedsJsonLimits } from './json-limits.ts'
import type { Unread } from './unread-answers.ts'

/** One turn; resolves when it has been answered. `connection`: what this connection remembers of its own turns. */
export type AnswerTurn = (received: IncomingRequest, reply: ResponseWriter, connection: MemoryStore) => Promise<void>

export type WebSocketOptions = {
  readonly settings: () => Settings
  readonly answer: AnswerTurn
  /** A place among the calls under way: the way to give it back, or why there is none. */
  readonly seat: () => Outcome<() => void>
  /** Whether whoever was let in may still ask: keys are withdrawn while connections are open. Null: they may. */
  readonly admits: (visitor: IncomingRequest) => Failure | null
  readonly onError: (error: unknown, requestId: string) => void
  /** Accounting of what clients have not read. */
  readonly unread: {
    /** Bytes of a turn's answer that wait; 0: none are left. */
    readonly set: (received: IncomingRequest, address: string, answer: Unread, bytes: number) => void
    /** It was ended to make room. */
    readonly ended: (received: IncomingRequest, bytes: number) => void
  }
  /** A message was turned away before it was a turn. */
  readonly onRefused: (refused: { readonly id: string; readonly path: string; readonly failure: Failure }) => void
  readonly timing: SocketTiming
}

/** All in ms. */
export type SocketTiming = {
  /** Between two pings. */
  readonly ping: number
  /**
   * Without a pong or any other message for so long the peer is taken for dead. Generous: clients that block while a
   * tool runs answer no ping meanwhile, and a machine that is gone is found by TCP's own keep-alive sooner.
   */
  readonly deaf: number
  /** A connection's life; a turn under way is still answered. OpenAI's and Open Responses': 60 minutes. */
  readonly lifetime: number
  /** For the other side to answer a close. */
  readonly close: number
}

export const SOCKET_TIMING: SocketTiming = { ping: 30_000, deaf: 300_000, lifetime: 3_600_000, close: 1_000 }

/** Loaded with the first connection: most gateways never have one. What `require` gives is untyped, hence the cast. */
const libraryOf = (): typeof import('ws') => createRequire(import.meta.url)('ws') as typeof import('ws')

/** Characters all connections together remember; the longest untouched turns make room, and are then not found. */
const MOST_REMEMBERED = 128 * 1024 * 1024

/** Messages of a connection that may wait for the turn under way; in characters, as much as one may have. */
const MOST_WAITING = 16

/** Bytes that wait for a client: from here on it is slow, down to there it has caught up. */
const FULL = 64 * 1024
const EASED = 16 * 1024

export type WebSockets = {
  /** Takes over a connection that has been let in. `visitor`: what every turn of it has in common. */
  accept(
    head: RequestHead,
    socket: Socket,
    first: Buffer,
    visitor: IncomingRequest,
    refuse: (failure: Failure) => void,
    headers: Readonly<Record<string, string>>,
  ): void
  /** Connections that are not over yet; while draining these are the ones with a turn under way. */
  open(): number
  /** Connections with a turn under way. */
  busy(): number
  /** Closes what is idle, and the rest once its turn is answered. */
  drain(): void
}

export const webSockets = (options: WebSocketOptions): WebSockets => {
  const remembered = memoryResponseStore(MOST_REMEMBERED)
  const connections = new Set<Connection>()
  const arriving = new WeakMap<IncomingMessage, Arriving>()
  let number = 0
  let draining = false
  let server: { readonly most: number; readonly takes: WebSocketServer } | null = null

  /** The largest message is a setting, and a server has one for good. */
  const serverFor = (most: number): WebSocketServer => {
    if (server?.most === most) return server.takes
    // A variable, since the library's types do not know `closeTimeout` yet.
    const limits = {
      noServer: true,
      clientTracking: false,
      // A few hundred bytes can unpack to a hundred million.
      perMessageDeflate: false,
      maxPayload: most,
      closeTimeout: options.timing.close,
    }
    const takes = new (libraryOf().WebSocketServer)(limits)
    takes.on('headers', (lines, req) => {
      for (const [name, value] of Object.entries(arriving.get(req)?.headers ?? {})) lines.push(`${name}: ${value}`)
    })
    takes.on('wsClientError', (error, _socket, req) => {
      arriving.get(req)?.refuse(fail('invalid_request', `The WebSocket handshake is not valid: ${error.message}.`))
    })
    server = { most, takes }
    return takes
  }

  return {
    accept(head, socket, first, visitor, refuse, headers) {
      const req = handshake(head)
      arriving.set(req, { refuse, headers })
      serverFor(options.settings().limit.body).handleUpgrade(req, socket, first, (peer) => {
        const shelf = shelfIn(remembered, String(number++))
        const connection = new Connection(options, peer, socket, visitor, shelf, () => {
          connections.delete(connection)
          shelf.clear()
        })
        connections.add(connection)
        if (draining) connection.drain()
      })
    },
    open: () => connections.size,
    busy: () => [...connections].filter(({ busy }) => busy).length,
    drain() {
      draining = true
      for (const connection of connections) connection.drain()
    },
  }
}

/** The library takes Node's request; of it, it looks at these. */
const handshake = ({ method, target, headers }: RequestHead): IncomingMessage => {
  const names = ['upgrade', 'sec-websocket-key', 'sec-websocket-version', 'sec-websocket-protocol', 'origin']
  const found = Object.fromEntries(names.map((name) => [name, headers(name)]))
  return { method, url: target, headers: found } as unknown as IncomingMessage
}

type Arriving = { readonly refuse: (failure: Failure) => void; readonly headers: Readonly<Record<string, string>> }

/** A connection's own part of what all remember. */
const shelfIn = (all: MemoryStore, connection: string): MemoryStore & { clear(): void } => {
  const own = new Set<string>()
  const within = (owner: string): string => `${connection} ${owner}`
  const under = (owner: string, found: StoredResponse | undefined) => found && { ...found, owner }
  return {
    put(response) {
      own.add(`${response.id} ${response.owner}`)
      all.put({ ...response, owner: within(response.owner) })
    },
    get: (id, owner) => under(owner, all.get(id, within(owner))),
    holding: (item, owner) => under(owner, all.holding(item, within(owner))),
    delete: (id, owner) => all.delete(id, within(owner)),
    clear() {
      for (const name of own) {
        const [id = '', owner = ''] = name.split(' ')
        all.delete(id, within(owner))
      }
    },
  }
}

/** What a message asks for. `lane`: the `stream_id` its events carry back. */
type Task = { readonly lane: string | null; readonly size: number } & (
  | { readonly ask: 'turn'; readonly body: string; readonly previous: string | null }
  | { readonly ask: 'refuse'; readonly failure: Failure }
)

class Connection {
  readonly #options: WebSocketOptions
  readonly #peer: WebSocket
  readonly #socket: Socket
  readonly #visitor: IncomingRequest
  readonly #shelf: MemoryStore
  readonly #backlog: Backlog
  readonly #waiting: Task[] = []
  #waitingSize = 0
  #turns = 0
  /** A large message that is being read, and what came behind it. */
  #reading: Promise<void> | null = null
  /** The turn under way. */
  #reply: TurnReply | null = null
  #heard = performance.now()
  /** Why no further turn is begun. */
  #last: Failure | null = null
  #over = false

  constructor(
    options: WebSocketOptions,
    peer: WebSocket,
    socket: Socket,
    visitor: IncomingRequest,
    shelf: MemoryStore,
    gone: () => void,
  ) {
    const { timing } = options
    this.#options = options
    this.#peer = peer
    this.#socket = socket
    this.#visitor = { ...visitor, headers: withoutTransport(visitor.headers) }
    this.#shelf = shelf
    this.#backlog = new Backlog(options.unread, this.#visitor, socket.remoteAddress ?? '', () => peer.terminate())
    socket.setKeepAlive(true, timing.ping)
    const pinging = setInterval(() => this.#ping(), timing.ping)
    const ageing = setTimeout(() => this.#end(tooOld(timing.lifetime)), timing.lifetime)
    const end = () => {
      if (this.#over) return
      this.#over = true
      clearInterval(pinging)
      clearTimeout(ageing)
      this.#waiting.length = 0
      this.#backlog.set(0)
      gone()
      this.#reply?.left()
    }
    peer.on('message', (data, binary) => this.#hear(data, binary))
    peer.on('pong', () => {
      this.#heard = performance.now()
    })
    peer.on('ping', () => {
      this.#heard = performance.now()
      this.#hold()
    })
    // What breaks the protocol is closed by the library with the code that says so (1002, 1007, 1009).
    peer.on('error', () => {})
    peer.on('close', end)
    socket.on('close', end)
    // A close frame has been answered: the client has left, however long it keeps its end of the connection open.
    socket.on('finish', end)
  }

  get busy(): boolean {
    return this.#reply !== null || this.#reading !== null
  }

  drain(): void {
    this.#end(fail('draining', 'The gateway is shutting down. Connect again.', { retryAfter: 1_000 }))
  }

  /** Begins nothing new: says why, where somebody waits for an answer, and closes. */
  #end(failure: Failure): void {
    this.#last ??= failure
    if (!this.busy) this.#next()
  }

  // ── What the client says ───────────────────────────────────────────────────────────────────────────────────────

  #hear(data: RawData, binary: boolean): void {
    if (this.#over) return
    this.#heard = performance.now()
    this.#hold()
    const text = binary ? '' : textOf(data)
    if (text.length <= PIECE && !this.#reading) return this.#take(binary ? refused(NOT_TEXT) : taskIn(text))
    // In pieces. What follows waits for it: turns keep their order.
    this.#peer.pause()
    const reading = (this.#reading ?? Promise.resolve())
      .then(() => (binary ? refused(NOT_TEXT) : inTurns(taskSteps(text), turn)))
      .then(
        (task) => this.#take(task),
        (error) => this.#options.onError(error, this.#visitor.id),
      )
      .then(() => {
        if (this.#reading !== reading) return
        this.#reading = null
        this.#peer.resume()
        this.#hold()
        if (this.#last && !this.#reply) this.#next()
      })
    this.#reading = reading
  }

  /** Undefined: a notice without an answer. */
  #take(task: Task | undefined): void {
    if (!task || this.#over) return
    const { body } = this.#options.settings().limit
    if (this.#reply && (this.#waiting.length >= MOST_WAITING || this.#waitingSize + task.size > body))
      return this.#refuse(
        task.lane,
        fail('busy', `${MOST_WAITING} messages of this connection are waiting already. Wait for their answers.`, {
          retryAfter: 1_000,
        }),
        this.#nextId(),
      )
    this.#waiting.push(task)
    this.#waitingSize += task.size
    if (!this.#reply) this.#next()
  }

  /** Who does not read what it is told is not listened to until it does: every message has an answer, and those would pile up. */
  #hold(): void {
    if (this.#peer.isPaused || this.#peer.bufferedAmount <= FULL) return
    this.#peer.pause()
    this.#socket.once('drain', () => this.#peer.resume())
  }

  // ── What becomes of it ─────────────────────────────────────────────────────────────────────────────────────────

  /** Begins what waits longest. Nothing is under way. */
  #next(): void {
    while (!this.#over && !this.#reply) {
      const task = this.#waiting.shift()
      if (!task) {
        if (this.#last) this.#close(this.#last)
        return
      }
      this.#waitingSize -= task.size
      const id = this.#nextId()
      const failure = task.ask === 'refuse' ? task.failure : this.#last
      if (task.ask === 'refuse' || failure) this.#refuse(task.lane, failure ?? NOT_TEXT, id)
      else this.#begin(task, id)
    }
  }

  #begin(task: Task & { ask: 'turn' }, id: string): void {
    const stranger = this.#options.admits(this.#visitor)
    if (stranger) {
      this.#waiting.length = 0
      this.#waitingSize = 0
      this.#refuse(task.lane, stranger, id)
      return this.#peer.close(1008, KINDS[stranger.kind].code)
    }
    const seat = this.#options.seat()
    if (!seat.ok) return this.#refuse(task.lane, seat.failure, id)
    const received: IncomingRequest = { ...this.#visitor, id, method: 'POST', body: task.body }
    const reply = new TurnReply(this.#peer, task.lane, this.#backlog, () => {
      // Open Responses: whatever a turn continued that failed is not to be continued again from this connection's memory.
      if (task.previous !== null) this.#shelf.delete(task.previous, received.client)
    })
    this.#reply = reply
    const done = () => {
      seat.value()
      this.#reply = null
      this.#next()
    }
    const broken = (error: unknown) => {
      this.#options.onError(error, id)
      if (reply.begun) reply.cut()
      else this.#refuse(task.lane, fail('internal', 'The gateway made a mistake of its own; its log has it.'), id)
    }
    // Not within the loop that began it, so that turns answered at once do not pile up on the stack.
    Promise.resolve()
      .then(() => this.#options.answer(received, reply, this.#shelf))
      .catch(broken)
      .finally(done)
  }

  #refuse(lane: string | null, failure: Failure, requestId: string): void {
    const { status, headers, body } = errorResponse(openaiResponses, failure, { requestId, soonest: 0 })
    this.#options.onRefused({ id: requestId, path: this.#visitor.path, failure })
    this.#peer.send(errorEvent(status, headers, body, lane), () => {})
  }

  /** Letters, as in every id: no number in it may be taken for a status. */
  #nextId(): string {
    let letters = ''
    for (let left = ++this.#turns; left > 0; left = Math.floor((left - 1) / 26))
      letters = String.fromCharCode(97 + ((left - 1) % 26)) + letters
    return `${this.#visitor.id}.${letters}`
  }

  // ── Its end ────────────────────────────────────────────────────────────────────────────────────────────────────

  #close(why: Failure): void {
    // Who waits for nothing learns from the code that the gateway goes away; that its time is over it is told in words.
    if (why.kind !== 'draining') this.#refuse(null, why, this.#nextId())
    this.#peer.close(why.kind === 'draining' ? 1001 : 1000, KINDS[why.kind].code)
  }

  #ping(): void {
    const { deaf } = this.#options.timing
    // One that reads slower than we write sees no ping either: what becomes of it is for the road to say (timeout.clientWrite).
    if (!this.#reply?.full && performance.now() - this.#heard > deaf) return this.#peer.terminate()
    if (this.#peer.readyState === this.#peer.OPEN) this.#peer.ping()
  }
}

// ── Messages in ──────────────────────────────────────────────────────────────────────────────────────────────────

/** `ws` gives text as bytes it has found to be valid UTF-8. */
const textOf = (data: RawData): string =>
  (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as ArrayBuffer)).toString('utf8')

/** OpenAI's rule for the names of lanes. */
const LANE = /^[A-Za-z0-9_.-]{1,256}$/

/** Undefined: a notice without an answer. */
const taskIn = (source: string): Task | undefined => {
  const dear = exceedsJsonLimits(source)
  if (dear) return refused(dear)
  const message = parsed(source)
  return taskOf(source, message, () => survey(source, DEEPEST))
}

/** The same of a large message, in pieces. */
function* taskSteps(source: string): Generator<undefined, Task | undefined, undefined> {
  const dear = yield* dearSteps(source)
  if (dear) return refused(dear)
  const read = yield* readLarge(source, DEEPEST)
  yield
  return read.ok ? taskOf(source, object(read.value), () => read.survey) : taskOf(source, undefined, () => null)
}

const taskOf = (source: string, message: JsonObject | undefined, found: () => Survey | null): Task | undefined => {
  const turn = (body: string, lane: string | null, previous: string | null): Task => ({
    ask: 'turn',
    body,
    lane,
    previous,
    size: body.length,
  })
  // The gateway refuses it with the same words as any other body.
  if (!message) return turn(source, null, null)
  const { type, stream_id, background, generate, ...body } = message
  const lane = text(stream_id) ?? null
  if (stream_id !== undefined && stream_id !== null && (lane === null || !LANE.test(lane))) return refused(BAD_LANE)
  // Codex reports that it is done with a response; the next message may be days away.
  if (type === 'response.processed') return undefined
  if (type !== 'response.create') return refused(NO_TURN, lane)
  if (background === true) return refused(NO_BACKGROUND, lane)
  const walk = found()
  // `generate: false` is for the gateway; an answer is the default.
  const asked: JsonObject = { ...body, ...(generate === false && { generate }), stream: true }
  return turn(
    walk?.ok ? rewrite(source, walk.members, message, asked) : source,
    lane,
    text(message.previous_response_id) ?? null,
  )
}

const parsed = (source: string): JsonObject | undefined => {
  try {
    const value = parseJson(source)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

const refused = (failure: Failure, lane: string | null = null): Task => ({ ask: 'refuse', failure, lane, size: 0 })

const NOT_TEXT = fail(
  'invalid_request',
  'Messages are text: JSON with `"type": "response.create"`. This one is binary.',
)
const NO_TURN = fail('invalid_value', 'The only message that is answered here is `"type": "response.create"`.', {
  param: 'type',
})
const NO_BACKGROUND = fail(
  'unsupported',
  'Nothing is answered in the background over a WebSocket: leave out `background`, or POST it.',
  { param: 'background' },
)
const BAD_LANE = fail(
  'invalid_value',
  'A `stream_id` is 1 to 256 letters, digits, underscores, hyphens and periods; leave it out for the default.',
  { param: 'stream_id' },
)
const tooOld = (lifetime: number): Failure =>
  fail(
    'connection_age',
    `This WebSocket connection has been open for ${Math.round(lifetime / 60_000)} minutes, as long as one may. Open a new one.`,
  )

/** What the client's header says of the WebSocket itself means nothing on a turn's way upstream. */
const withoutTransport =
  (headers: HeaderLookup): HeaderLookup =>
  (name) => {
    const value = headers(name)
    if (name !== 'openai-beta' || value === undefined) return value
    const rest = value.split(',').filter((one) => !one.trim().startsWith('responses_websockets='))
    return rest.length === 0 ? undefined : rest.join(',')
  }

// ── Messages out ─────────────────────────────────────────────────────────────────────────────────────────────────

/** The error envelope (Open Responses, "WebSocket Errors"). `body` is put in as it is: it is written so that no client finds in it a reason to come back. */
const errorEvent = (
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
  lane: string | null,
): string => {
  const { 'content-type': _, ...said } = headers
  return inLane(`{"type":"error","status":${status},"headers":${JSON.stringify(said)},${body.slice(1)}`, lane)
}

/** The event with the name of its lane. */
const inLane = (event: string, lane: string | null): string =>
  lane === null ? event : `${event.trimEnd().slice(0, -1)},"stream_id":${JSON.stringify(lane)}}`

/** What a connection's client has not read of the events sent to it. */
class Backlog implements Unread {
  bytes = 0
  readonly #unread: WebSocketOptions['unread']
  readonly #visitor: IncomingRequest
  readonly #address: string
  readonly #terminate: () => void
  #ended = false

  constructor(unread: WebSocketOptions['unread'], visitor: IncomingRequest, address: string, terminate: () => void) {
    this.#unread = unread
    this.#visitor = visitor
    this.#address = address
    this.#terminate = terminate
  }

  set(bytes: number): void {
    if (this.#ended || bytes === this.bytes) return
    this.bytes = bytes
    this.#unread.set(this.#visitor, this.#address, this, bytes)
  }

  endUnread(bytes: number): void {
    this.#ended = true
    this.#unread.ended(this.#visitor, bytes)
    this.#terminate()
  }
}

/** An answer of the responses style as messages: each event of its stream is one, a comment is a ping. */
class TurnReply implements ResponseWriter {
  readonly #peer: WebSocket
  readonly #lane: string | null
  readonly #backlog: Backlog
  readonly #failed: () => void
  readonly #frames: Stage<string, Frame> = sseFrames(Number.MAX_SAFE_INTEGER)
  #status = 0
  #headers: Readonly<Record<string, string>> = {}
  #told = false
  #over = false
  #gone = false
  full = false
  #onGone: () => void = () => {}
  #onDrain: () => void = () => {}

  /** `failed`: runs when the client is told that the turn failed. */
  constructor(peer: WebSocket, lane: string | null, backlog: Backlog, failed: () => void) {
    this.#peer = peer
    this.#lane = lane
    this.#backlog = backlog
    this.#failed = failed
  }

  /** Something has been said, or nothing can be any more. */
  get begun(): boolean {
    return this.#told || this.#over
  }

  /** The connection closed before the answer was out. */
  left(): void {
    this.#gone = true
    this.#onGone()
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status
    this.#headers = headers
  }

  write(chunk: string): boolean {
    if (this.#over || this.#gone || chunk === '') return true
    // A comment, the road's sign of life before there is anything to speak of.
    if (chunk.startsWith(':')) this.#peer.ping()
    this.#tell(this.#frames.push(chunk))
    this.full ||= this.#peer.bufferedAmount > FULL
    if (this.full) this.#backlog.set(this.#peer.bufferedAmount)
    return !this.full
  }

  end(chunk = ''): void {
    if (this.#over) return
    if (this.#status >= 400) {
      if (!this.#gone) this.#send(errorEvent(this.#status, this.#headers, chunk, this.#lane))
      this.#failed()
    } else if (!this.#gone) this.#tell([...this.#frames.push(chunk), ...this.#frames.end()])
    this.#over = true
    if (!this.#gone && this.#peer.bufferedAmount > FULL) this.#backlog.set(this.#peer.bufferedAmount)
  }

  cut(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = () => {}
    this.#peer.terminate()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onGone(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }

  #tell(frames: readonly Frame[]): void {
    const events = frames.map(({ data }) => data).filter((data) => data !== '' && data !== '[DONE]')
    const wrong = events.find((data) => parsed(data)?.type === 'error')
    if (wrong === undefined) {
      for (const event of events) this.#send(event)
      return
    }
    // A turn has one end, or what follows it would be taken for the next one's: of a response that has begun it is
    // `response.failed`, and of one nothing has been told of the error itself.
    const last = events.at(-1)
    if (this.#told && last !== undefined) this.#send(last)
    else this.#send(withStatus(wrong))
    this.#failed()
  }

  #send(event: string): void {
    this.#told = true
    this.#peer.send(inLane(event, this.#lane), () => {
      if ((!this.full && this.#backlog.bytes === 0) || this.#gone || this.#peer.bufferedAmount > EASED) return
      this.#backlog.set(0)
      if (!this.full) return
      this.full = false
      this.#onDrain()
    })
  }
}

/** An error that came when the head was out already, with the status it would have had. */
const withStatus = (event: string): string => {
  const { type, error } = parsed(event) ?? {}
  const code = text(object(error)?.code)
  const row = Object.values(KINDS).find((one) => one.code === code)
  return JSON.stringify({ type: type ?? 'error', status: row?.status ?? 500, error: error ?? null })
}
