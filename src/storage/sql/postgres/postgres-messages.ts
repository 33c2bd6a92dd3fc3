/** Messages between a database thread, which waits, and the thread of its connection. */
import type { SqlRow, SqlValue } from '../database.ts'

export type PostgresConnectionOptions = {
  /** `postgres://user:password@host:port/name?sslmode=…` */
  readonly url: string
  /** The schema in which names without one are found. It is created with the first migration. */
  readonly schema: string
  /** ms for a statement. */
  readonly statementTimeout: number
  /** ms to connect. */
  readonly connectTimeout: number
}

/** Data of the connection's thread. `signal` is notified after each answer. */
export type ConnectionData = PostgresConnectionOptions & { readonly signal: SharedArrayBuffer }

/** `name`: the server keeps the plan of a statement with a name. */
export type PostgresCall = {
  readonly text: string
  readonly name?: string
  /** One list of values for each run; null: several statements without values. */
  readonly runs: readonly (readonly SqlValue[])[] | null
}

export type BlockingResult = {
  readonly rows: SqlRow[]
  readonly changes: number
}

/** `code`: SQLSTATE, or the code of a socket error. `isLost`: the connection cannot be used any more. */
export type PostgresProblem = {
  readonly message: string
  readonly code: string | null
  readonly isLost: boolean
  readonly isUncertain?: boolean
}

export type PostgresAnswer = { readonly results: readonly BlockingResult[] } | { readonly problem: PostgresProblem }
