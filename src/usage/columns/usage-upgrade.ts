/**
 * Brings a `usage.db` of the weeks before the first release to the present tables. Such a file has version 1 as well, so each
 * part is changed only if it lacks what was added. Added columns have defaults: rows without a route or kind of client.
 */
import { type Kysely, sql } from 'kysely'
import { type BudgetCharge, budgetCharge } from '../../core/journal.ts'
import { callNumber } from '../journal/segment-files.ts'

type AnyDatabase = Kysely<unknown>

/** A rebuilt table: its statement, and what the new columns contain. */
export type RebuiltTable = {
  readonly table: string
  readonly create: string
  /** Columns that are copied, and those that are added, empty. */
  readonly kept: readonly string[]
  readonly added: readonly string[]
}

const hasColumn = async (db: AnyDatabase, table: string, column: string): Promise<boolean> => {
  const { rows } = await sql`SELECT 1 FROM pragma_table_info(${table}) WHERE name = ${column}`.execute(db)
  return rows.length > 0
}

/** Primary keys have more columns now, which SQLite cannot change in place. */
const rebuild = async (db: AnyDatabase, { table, create, kept, added }: RebuiltTable): Promise<void> => {
  const [first = ''] = added
  if (await hasColumn(db, table, first)) return
  const columns = [...kept, ...added].join(', ')
  const values = [...kept, ...added.map(() => "''")].join(', ')
  for (const statement of [
    `ALTER TABLE ${table} RENAME TO earlier_${table}`,
    create,
    `INSERT INTO ${table} (${columns}) SELECT ${values} FROM earlier_${table}`,
    `DROP TABLE earlier_${table}`,
  ])
    await sql.raw(statement).execute(db)
}

/** JSON of `OpenedColumn`: charges were objects, and there was neither route nor client. */
type EarlierOpened = {
  readonly process: string
  readonly call: number
  readonly ended: number | null
  readonly charges: readonly (BudgetCharge | { readonly counter: string; readonly periodStart: number })[]
  readonly route?: string | null
  readonly client?: string | null
}
type UnfinishedRow = {
  readonly started: number
  readonly request: string
  readonly n: number
  readonly opened: string
}

/** What attempts of unfinished requests continue from. */
const upgradeUnfinished = async (db: AnyDatabase): Promise<void> => {
  const { rows } = await sql<UnfinishedRow>`SELECT started, request, n, opened FROM attempt
    WHERE opened IS NOT NULL`.execute(db)
  for (const { started, request, n, opened } of rows) {
    // Only this program writes the column.
    const earlier = JSON.parse(opened) as EarlierOpened
    const charges = earlier.charges.map((charge) =>
      typeof charge === 'string' ? charge : budgetCharge(charge.counter, charge.periodStart),
    )
    const present = { ...earlier, charges, route: earlier.route ?? null, client: earlier.client ?? null }
    const call = callNumber(earlier.process, earlier.call)
    await sql`UPDATE attempt SET call = ${call}, opened = ${JSON.stringify(present)}
      WHERE started = ${started} AND request = ${request} AND n = ${n}`.execute(db)
    await sql`UPDATE request SET call = ${call} WHERE id = ${request} AND received = ${earlier.ended}`.execute(db)
  }
}

/** Adds what the tables lack. A file with the present tables is not changed. */
export const upgradeTables = async (db: AnyDatabase, tables: readonly RebuiltTable[]): Promise<void> => {
  for (const table of tables) await rebuild(db, table)
  if (!(await hasColumn(db, 'request', 'client')))
    await sql.raw('ALTER TABLE request ADD COLUMN client TEXT').execute(db)
  if (await hasColumn(db, 'attempt', 'call')) return
  for (const table of ['request', 'attempt'])
    await sql.raw(`ALTER TABLE ${table} ADD COLUMN call INTEGER NOT NULL DEFAULT 0`).execute(db)
  await upgradeUnfinished(db)
}
