/** Kysely over a pool: each transaction has a `Kysely` of its own. */
import { Kysely, PostgresDialect, type PostgresPoolClient } from 'kysely'
import type { SqlStore } from '../store.ts'
import type { PostgresPool, PostgresSession, PostgresValue } from './pool.ts'
import { POSTGRES } from './syntax.ts'

export class PostgresStore<Tables> implements SqlStore<Tables> {
  readonly syntax = POSTGRES
  readonly #pool: PostgresPool

  constructor(pool: PostgresPool) {
    this.#pool = pool
  }

  write<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    return this.#pool.transaction((tx) => run(queriesOf(tx)))
  }

  read<T>(run: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    return this.#pool.transaction((tx) => run(queriesOf(tx)), { readOnly: true, isolation: 'repeatable read' })
  }

  close(): Promise<void> {
    return this.#pool.close()
  }
}

/** Queries of a transaction. */
const queriesOf = <Tables>(tx: PostgresSession): Kysely<Tables> => {
  const client = {
    async query(text: string, values: readonly PostgresValue[]) {
      const { command, rows, changes } = await tx.query(text, values)
      return { command, rows, rowCount: changes }
    },
    release() {},
  }
  // Kysely calls it with texts and their values alone: there are no streams.
  const pool = { options: {}, connect: async () => client as unknown as PostgresPoolClient, end: async () => {} }
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}
