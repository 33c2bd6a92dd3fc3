import type { Egress } from './egress.ts'
import type { OutgoingBody } from './encoded-text.ts'
import type { Failure } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { HttpMethod } from './pass-through.ts'
import type { Identity } from './provider.ts'
import type { TurnScheduler } from './steps.ts'
import type { StreamedBody } from './streamed-body.ts'

/** The effects the gateway needs: clock, randomness, timers and upstream calls. Always passed as an argument. */
export type World = {
  /** Monotonic time in ms with an arbitrary origin. */
  readonly now: () => number
  /** Wall clock in ms since 1970. */
  readonly date: () => number
  /** A random number in [0, 1). */
  readonly random: () => number
  /** Runs `run` once after `ms` milliseconds, unless cancelled. */
  readonly later: (ms: number, run: () => void) => Cancel
  /** Schedules one piece of heavy work: one piece per turn of the event loop, across all requests. */
  readonly turn: TurnScheduler
  readonly dial: Dial
}

export type Cancel = () => void

/** Starts an upstream call. Never throws: every error is passed to `onFailure`. */
export type Dial = (call: UpstreamCall, listener: UpstreamListener) => OngoingCall

export type UpstreamCall = {
  readonly method: HttpMethod
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Bytes: UTF-8. */
  readonly body?: OutgoingBody
  /** A body that is sent as it arrives, in place of `body`. The call uses a new connection and is never resent. */
  readonly upload?: StreamedBody | undefined
  /** The cloud identity that signs the request. Missing credentials are an unsent `auth` failure. */
  readonly identity?: Identity | undefined
  /** How a provider with settings of its own is reached. Absent: as the section `network` states. */
  readonly egress?: Egress | undefined
  /** Connect timeout in ms, including TLS; 0: no limit. */
  readonly connectTimeout: number
  /**
   * Never resent: uses a new connection, because a pooled one may be dead and a resend could execute the request twice.
   */
  readonly once?: true | undefined
  /** The whole answer is buffered in memory, even if it is a stream. */
  readonly buffered?: true | undefined
  /** The answer is passed on as it arrives, whatever its type, so that its bytes do not wait in memory. */
  readonly passed?: true | undefined
  /** The client whose memory share the answer counts towards. */
  readonly client?: string | undefined
  /** Opens a WebSocket (RFC 6455): after a status of 101 the body is what the upstream sends, and `write` sends to it. */
  readonly upgrade?: 'websocket' | undefined
}

/** Receives an upstream response: `onHeaders` once, `onBody` repeatedly, then either `onEnd` or `onFailure`. No calls after `abort`. */
export type UpstreamListener = {
  onHeaders(status: number, headers: HeaderLookup): void
  /** The chunk is valid only during the call. False pauses the response until `resume`. */
  onBody(chunk: Uint8Array): boolean
  onEnd(): void
  /** A connection error: `refused`, `dns`, `connect_timeout`, `tls`, `reset`, `not_http`. */
  onFailure(failure: Failure): void
  /** `true`: the gateway stopped reading, so silence is not the upstream's until `false`, `onEnd` or `onFailure`. */
  onPaused?(stopped: boolean): void
}

export type OngoingCall = {
  /** Aborts the call in any state. The listener is not called again. */
  abort(): void
  resume(): void
  /**
   * Sends bytes on a connection that has become a WebSocket, and may keep them. False: the upstream is slow, and `drained` is called
   * when it has read them. Absent: the connection never becomes one.
   */
  write?(bytes: Uint8Array, drained: () => void): boolean
}
