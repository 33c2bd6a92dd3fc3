/**
 * Connections to Postgres for the thread that uses them. Nothing is kept in a session, so that poolers may hand out connections
 * by transaction: settings are those of a transaction, statements have no name, and locks end with the transaction.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type PostgresValue, storable } from './array-text.ts'
import { Connections, type NoticeReceiver } from './connections.ts'
import { errorFrom } from './postgres-client.ts'
import { CLOSED, PostgresError, TIMED_OUT } from './postgres-error.ts'

export type PostgresRow = Readonly<Record<string, null | boolean | number | string | Uint8Array>>
/** `command`: such as `INSERT`. `changes`: number of rows that were changed, or returned. */
export type PostgresResult = {
  readonly command: string
  readonly rows: readonly PostgresRow[]
  readonly changes: number
}

/** A transaction. */
export type PostgresSession = {
  /**
   * Runs a statement whose placeholders are `$1`, or several without values. Queries that are not awaited one by one are sent
   * together, and answered in their order. Rejects with a `PostgresError`.
   */
  query(text: string, values?: readonly PostgresValue[]): Promise<PostgresResult>
}

export type PostgresPoolOptions = {
  readonly url: string
  /** The schema in which names without one are found. */
  readonly schema: string
  /** Connections, of all pools that share them. More transactions wait for them. */
  readonly max: number
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string
  /** ms for a statement. Default 5 s. */
  readonly statementTimeout?: number
  /** Notices that its connections receive, while there are any. */
  readonly notices?: NoticeReceiver
}

/** Placeholders are `$1`. */
export type PostgresStatement = { readonly text: string; readonly values?: readonly PostgresValue[] }

/** By default each query sees what is committed before it; all queries of `repeatable read` see the same state. */
export type TransactionOptions = {
  readonly readOnly?: boolean
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable'
}

/** ms. */
const STATEMENT_TIMEOUT = 5_000
/** Deadlocks and serialization failures: how often a transaction is tried, and the first pause in ms, which doubles. */
const RETRY = { codes: new Set(['40P01', '40001']), tries: 6, pause: 10 }

/** The pools of a thread for one database share their connections. */
export class PostgresPool {
  readonly schema: string
  readonly #connections: Connections
  readonly #notices: NoticeReceiver | undefined
  readonly #settings: string
  /** ms for an answer; longer than a statement may take: a server that works ends the statement first, and says so. */
  readonly #answerTimeout: number
  #closing: Promise<void> | null = null

  /** The first call connects. Throws a `PostgresError` if the URL cannot be read. */
  constructor({ schema, statementTimeout = STATEMENT_TIMEOUT, notices, ...options }: PostgresPoolOptions) {
    this.schema = schema
    this.#connections = Connections.of(options)
    this.#notices = notices
    if (notices) this.#connections.add(notices)
    this.#answerTimeout = statementTimeout + 1_000
    this.#settings = [
      `SET LOCAL search_path TO ${pg.escapeIdentifier(schema)}`,
      `SET LOCAL statement_timeout = ${statementTimeout}`,
      // A gateway whose host has failed in a transaction must not keep its rows locked.
      `SET LOCAL idle_in_transaction_session_timeout = ${2 * statementTimeout}`,
    ].join('; ')
  }

  /**
   * Runs a function in a transaction, which is rolled back if it throws, or if a query fails. Queries that it does not await are
   * sent together with the commit. After a deadlock or a serialization failure it runs again: it must have no effects but in the
   * transaction. Rejects with its error, or with a `PostgresError`; if that `isUncertain`, the transaction may have been committed.
   */
  transaction<T>(run: (tx: PostgresSession) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    return this.#repeated({ run, isWhole: false, options })
  }

  /**
   * Runs statements in a transaction, all in one exchange: their locks are held only while the server works. Returns the result of
   * each. They are repeated as those of `transaction`.
   */
  batch(
    statements: readonly PostgresStatement[],
    options: TransactionOptions = {},
  ): Promise<readonly PostgresResult[]> {
    const run = (tx: PostgresSession) => Promise.all(statements.map(({ text, values }) => tx.query(text, values)))
    return this.#repeated({ run, isWhole: true, options })
  }

  /** Runs one statement in a transaction of its own. */
  async query(text: string, values?: readonly PostgresValue[], options?: TransactionOptions): Promise<PostgresResult> {
    const [result] = await this.batch([{ text, ...(values && { values }) }], options)
    if (!result) throw new Error('a statement has no result')
    return result
  }

  /** Resolves when the transactions that run have ended. */
  close(): Promise<void> {
    this.#closing ??= this.#connections.leave(this.#notices)
    return this.#closing
  }

  async #repeated<T>({ run, isWhole, options }: PooledRun<T>): Promise<T> {
    if (this.#closing) throw new PostgresError({ message: '', code: CLOSED, isLost: true })
    const { readOnly = false } = options
    const rules = { begin: `${beginOf(options)}; ${this.#settings}`, timeout: this.#answerTimeout, isWhole, readOnly }
    for (let tries = 1; ; tries++) {
      const client = await this.#connections.take()
      const isOld = used.has(client)
      used.add(client)
      try {
        return await inTransaction(client, run, rules)
      } catch (error) {
        if (!(error instanceof PostgresError) || tries === RETRY.tries) throw error
        // The server has closed it while it was idle: another one may work.
        if (isOld && error.isLost && !error.isUncertain && error.code !== TIMED_OUT) continue
        if (!RETRY.codes.has(error.code ?? '')) throw error
        await sleep(Math.random() * RETRY.pause * 2 ** tries)
      }
    }
  }
}

