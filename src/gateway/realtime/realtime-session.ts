/**
 * A session of the Realtime API: relays the frames of both sides unchanged, and counts each response. Bytes are checked as frames, and
 * pass in the reads in which they arrive.
 */
import { type Failure, fail, KINDS } from '../../core/failure.ts'
import type { SocketWriter } from '../../core/http-exchange.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Sink } from '../../core/stage.ts'
import type { Cancel, OngoingCall } from '../../core/world.ts'
import {
  CLOSE,
  type CloseCode,
  closeFrame,
  type FrameProblem,
  FrameReader,
  textFrame,
} from '../../protocols/framing/web-socket-frames.ts'
import type { CallDeps, RunningCall } from '../call/call-lifecycle.ts'
import { ClientPace } from '../call/client-pace.ts'
import { SettledAnswer } from '../call/settled-answer.ts'
import type { Routed } from '../routing/router.ts'
import { SWITCHED } from '../upstream/body-reader.ts'
import type { PreparedRealtime } from './realtime-attempts.ts'
import { RealtimeEvents } from './realtime-events.ts'
import { type OpenedResponses, SessionResponses } from './session-responses.ts'

/** Bytes of a message. */
const MAX_MESSAGE = 16 * 1024 * 1024

/** ms in which a peer answers a close frame. */
const CLOSING = 2_000

export type OpenedSession = OpenedResponses & {
  readonly gateway: CallDeps
  readonly call: RunningCall
  readonly socket: SocketWriter
  readonly routed: Routed<PreparedRealtime>
  /** Where the bytes of the client are written. */
  readonly upstream: OngoingCall
  /** ms after which a client that reads nothing is disconnected; 0: never. */
  readonly clientWrite: number
}

export class RealtimeSession extends SettledAnswer implements Sink<readonly StreamStep[]> {
  readonly #opened: OpenedSession
  readonly #fromClient = new FrameReader(true, MAX_MESSAGE, null)
  readonly #fromUpstream: FrameReader
  readonly #responses: SessionResponses
  /** Pauses the upstream until the client has read what was written. */
  readonly #pace: ClientPace
  /** The client has received whole messages, so that one of the gateway may follow. */
  #isBetween = true
  /** Bytes of the upstream are being read, and not written yet. */
  #isReading = false
  /** Ends when the response in progress is complete. */
  #isDraining = false
  /** Why the session ends at the end of the current message; null: it does not. */
  #ending: SessionEnd | null = null
  #isOver = false
  /** Cancels the time of a peer to answer a close frame, or to complete a message before the end. */
  #closeTimeout: Cancel | null = null

