/**
 * The tables of shared counters in Postgres. They are not logged: writing them costs no log and no disk flush, and a server that
 * has failed, or a standby that has taken over, has them empty, never as they were earlier. Counters begin from the ledger then.
 */
import { POSTGRES_TYPES, type SqlTypes } from '../storage/sql/column-types.ts'
import type { SharedSchema } from '../storage/sql/postgres/shared-schema.ts'

const TABLES = ({ text, integer }: SqlTypes): readonly string[] => [
  // `state`: JSON of a `LeasedSum`, empty: not begun. `until`: when it is deleted. Free space in its pages: no index is written.
  `CREATE UNLOGGED TABLE IF NOT EXISTS counter (name ${text} PRIMARY KEY, state ${text} NOT NULL, until ${integer} NOT NULL) WITH (fillfactor = 50)`,
  // The processes that lease, and the time of their last exchange.
  `CREATE UNLOGGED TABLE IF NOT EXISTS process (name ${text} PRIMARY KEY, at ${integer} NOT NULL) WITH (fillfactor = 50)`,
  // `id`: differs after the tables were emptied. `swept`: when a gateway has last deleted what is over.
  `CREATE UNLOGGED TABLE IF NOT EXISTS epoch (one ${integer} PRIMARY KEY CHECK (one = 1), id ${text} NOT NULL, swept ${integer} NOT NULL)`,
]

/** Some services drop such tables after a failover. They can be created again, as nothing in them is lost. */
export const LIMIT_TABLES: readonly string[] = ['counter', 'process', 'epoch']

/** Creates those that are missing, in one transaction. */
export const CREATE_LIMIT_TABLES: readonly string[] = [
  "SELECT pg_advisory_xact_lock(hashtext('headgate migrate'))",
  ...TABLES(POSTGRES_TYPES),
]

export const SHARED_LIMITS: SharedSchema = {
  name: 'headgate_limits',
  versions: { file: 'headgate_limits', migrations: [TABLES], oldestReader: 1 },
}
