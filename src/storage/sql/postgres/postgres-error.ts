/** `code`: SQLSTATE, or the code of a socket error. `isLost`: the connection cannot be used any more. */
type PostgresProblem = {
  readonly message: string
  readonly code: string | null
  readonly isLost: boolean
  readonly isUncertain?: boolean
}

/** An error of Postgres or of the connection to it. The message contains no address, user or password. */
export class PostgresError extends Error {
  /** SQLSTATE, or the code of a socket error. */
  readonly code: string | null
  /** The connection cannot be used any more. */
  readonly isLost: boolean
  /** The connection was lost while a transaction was committed. */
  readonly isUncertain: boolean

  constructor({ message, code, isLost, isUncertain = false }: PostgresProblem) {
    super(textOf(message, code, isLost))
    this.code = code
    this.isLost = isLost
    this.isUncertain = isUncertain
  }

  asUncertain(): PostgresError {
    const { message, code, isLost } = this
    return new PostgresError({ message, code, isLost, isUncertain: true })
  }
}

/** The code for a URL that the client library refuses. */
export const BAD_URL = 'BAD_URL'
/** The code for a call that has waited too long for the others of its pool. */
export const NO_FREE_CONNECTION = 'NO_FREE_CONNECTION'
/** Messages for what an operator can change. https://www.postgresql.org/docs/current/errcodes-appendix.html */
/** The code for a server that does not answer. */
export const TIMED_OUT = 'ETIMEDOUT'
/** The code for a call after the pool was closed. */
export const CLOSED = 'CLOSED'
const TEXTS: { readonly [code: string]: string } = {
  [BAD_URL]: 'DATABASE_URL, or a file that it names, cannot be read',
  [CLOSED]: 'the gateway is shutting down',
  [NO_FREE_CONNECTION]: 'all connections to Postgres are in use',
  ECONNREFUSED: 'Postgres refuses connections',
  ECONNRESET: 'the connection to Postgres was closed',
  ENOTFOUND: 'the host of DATABASE_URL was not found',
  EAI_AGAIN: 'the host of DATABASE_URL was not found',
  [TIMED_OUT]: 'Postgres cannot be reached',
  EHOSTUNREACH: 'Postgres cannot be reached',
  '25006': 'Postgres accepts no writes here; DATABASE_URL must name the primary',
  '28P01': 'Postgres refused the user or the password of DATABASE_URL',
  '28000': 'Postgres refused the user of DATABASE_URL',
  '3D000': 'the database of DATABASE_URL does not exist',
  '42501': 'the user of DATABASE_URL lacks a permission',
  '53300': 'Postgres has no connection left',
  '57P01': 'Postgres is shutting down',
  '57P03': 'Postgres is starting',
  '57014': 'Postgres did not answer in time',
}

const textOf = (message: string, code: string | null, isLost: boolean): string => {
  const known = TEXTS[code ?? '']
  if (known) return known
  // Messages of sockets and TLS may contain the address.
  return isLost ? `the connection to Postgres has failed${code ? ` (${code})` : ''}` : `Postgres: ${message}`
}