  constructor(opened: OpenedSession) {
    super()
    this.#opened = opened
    const { gateway, socket, clientWrite, routed } = opened
    this.#pace = new ClientPace(gateway.world, {
      responseWriter: socket,
      timeout: clientWrite,
      onDrain: () => routed.answerStream.resume(),
      onTimeout: (failure) => this.#end({ failure }),
    })
    this.#responses = new SessionResponses(opened, (failure) => this.#end({ failure }))
    this.#fromUpstream = new FrameReader(false, MAX_MESSAGE, new RealtimeEvents(this.#responses))
  }

  /** Answers the upgrade, and relays. */
  begin(): void {
    const { call, socket, routed } = this.#opened
    const { cancellation, recorder } = call
    cancellation.onCancel((reason) => this.#end({ failure: reason }))
    if (this.#isOver) return
    recorder.answeredBy(routed)
    recorder.responseStarted = true
    socket.writeHead(SWITCHED, recorder.headers())
    socket.onBytes((bytes) => this.#readClient(bytes))
    socket.onDraining(() => this.#drain())
    if (!this.#isOver) routed.answerStream.pipeTo(this)
  }

  // ── Bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Returns whether the upstream has room. */
  #readClient(bytes: Uint8Array): boolean {
    if (this.#isOver) return true
    const problem = this.#fromClient.push(bytes)
    if (problem) this.#end({ failure: invalid(problem, 'invalid_request'), code: problem.code })
    if (problem || this.#isOver) return true
    const hasRoom = this.#write(bytes)
    if (this.#fromClient.isClosed) this.#awaitClose()
    return hasRoom
  }

  #write(bytes: Uint8Array): boolean {
    const { upstream, socket } = this.#opened
    return upstream.write?.(bytes, () => socket.resume()) ?? true
  }

  /** Returns whether the client has room. */
  push(steps: readonly StreamStep[]): boolean {
    let hasRoom = true
    for (const { frame } of steps) {
      const raw = frame?.raw
      if (raw instanceof Uint8Array && raw.length > 0 && !this.#isOver) hasRoom = this.#readUpstream(raw) && hasRoom
    }
    return hasRoom
  }

  #readUpstream(bytes: Uint8Array): boolean {
    this.#isReading = true
    const problem = this.#fromUpstream.push(bytes)
    this.#isReading = false
    if (problem) {
      this.#cut({ failure: invalid(problem, 'malformed'), code: problem.code })
      return true
    }
    const hasRoom = this.#opened.socket.write(bytes)
    if (!hasRoom) this.#pace.wait()
    this.#isBetween = this.#fromUpstream.isBetween
    if (this.#fromUpstream.isClosed) this.#awaitClose()
    else if (this.#ending) this.#end(this.#ending)
    else if (this.#isDraining) this.#drain()
    return hasRoom
  }

  /** The connection of the upstream has ended. */
  end(failure: Failure = GONE): void {
    if (this.#isOver) return
    if (this.#fromUpstream.isClosed) return this.#close(null)
    this.#cut(failure.kind === 'stalled' ? { failure } : { failure: { ...failure, kind: 'truncated' } })
  }

  // ── The end ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The gateway shuts down: ends at once, or after the response in progress. */
  #drain(): void {
    this.#isDraining = true
    if (!this.#responses.isBegun) this.#end({ failure: DRAINING })
  }

  /** One peer has sent its close frame: the other may answer it, for a short time. */
  #awaitClose(): void {
    if (this.#fromClient.isClosed && this.#fromUpstream.isClosed) return this.#close(null)
    this.#closeTimeout ??= this.#opened.gateway.world.later(CLOSING, () => this.#close(null))
  }

  /** Ends the session with an error event, after the message that the client is receiving. */
  #end(ending: SessionEnd): void {
    if (this.#isOver) return
    if (ending.failure.kind === 'client_gone' || (this.#isBetween && !this.#isReading)) return this.#cut(ending)
    this.#ending ??= ending
    this.#closeTimeout ??= this.#opened.gateway.world.later(CLOSING, () => this.#cut(ending))
  }

  /** Ends it now. In the middle of a message nothing can be sent. */
  #cut({ failure: cause, code }: SessionEnd): void {
    if (this.#isOver) return
    const { socket, gateway } = this.#opened
    const failure = cause.kind === 'deadline' ? TOO_OLD : cause
    if (this.#fromClient.isBetween && !this.#fromClient.isClosed) {
      const mask = Array.from({ length: 4 }, () => Math.floor(gateway.world.random() * 256))
      this.#write(closeFrame(CLOSE.away, '', mask))
    }
    if (failure.kind === 'client_gone' || !this.#isBetween) socket.abort()
    else if (!this.#fromUpstream.isClosed) {
      socket.write(textFrame(this.#errorEvent(failure)))
      socket.write(closeFrame(code ?? codeOf(failure), KINDS[failure.kind].code))
    }
    this.#close(failure)
  }

  #close(failure: Failure | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#pace.stop()
    this.#closeTimeout?.()
    this.#opened.routed.answerStream.abort()
    this.#opened.socket.end()
    this.#responses.close(failure ?? GONE)
    this.ended(failure)
  }

  protected settle(failure: Failure | null): void {
    const { call, routed } = this.#opened
    const { recorder, cancellation } = call
    cancellation.clearDeadline()
    if (!failure) routed.permit.done()
    else if (KINDS[failure.kind].side === 'upstream') routed.permit.failed(failure, recorder.id)
    else routed.permit.release()
    if (!failure) return recorder.end('answered', SWITCHED)
    recorder.end(failure.kind === 'client_gone' ? 'client_gone' : 'interrupted', SWITCHED, failure)
  }

  #errorEvent(failure: Failure): string {
    const { protocol, recorder } = this.#opened.call
    const interrupted = KINDS[failure.kind].side === 'upstream'
    const { error } = protocol.encodeFailure(failure, { requestId: recorder.id, interrupted })
    return JSON.stringify({ type: 'error', event_id: `event_${recorder.id}`, error })
  }
}

/** `code`: of the close frame; absent: that of the failure. */
type SessionEnd = { readonly failure: Failure; readonly code?: CloseCode }

const codeOf = ({ kind }: Failure): CloseCode => {
  if (kind === 'draining' || kind === 'shutdown' || kind === 'connection_age') return CLOSE.away
  return kind === 'internal' || kind === 'storage' || KINDS[kind].side === 'upstream' ? CLOSE.internal : CLOSE.policy
}

const invalid = ({ why }: FrameProblem, kind: 'invalid_request' | 'malformed'): Failure => fail(kind, why)

const GONE = fail('truncated', 'The session ended before its response did.')
const DRAINING = fail('draining', 'The gateway is shutting down. Connect again.', { retryAfter: 1_000 })
const TOO_OLD = fail('connection_age', 'This session has reached its maximum age. Open a new one.')
