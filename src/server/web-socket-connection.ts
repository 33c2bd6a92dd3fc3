/** One WebSocket connection: its queue of turns, its keep-alive and its end. */
import type { Socket } from 'node:net'
import type { RawData, WebSocket } from 'ws'
import type { Client } from '../core/accounts.ts'
import { type Failure, fail, KINDS, type Outcome } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import type { Settings } from '../core/settings.ts'
import { inTurns, PIECE } from '../core/steps.ts'
import type { MemoryStore } from '../core/stored-response.ts'
import { errorResponse } from '../gateway/call/error-response.ts'
import { shedFailure } from '../policy/health/shed.ts'
import { openaiResponses } from '../protocols/openai-responses/index.ts'
import { turn } from '../runtime/turns.ts'
import type { SocketMemory } from './socket-memory.ts'
import { TurnIds } from './turn-ids.ts'
import { MAX_QUEUED, TurnQueue } from './turn-queue.ts'
import { BINARY, parseTask, parseTaskSteps, type SocketTask, type TurnTask, textOf } from './web-socket-message.ts'
import { errorEvent, FULL, SocketBacklog, TurnReply, type UnreadAccounting } from './web-socket-reply.ts'

/** Answers one turn; resolves when its response is complete. `connection`: the responses that its connection keeps. */
export type AnswerTurn = (received: IncomingRequest, reply: ResponseWriter, connection: MemoryStore) => Promise<void>

/** What WebSocket connections need from their server. */
export type WebSocketOptions = {
  /** The current settings. */
  readonly settings: () => Settings
  readonly answer: AnswerTurn
  /** Counts a model call: returns the function that ends it, or why the call is refused. */
  readonly seat: () => Outcome<() => void>
  /** Checks the key again before each turn: it may have been revoked or changed since the upgrade. A promise never rejects. */
  readonly admits: (visitor: IncomingRequest, address: string) => Outcome<Client> | Promise<Outcome<Client>>
  /** Counts the messages of a connection. */
  readonly memoryFor: (visitor: IncomingRequest, address: string) => SocketMemory
  readonly onError: (error: unknown, requestId: string) => void
  readonly unread: UnreadAccounting
  /** A message was refused before it became a turn. */
  readonly onRefused: (refused: {
    readonly id: string
    readonly visitor: IncomingRequest
    readonly failure: Failure
  }) => void
  readonly timing: SocketTiming
}

/** All in ms. */
export type SocketTiming = {
  /** Between two pings. */
  readonly ping: number
  /**
   * Time without a pong or another message after which the peer counts as dead. Long, because clients that block while
   * a tool runs answer no ping; TCP keep-alive finds a lost machine sooner.
   */
  readonly deaf: number
  /** The life of a connection; a turn in progress is completed. 60 minutes at OpenAI and in Open Responses. */
  readonly lifetime: number
  /** For the peer to answer a close frame. */
  readonly close: number
}

export const SOCKET_TIMING: SocketTiming = { ping: 30_000, deaf: 300_000, lifetime: 3_600_000, close: 1_000 }

type WaitingTurn = { readonly task: TurnTask; readonly id: string; readonly held: number }

type ConnectionOptions = {
  readonly options: WebSocketOptions
  readonly peer: WebSocket
  readonly socket: Socket
  /** Of the client. */
  readonly address: string
  /** The upgrade request. */
  readonly visitor: IncomingRequest
  /** The responses that this connection keeps. */
  readonly responses: MemoryStore
  readonly onClosed: () => void
}

/** A connection; it closes itself. */
export class WebSocketConnection {
  readonly #options: WebSocketOptions
  readonly #peer: WebSocket
  readonly #socket: Socket
  readonly #visitor: IncomingRequest
  /** Kept: a closed socket has none. */
  readonly #address: string
  readonly #responses: MemoryStore
  readonly #backlog: SocketBacklog
  readonly #memory: SocketMemory
  readonly #queue: TurnQueue
  readonly #ids: TurnIds
  /** Settles when the large message in progress and those received after it are parsed. */
  #parsing: Promise<void> | null = null
  /** The turn in progress, and whether the key is looked up for the next one. */
  #reply: TurnReply | null = null
  #isLookingUp = false
  #lastReceived = performance.now()
  /** Set once no further turn starts. */
  #endReason: Failure | null = null
  #closed = false

