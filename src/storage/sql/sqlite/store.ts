/** Kysely over `node:sqlite`, for threads without clients: a query blocks its thread. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
  type TransactionSettings,
} from 'kysely'
import type { SqlStore } from '../store.ts'
import type { SqlSyntax } from '../syntax.ts'

const SQLITE: SqlSyntax = {
  among: (value, texts) => sql`${value} IN (SELECT value FROM json_each(${JSON.stringify(texts)}))`,
  member: (json, name) => sql`json_extract(${json}, ${`$.${name}`})`,
  hasPair: (json, name, pairs) =>
    sql`EXISTS (SELECT 1 FROM json_each(${json}, ${`$.${name}`}) AS found JOIN json_each(${JSON.stringify(pairs)}) AS pair
      ON found.key = json_extract(pair.value, '$[0]') AND found.value = json_extract(pair.value, '$[1]'))`,
  contains: (text, part) => sql`instr(${text}, ${part}) > 0`,
  greater: (one, other) => sql`max(${one}, ${other})`,
  rows: (json, columns) => {
    const values = Object.keys(columns).map((name) => sql`value ->> ${sql.lit(name)} AS ${sql.ref(name)}`)
    return sql`SELECT ${sql.join(values)} FROM json_each(${json})`
  },
}

export class SqliteStore<Tables> implements SqlStore<Tables> {
  readonly syntax = SQLITE
  readonly single: Kysely<Tables>
  readonly #database: DatabaseSync

  constructor(database: DatabaseSync) {
    this.#database = database
    this.single = new Kysely<Tables>({
      dialect: {
        createAdapter: () => new SqliteAdapter(),
        createDriver: () => new SqliteDriver(database),
        createIntrospector: (db) => new SqliteIntrospector(db),
        createQueryCompiler: () => new SqliteQueryCompiler(),
      },
    })
  }

  write<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    return this.single.transaction().execute(run)
  }

  read<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    return this.single.transaction().setAccessMode('read only').execute(run)
  }

  async close(): Promise<void> {
    if (this.#database.isOpen) this.#database.close()
  }
}

class SqliteDriver implements Driver {
  readonly #database: DatabaseSync
  readonly #connection: DatabaseConnection
  /** Ends when the connection is free. A transaction has await points, at which other queries must not run. */
  #last: Promise<void> = Promise.resolve()
  #release = (): void => {}

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#connection = new SqliteConnection(database)
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

  async beginTransaction(_: DatabaseConnection, { accessMode }: TransactionSettings): Promise<void> {
    // A deferred transaction that reads first cannot wait for the lock when it writes.
    this.#database.exec(accessMode === 'read only' ? 'BEGIN' : 'BEGIN IMMEDIATE')
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

class SqliteConnection implements DatabaseConnection {
  readonly #database: DatabaseSync

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  async executeQuery<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const statement = this.#database.prepare(text)
    const values = parameters as SQLInputValue[]
    // The caller of a typed query states its row type.
    if (statement.columns().length > 0) return { rows: statement.all(...values) as R[] }
    const { changes, lastInsertRowid } = statement.run(...values)
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
  }

  async *streamQuery<R>({ sql: text, parameters }: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    for (const row of this.#database.prepare(text).iterate(...(parameters as SQLInputValue[])))
      yield { rows: [row as R] }
  }
}
