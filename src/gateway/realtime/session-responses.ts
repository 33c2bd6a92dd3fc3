/** The responses of a session, one after the other: each is reserved when the one before it is complete. */
import { type Failure, fail } from '../../core/failure.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import type { RecorderDeps } from '../call/recorder.ts'
import type { RealtimeListener, StatedUsage } from './realtime-events.ts'
import { type RealtimeFacts, RealtimeResponse } from './realtime-response.ts'

export type OpenedResponses = {
  readonly gateway: RecorderDeps
  readonly call: Pick<RunningCall, 'recorder'>
  readonly session: RealtimeFacts
  /** The reserved first response. */
  readonly first: RealtimeResponse
}

export class SessionResponses implements RealtimeListener {
  readonly #opened: OpenedResponses
  /** Ends the session: no further response may begin. */
  readonly #end: (failure: Failure) => void
  #count = 1
  /** The response in progress, or the next one; a promise while it waits for its reservation. Null: none may begin. */
  #response: Eventual<RealtimeResponse | null>
  #isClosed = false

  constructor(opened: OpenedResponses, end: (failure: Failure) => void) {
    this.#opened = opened
    this.#response = opened.first
    this.#end = end
  }

  /** A response is in progress. */
  get isBegun(): boolean {
    return !(this.#response instanceof Promise) && this.#response?.isBegun === true
  }

  onBegun(): void {
    this.#withResponse((response) => {
      void response.begin()?.then((isRecorded) => isRecorded || this.#end(UNRECORDED))
      return response
    })
  }

  onUsage(usage: StatedUsage, model: string | null): void {
    this.#withResponse((response) =>
      whenKnown(response.complete(usage, model), () => (this.#isClosed ? null : this.#next())),
    )
  }

  /** The session has ended. */
  close(failure: Failure): void {
    this.#isClosed = true
    this.#withResponse((response) => whenKnown(response.interrupt(failure), () => null))
  }

  /** In the order of the events, also while a reservation is awaited. */
  #withResponse(use: (response: RealtimeResponse) => Eventual<RealtimeResponse | null>): void {
    const used = whenKnown(this.#response, (response) => response && use(response))
    this.#response = used instanceof Promise ? this.#settled(used) : used
  }

  #settled(used: Promise<RealtimeResponse | null>): Promise<RealtimeResponse | null> {
    const settled = used.catch((error) => {
      const { gateway, call } = this.#opened
      gateway.emit({ event: 'error', id: call.recorder.id, error })
      this.#end(INTERNAL)
      return null
    })
    void settled.then((response) => {
      if (this.#response === settled) this.#response = response
    })
    return settled
  }

  /** Reserves for the next response. Null: the session ends. */
  #next(): Eventual<RealtimeResponse | null> {
    const { gateway, session } = this.#opened
    const response = new RealtimeResponse(gateway, session, ++this.#count)
    return whenKnown(response.reserve(), (failure) => {
      if (!failure) return response
      this.#end(failure)
      return null
    })
  }
}

const UNRECORDED = fail('storage', 'The usage of this session cannot be recorded at the moment. Connect again later.')
const INTERNAL = fail('internal', 'Internal gateway error. See the gateway log for this request ID.')
