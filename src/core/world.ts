import type { EncodedText } from './encoded-text.ts'
import type { Failure } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Identity } from './provider.ts'
import type { TurnScheduler } from './steps.ts'

/** Everything the middle needs from outside: time, chance, timers, the way upstream. An argument, never ambient. */
export type World = {
  /** ms, monotonic, of no particular origin. */
  readonly now: () => number
  /** ms since 1970. */
  readonly date: () => number
  /** In [0, 1). */
  readonly random: () => number
  /** Runs once after so many ms unless cancelled first. */
  readonly later: (ms: number, run: () => void) => Cancel
  /** Runs one piece of heavy work in its own turn of the event loop: one piece per turn, across all requests. */
  readonly turn: TurnScheduler
  readonly dial: Dial
}

export type Cancel = () => void

/** Starts a call upstream. Never throws: whatever goes wrong reaches `failed`. */
export type Dial = (call: UpstreamCall, listener: UpstreamListener) => OngoingCall

export type UpstreamCall = {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** The same, where its bytes are at hand. */
  readonly source?: EncodedText
  /** Signed in by this machine's identity before it is sent; credentials that cannot be had are an `auth` failure, unsent. */
  readonly identity?: Identity
  /** ms to be connected in, TLS included; 0 is without limit. */
  readonly connectTimeout: number
  /**
   * It is sent once and never again: on a connection of its own, since a kept one may be dead, and whoever then sends
   * again does not know what had been read.
   */
  readonly once?: true
  /** Its answer is kept in memory until it is whole, a stream too. */
  readonly buffered?: true
  /** Whose share of memory its answer takes. */
  readonly client?: string
}

/** `head` once, then `bytes` any number of times, then exactly one of `end` and `failed`; nothing after `abort`. */
export type UpstreamListener = {
  onHeaders(status: number, headers: HeaderLookup): void
  /** The chunk is valid only during the call. Answering false pauses until `resume`. */
  onBody(chunk: Uint8Array): boolean
  onEnd(): void
  /** The way there, or back, broke: `refused`, `dns`, `connect_timeout`, `tls`, `reset`, `not_http`. */
  onFailure(failure: Failure): void
  /** `true`: reading has stopped here, for memory or for time; the upstream's silence is ours until `false`, `end` or `failed`. */
  onPaused?(stopped: boolean): void
}

export type OngoingCall = {
  /** Ends it now, whatever its state; the listener hears nothing more. */
  abort(): void
  resume(): void
}
