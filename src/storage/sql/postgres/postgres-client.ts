/** A connection of the client library, with what is the same for all of them. */
import pg from 'pg'
import { BAD_URL, NO_FREE_CONNECTION, PostgresError, TIMED_OUT } from './postgres-error.ts'

export type ClientOptions = {
  /** `postgres://user:password@host:port/name?sslmode=…` It contains a password: never part of a message. */
  readonly url: string
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string
}

/** ms to connect. */
const CONNECT_TIMEOUT = 2_000

/** Type OIDs that are read as numbers: int2, int4, int8, oid, float4, float8, numeric. Amounts are at most 2^53. */
const NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 26, 700, 701, 1700])
const BOOL = 16
const BYTEA = 17
const isTrue = (text: string): boolean => text === 't'
const bytesOf = (text: string): Buffer => Buffer.from(text.slice(2), 'hex')
const asText = (text: string): string => text
const getTypeParser = (oid: number) =>
  NUMBERS.has(oid) ? Number : oid === BOOL ? isTrue : oid === BYTEA ? bytesOf : asText

/**
 * Queries that are not awaited are sent together. The name of the program is the only startup parameter: poolers refuse others.
 * The constructor throws if the URL, or a file that it names, cannot be read.
 */
export class PostgresClient extends pg.Client {
  constructor({ url, applicationName }: ClientOptions) {
    const hidden = hideLibpq()
    try {
      super({
        connectionString: url,
        application_name: applicationName,
        connectionTimeoutMillis: CONNECT_TIMEOUT,
        keepAlive: true,
        types: { getTypeParser },
        pipeline: true,
      })
    } finally {
      Object.assign(process.env, hidden)
    }
    // Without a password, the library would read the file of libpq.
    this.password ??= ''
  }
}

/** Removes the variables of libpq (`PGUSER`, `PGOPTIONS`, …), which must not change what the URL says. Returns them. */
const hideLibpq = (): NodeJS.ProcessEnv => {
  const found = Object.entries(process.env).filter(([name]) => name.startsWith('PG'))
  for (const [name] of found) delete process.env[name]
  return Object.fromEntries(found)
}

/** Throws a `PostgresError` if the URL, or a file that it names, cannot be read. */
export const clientOf = (options: ClientOptions): PostgresClient => {
  try {
    return new PostgresClient(options)
  } catch {
    throw new PostgresError({ message: '', code: BAD_URL, isLost: true })
  }
}

/**
 * The error of a call. Errors of the server have a SQLSTATE of five characters; a fatal one and the classes 08 and 57P end the
 * connection. After a failover a connection to the earlier primary can only read (25006): a new one finds the new primary.
 */
export const errorFrom = (error: unknown): PostgresError => {
  if (error instanceof PostgresError) return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof pg.DatabaseError) {
    const { code = null, severity } = error
    const isLost = severity === 'FATAL' || /^(08|57P|25006|25P03)/.test(code ?? '')
    return new PostgresError({ message, code, isLost })
  }
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : codeOf(message)
  return new PostgresError({ message, code, isLost: code !== NO_FREE_CONNECTION })
}

/** The library's own errors have no code. */
const codeOf = (message: string): string | null =>
  message === 'timeout exceeded when trying to connect'
    ? NO_FREE_CONNECTION
    : /timeout/.test(message)
      ? TIMED_OUT
      : null
