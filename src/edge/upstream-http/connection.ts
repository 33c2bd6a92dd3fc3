/** What a connection is to the calls that use it, whoever speaks HTTP on it. */

import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Destination } from './connect.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** One connection, used by one call at a time. It makes itself when it is first used. */
export type Connection = {
  /** Nothing is told before this has returned, save failures. */
  send(message: OutgoingCall, hears: ConnectionListener): void
  /** Nothing came behind its last answer: what has been given it to send since then may go. */
  settled(): void
  /** There is room again for what comes. */
  resume(): void
  /** Ends the connection, whatever its state. Its call hears nothing more. */
  drop(): void
  /** Ends the connection; its call is told. Resolves when it is closed. */
  close(): Promise<void>
}

/** What a call hears: `head`, `bytes`, then one of `end` and `broke`. */
export type ConnectionListener = {
  head(status: number, headers: HeaderLookup): void
  /** Valid during the call only. Answering false pauses until `resume`. */
  bytes(chunk: Uint8Array): boolean
  /** The line is its owner's again, or has ended. */
  end(): void
  /** The line has ended. `stale`: it had served before and was closed before a byte of the answer came, as a server may do with an idle connection at any time. */
  broke(failure: Failure, stale: boolean): void
}

/** Who keeps lines for later. */
export type ConnectionPool = {
  /** A line that can be used again. `idle`: s its server keeps it, if it says. */
  rest(line: Connection, idle: number | undefined): void
  /** A line that has ended. */
  gone(line: Connection): void
}

/** A new line to a place. `keepAlive`: ms it may lie idle. */
export type OpenConnection = (place: Destination, keeper: ConnectionPool, keepAlive: number) => Connection