  constructor({ options, peer, socket, address, visitor, responses, onClosed }: ConnectionOptions) {
    const { timing } = options
    this.#options = options
    this.#peer = peer
    this.#socket = socket
    this.#visitor = { ...visitor, headers: withoutTransport(visitor.headers) }
    this.#address = address
    this.#responses = responses
    this.#backlog = new SocketBacklog(options.unread, {
      visitor: this.#visitor,
      address: this.#address,
      terminate: () => peer.terminate(),
    })
    this.#memory = options.memoryFor(this.#visitor, this.#address)
    this.#queue = new TurnQueue(this.#memory)
    this.#ids = new TurnIds(visitor.id)
    socket.setKeepAlive(true, timing.ping)
    const pinging = setInterval(() => this.#ping(), timing.ping)
    const lifetime = setTimeout(() => this.#end(tooOld(timing.lifetime)), timing.lifetime)
    const closed = () => {
      if (this.#closed) return
      this.#closed = true
      clearInterval(pinging)
      clearTimeout(lifetime)
      this.#queue.clear()
      this.#backlog.set(0)
      this.#memory.clear()
      onClosed()
      this.#reply?.left()
    }
    // Before the listener of the library, which emits the messages that a read completes.
    socket.prependListener('data', (part: Buffer) => this.#count(part.length))
    peer.on('message', (data, binary) => this.#receive(data, binary))
    peer.on('pong', (data) => {
      this.#lastReceived = performance.now()
      this.#memory.control(data.length)
    })
    peer.on('ping', (data) => {
      this.#lastReceived = performance.now()
      this.#memory.control(data.length)
      this.#applyBackpressure()
    })
    // `ws` closes the connection after a protocol error, with the code for it (1002, 1007, 1009).
    peer.on('error', () => {})
    peer.on('close', closed)
    socket.on('close', closed)
    // A close frame was answered: the client has disconnected, even if it keeps its TCP connection open.
    socket.on('finish', closed)
  }

  /** A turn is in progress or a message is being parsed. */
  get busy(): boolean {
    return this.#reply !== null || this.#parsing !== null || this.#isLookingUp
  }

  /** Closes once the turn in progress is complete. */
  drain(): void {
    this.#end(fail('draining', 'The gateway is shutting down. Connect again.', { retryAfter: 1_000 }))
  }

  /** Starts no further turn; refuses queued ones with this failure, then closes. */
  #end(failure: Failure): void {
    this.#endReason ??= failure
    if (!this.busy) this.#next()
  }

  // ── Messages ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Counts bytes of a message that may never be complete. Without memory for them, the connection ends. */
  #count(bytes: number): void {
    const why = this.#memory.received(bytes)
    if (!why || this.#closed) return
    this.#memory.clear()
    this.#peer.pause()
    this.#refuse(null, shedFailure(why), this.#ids.next())
    // "Try again later"; the library ends a connection that does not answer.
    this.#peer.close(1013, KINDS.busy.code)
  }

  #receive(data: RawData, binary: boolean): void {
    if (this.#closed) return
    this.#lastReceived = performance.now()
    this.#applyBackpressure()
    const text = binary ? '' : textOf(data)
    const held = text.length
    this.#memory.message(held)
    if (held <= PIECE && !this.#parsing) return this.#enqueue(binary ? BINARY : parseTask(text), held)
    // Later messages wait for a large one, so that turns keep their order.
    this.#peer.pause()
    const parsing = (this.#parsing ?? Promise.resolve())
      .then(() => (binary ? BINARY : inTurns(parseTaskSteps(text), turn)))
      .then(
        (task) => this.#enqueue(task, held),
        (error) => this.#options.onError(error, this.#visitor.id),
      )
      .then(() => {
        if (this.#parsing !== parsing) return
        this.#parsing = null
        this.#peer.resume()
        this.#applyBackpressure()
        if (this.#endReason && !this.#reply) this.#next()
      })
    this.#parsing = parsing
  }

  /** Undefined: a notification without a response. */
  #enqueue(task: SocketTask | undefined, held: number): void {
    if (!task || this.#closed) return this.#memory.done(held)
    const { body } = this.#options.settings().limit
    if (this.#reply && !this.#queue.hasRoom(task, body)) {
      this.#memory.done(held)
      return this.#refuse(task.lane, QUEUE_FULL, this.#ids.next())
    }
    this.#queue.push(task, held)
    if (!this.#reply) this.#next()
  }

  /**
   * Stops reading from a client that does not read. Each message produces a response, so unread responses would
   * accumulate.
   */
  #applyBackpressure(): void {
    if (this.#peer.isPaused || this.#peer.bufferedAmount <= FULL) return
    this.#peer.pause()
    this.#socket.once('drain', () => this.#peer.resume())
  }

  /** Starts the oldest queued turn. No turn may be in progress. */
  #next(): void {
    while (!this.#closed && !this.#reply && !this.#isLookingUp) {
      const { task, held } = this.#queue.shift() ?? { task: null, held: 0 }
      if (!task) {
        if (this.#endReason) this.#close(this.#endReason)
        return
      }
      const id = this.#ids.next()
      if (task.kind === 'turn' && !this.#endReason) {
        const admitted = this.#options.admits(this.#visitor, this.#address)
        if (admitted instanceof Promise) return this.#lookUp({ task, id, held }, admitted)
        if (this.#begin({ task, id, held }, admitted)) return
      }
      if (task.kind === 'refusal') this.#refuse(task.lane, task.failure, id)
      else if (this.#endReason) this.#refuse(task.lane, this.#endReason, id)
      this.#memory.done(held)
    }
  }

  /** Begins the turn when its key has been looked up. */
  #lookUp(turn: WaitingTurn, looking: Promise<Outcome<Client>>): void {
    this.#isLookingUp = true
    void looking.then((admitted) => {
      this.#isLookingUp = false
      if (this.#closed || (!this.#endReason && this.#begin(turn, admitted))) return
      if (this.#endReason) this.#refuse(turn.task.lane, this.#endReason, turn.id)
      this.#memory.done(turn.held)
      this.#next()
    })
  }

  /** Returns false if the turn was refused. */
  #begin({ task, id, held }: WaitingTurn, admitted: Outcome<Client>): boolean {
    if (!admitted.ok) {
      this.#queue.clear()
      this.#refuse(task.lane, admitted.failure, id)
      this.#peer.close(1008, KINDS[admitted.failure.kind].code)
      return false
    }
    const seat = this.#options.seat()
    if (!seat.ok) {
      this.#refuse(task.lane, seat.failure, id)
      return false
    }
    const client = admitted.value
    const { ownId } = this.#visitor
    const ids = ownId === undefined ? { id } : { id, ownId: this.#ids.of(ownId) }
    const received: IncomingRequest = {
      ...this.#visitor,
      ...ids,
      client,
      method: 'POST',
      body: { text: task.body },
    }
    const onFailed = () => {
      // Open Responses: a response that a failed turn continued is evicted from the connection's memory.
      if (task.previous !== null) this.#responses.delete(task.previous, received.client.owner)
    }
    const reply = new TurnReply({ peer: this.#peer, lane: task.lane, backlog: this.#backlog, onFailed })
    this.#reply = reply
    const done = () => {
      seat.value()
      this.#memory.done(held)
      this.#reply = null
      this.#next()
    }
    const broken = (error: unknown) => {
      this.#options.onError(error, id)
      if (reply.begun) reply.abort()
      else this.#refuse(task.lane, INTERNAL, id)
    }
    // Asynchronous, so that turns that are answered at once do not nest on the stack.
    Promise.resolve()
      .then(() => this.#options.answer(received, reply, this.#responses))
      .catch(broken)
      .finally(done)
    return true
  }

  #refuse(lane: string | null, failure: Failure, requestId: string): void {
    const response = errorResponse(openaiResponses, failure, { requestId, availableIn: 0 })
    this.#options.onRefused({ id: requestId, visitor: this.#visitor, failure })
    this.#peer.send(errorEvent(response, lane), () => {})
  }

  // ── End ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #close(why: Failure): void {
    // A shutdown is reported by the close code. The end of the lifetime is reported by an error event as well.
    if (why.kind !== 'draining') this.#refuse(null, why, this.#ids.next())
    this.#peer.close(why.kind === 'draining' ? 1001 : 1000, KINDS[why.kind].code)
  }

  #ping(): void {
    const { deaf } = this.#options.timing
    // A client that reads slowly does not receive pings either: timeout.clientWrite ends it instead.
    if (!this.#reply?.full && performance.now() - this.#lastReceived > deaf) return this.#peer.terminate()
    if (this.#peer.readyState === this.#peer.OPEN) this.#peer.ping()
  }
}

const QUEUE_FULL = fail(
  'busy',
  `Too many messages of this connection are queued (limit ${MAX_QUEUED}, and the size of one body). Wait for their responses.`,
  { retryAfter: 1_000 },
)

const INTERNAL = fail('internal', 'Internal gateway error. See the gateway log for this request ID.')

const tooOld = (lifetime: number): Failure =>
  fail(
    'connection_age',
    `This WebSocket connection has reached its maximum age (${Math.round(lifetime / 60_000)} minutes). Open a new one.`,
  )

/** Removes the values of `openai-beta` for the WebSocket transport; the upstream request is plain HTTP. */
const withoutTransport =
  (headers: HeaderLookup): HeaderLookup =>
  (name) => {
    const value = headers(name)
    if (name !== 'openai-beta' || value === undefined) return value
    const rest = value.split(',').filter((item) => !item.trim().startsWith('responses_websockets='))
    return rest.length === 0 ? undefined : rest.join(',')
  }
