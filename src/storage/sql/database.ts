/**
 * What stores use of a SQL database: `DatabaseSync` of `node:sqlite`, or `PostgresDatabase`, which has the same shape. So a
 * store has one program for both. Calls block: only threads without clients use a database.
 */
export type SqlValue = null | number | bigint | string | Uint8Array
export type SqlRow = Readonly<Record<string, SqlValue>>

export type SqlStatement = {
  all(...values: SqlValue[]): SqlRow[]
  get(...values: SqlValue[]): SqlRow | undefined
  run(...values: SqlValue[]): { readonly changes: number | bigint }
  iterate(...values: SqlValue[]): Iterable<SqlRow>
  /** Runs it once for each list of values. Only Postgres has it: SQLite has no round trips to save. */
  runAll?(rows: readonly (readonly SqlValue[])[]): readonly { readonly changes: number }[]
}

/** Placeholders are `?` or `?1`. `exec` runs statements without values; `BEGIN IMMEDIATE` waits for other writers. */
export type SqlDatabase = {
  readonly isTransaction: boolean
  prepare(sql: string): SqlStatement
  exec(sql: string): void
  close(): void
}

/** Runs a statement once for each list of values. Returns the number of changed rows of each. */
export const runAll = (statement: SqlStatement, rows: readonly (readonly SqlValue[])[]): readonly number[] =>
  statement.runAll
    ? statement.runAll(rows).map(({ changes }) => changes)
    : rows.map((values) => Number(statement.run(...values).changes))
