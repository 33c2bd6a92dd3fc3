/** Kysely over a pool: each transaction has a `Kysely` of its own. */
import { Kysely, PostgresDialect, type PostgresPoolClient, sql } from 'kysely'
import { POSTGRES_TYPES } from '../column-types.ts'
import type { SqlStore } from '../store.ts'
import type { SqlSyntax } from '../syntax.ts'
import type { PostgresValue } from './array-text.ts'
import type { PostgresPool, PostgresSession } from './pool.ts'

const POSTGRES: SqlSyntax = {
  among: (value, texts) => sql`${value} = ANY(${texts}::text[])`,
  member: (json, name) => sql`(${json}::json ->> ${sql.lit(name)})`,
  hasPair: (json, name, pairs) => {
    const [names, values] = [0, 1].map((at) => pairs.map((pair) => pair[at]))
    return sql`EXISTS (SELECT 1 FROM json_each_text(coalesce(${json}::json -> ${sql.lit(name)}, '{}')) AS found (name, value)
      JOIN unnest(${names}::text[], ${values}::text[]) AS pair (name, value)
      ON found.name = pair.name AND found.value = pair.value)`
  },
  contains: (text, part) => sql`strpos(${text}, ${part}) > 0`,
  greater: (one, other) => sql`greatest(${one}, ${other})`,
  rows: (json, columns) => {
    const types = Object.entries<'integer' | 'text'>(columns).map(
      ([name, type]) => sql`${sql.ref(name)} ${sql.raw(POSTGRES_TYPES[type])}`,
    )
    return sql`SELECT * FROM json_to_recordset(${json}::json) AS found (${sql.join(types)})`
  },
}

export class PostgresStore<Tables> implements SqlStore<Tables> {
  readonly syntax = POSTGRES
  readonly single: Kysely<Tables>
  readonly #pool: PostgresPool

  constructor(pool: PostgresPool) {
    this.#pool = pool
    this.single = queriesOf({ query: (text, values) => pool.query(text, values, { readOnly: true }) })
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