/** Connections that have served a transaction. */
const used = new WeakSet<pg.PoolClient>()

const beginOf = ({ readOnly = false, isolation }: TransactionOptions): string =>
  `BEGIN${isolation ? ` ISOLATION LEVEL ${isolation.toUpperCase()}` : ''}${readOnly ? ' READ ONLY' : ''}`

type PooledRun<T> = {
  readonly run: (tx: PostgresSession) => Promise<T>
  /** It sends all its queries at once. */
  readonly isWhole: boolean
  readonly options: TransactionOptions
}

type TransactionRules = {
  readonly begin: string
  /** ms for an answer. */
  readonly timeout: number
  readonly isWhole: boolean
  readonly readOnly: boolean
}

/** Returns the connection to its pool, or closes it. `begin` is sent together with the first query. */
const inTransaction = async <T>(
  client: pg.PoolClient,
  run: PooledRun<T>['run'],
  { begin, timeout, isWhole, readOnly }: TransactionRules,
): Promise<T> => {
  /** Why the connection cannot be used any more. */
  let lost: PostgresError | null = null
  const failed = (error: unknown): PostgresError => {
    const found = lost ?? errorFrom(error)
    if (found.isLost) lost = found
    return found
  }
  client.on('error', failed)
  let hasEnded = false
  /** The first error of a query. */
  let problem: unknown = null
  const query = async (text: string, values: readonly PostgresValue[] = []): Promise<ServerResult> => {
    try {
      // The parsers return no other values. Several statements have several results, which are not read.
      const sent = { text, values: values.map(storable), query_timeout: timeout }
      return (await client.query(sent)) as unknown as ServerResult
    } catch (error) {
      problem ??= failed(error)
      throw failed(error)
    }
  }
  const session: PostgresSession = {
    query(text, values) {
      // One that comes after another has failed would run outside of the transaction.
      if (hasEnded) return Promise.reject(new Error('the transaction has ended'))
      const result = query(text, values).then(resultOf)
      // The transaction rejects with its error, also if it is not awaited.
      result.catch(() => {})
      return result
    },
  }
  let end: Promise<unknown> | null = null
  try {
    const sent = Promise.all([query(begin), run(session)] as const)
    sent.catch(() => {})
    if (!isWhole) await sent
    hasEnded = true
    end = commit(query)
    end.catch(() => {})
    // Its error is the reason where the end fails too.
    const [, result] = await sent
    await end
    return result
  } catch (error) {
    hasEnded = true
    if (end === null && lost === null) await query('ROLLBACK').catch(() => {})
    await end?.catch(() => {})
    if (end === null) throw error
    // All that was sent fails with a lost connection, and its first error is the reason.
    throw lost === null || readOnly ? (problem ?? error) : uncertain(lost)
  } finally {
    client.off('error', failed)
    client.release(lost ?? undefined)
  }
}

/** Nothing was sent over a connection that the other end had closed before. */
const uncertain = (error: PostgresError): PostgresError => (error.code === 'EPIPE' ? error : error.asUncertain())

type ServerResult = {
  readonly command: string
  readonly rows: readonly PostgresRow[]
  readonly rowCount: number | null
}

const resultOf = ({ command, rows = [], rowCount }: ServerResult): PostgresResult => ({
  command,
  rows,
  changes: rowCount ?? 0,
})

const commit = async (query: (text: string) => Promise<ServerResult>): Promise<void> => {
  const { command } = await query('COMMIT')
  if (command !== 'COMMIT')
    throw new PostgresError({ message: 'a statement of the transaction has failed', code: '25P02', isLost: false })
}
