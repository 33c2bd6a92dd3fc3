/** What stores use of `DatabaseSync` of `node:sqlite`. Calls block: only threads without clients use a database. */
import type { StatementSync } from 'node:sqlite'

export type SqlValue = null | number | bigint | string | Uint8Array

/** Runs a statement once for each list of values. */
export const runAll = (statement: StatementSync, rows: readonly (readonly SqlValue[])[]): void => {
  for (const values of rows) statement.run(...values)
}
