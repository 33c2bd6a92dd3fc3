/** The interface between calls and the connections that carry them, independent of the HTTP client. */

import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Destination } from './connect.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** One connection, used by one call at a time. It connects when it is first used. */
export type UpstreamConnection = {
  /** Sends a request. Only a failure may be reported before this returns. */
  send(message: OutgoingCall, listener: ConnectionListener): void
  /** Reports that no bytes followed the last response, so that a request passed since then can be sent. */
  settled(): void
  /** Continues reading after a pause. */
  resume(): void
  /** Sends bytes after the status 101, and may keep them. False: `drained` is called later. Absent: it cannot change protocols. */
  write?(bytes: Uint8Array, drained: () => void): boolean
  /** Ends the connection in any state, without calling its listener. */
  drop(): void
  /** Ends the connection and fails its call. Resolves when it is closed. */
  close(): Promise<void>
}

/** Receives one response: `head`, `bytes`, then one of `end` and `broke`. */
export type ConnectionListener = {
  head(status: number, headers: HeaderLookup): void
  /** The chunk is valid during the call only. Returning false pauses until `resume`. */
  bytes(chunk: Uint8Array): boolean
  /** The response is complete. The connection is back in its pool, or has ended. */
  end(): void
  /**
   * The connection has ended. `stale`: it had been used before, and was closed before the first byte of this response. A
   * server may close an idle connection at any time.
   */
  broke(failure: Failure, stale: boolean): void
}

/** Keeps idle connections for reuse. */
export type ConnectionPool = {
  /** Takes back a reusable connection. `idleTimeout`: seconds its server keeps it, if stated. */
  release(connection: UpstreamConnection, idleTimeout: number | undefined): void
  /** Removes a connection that has ended. */
  remove(connection: UpstreamConnection): void
}

/** Creates a connection to a destination. `keepAlive`: maximum idle time in ms. */
export type OpenConnection = (destination: Destination, pool: ConnectionPool, keepAlive: number) => UpstreamConnection
