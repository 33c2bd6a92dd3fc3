import type { Kysely } from 'kysely'
import type { SqlSyntax } from './syntax.ts'

/** A database whose queries are parts of transactions. */
export type SqlStore<Tables> = {
  readonly syntax: SqlSyntax
  /**
   * Runs a function in a transaction, which is rolled back if it throws. It has no effects but in the transaction: Postgres runs
   * it again after a deadlock. One writes at a time in SQLite.
   */
  write<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T>
  /** Each query reads a state of its own, and queries of others run between two of them. */
  readonly single: Kysely<Tables>
  /** Runs a function whose queries read one state, whatever is written meanwhile. */
  read<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T>
  close(): Promise<void>
}
