/** Kysely's dialects for databases whose queries run to their end at once; only threads without clients use them. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import type { SqlDatabase, SqlValue } from './database.ts'
import { PostgresDatabase } from './postgres/database.ts'

/** `Kysely.destroy` leaves the database open: its owner closes it. */
export const dialectOf = (database: DatabaseSync | PostgresDatabase): Dialect =>
  database instanceof PostgresDatabase
    ? {
        createAdapter: () => new PostgresAdapter(),
        createDriver: () => new BlockingDriver(database, new PostgresConnection(database)),
        createIntrospector: (db) => new PostgresIntrospector(db),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      }
    : {
        createAdapter: () => new NodeSqliteAdapter(),
        createDriver: () => new BlockingDriver(database, new NodeSqliteConnection(database)),
        createIntrospector: (db) => new SqliteIntrospector(db),
        createQueryCompiler: () => new SqliteQueryCompiler(),
      }

/** With it a migration that fails leaves nothing, and two processes migrate one after the other. */
class NodeSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

class BlockingDriver implements Driver {
  readonly #database: SqlDatabase
  readonly #connection: DatabaseConnection
  /** Ends when the connection is free. A transaction has await points, at which other queries must not run. */
  #last: Promise<void> = Promise.resolve()
  #release = (): void => {}

  constructor(database: SqlDatabase, connection: DatabaseConnection) {
    this.#database = database
    this.#connection = connection
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    const before = this.#last
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#last = promise
    await before
    this.#release = resolve
    return this.#connection
  }

  async releaseConnection(): Promise<void> {
    this.#release()
  }

  async beginTransaction(): Promise<void> {
    // A deferred transaction that reads first cannot wait for the lock when it writes.
    this.#database.exec('BEGIN IMMEDIATE')
  }

  async commitTransaction(): Promise<void> {
    this.#database.exec('COMMIT')
  }

  async rollbackTransaction(): Promise<void> {
    // On a full disk SQLite has rolled back already.
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
  }

  async destroy(): Promise<void> {}
}

class NodeSqliteConnection implements DatabaseConnection {
  readonly #database: DatabaseSync

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const statement = this.#database.prepare(sql)
    const values = parameters as SQLInputValue[]
    // The caller of a typed query states its row type.
    if (statement.columns().length > 0) return { rows: statement.all(...values) as R[] }
    const { changes, lastInsertRowid } = statement.run(...values)
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
  }

  async *streamQuery<R>({ sql, parameters }: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    for (const row of this.#database.prepare(sql).iterate(...(parameters as SQLInputValue[])))
      yield { rows: [row as R] }
  }
}

class PostgresConnection implements DatabaseConnection {
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { rows, changes } = this.#database.query(sql, parameters as SqlValue[])
    // The caller of a typed query states its row type.
    return { rows: rows as R[], numAffectedRows: BigInt(changes) }
  }

  /** The result is read at once: queries have limits. */
  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query)
  }
}
