/**
 * The tables of shared counters in Postgres. They are not logged: writing them costs no log and no disk flush, and a server that
 * has failed, or a standby that has taken over, has them empty, never as they were earlier. Counters begin from the ledger then.
 */
import type { SqlTypes } from '../storage/sql/column-types.ts'
import type { SharedSchema } from '../storage/sql/postgres/shared-schema.ts'

const TABLES = ({ text, integer }: SqlTypes): readonly string[] => [
  // `state`: JSON of a `LeasedSum`, empty: not begun. `until`: when it is deleted. Free space in its pages: no index is written.
  `CREATE UNLOGGED TABLE counter (name ${text} PRIMARY KEY, state ${text} NOT NULL, until ${integer} NOT NULL) WITH (fillfactor = 50)`,
  // The processes that lease, and the time of their last exchange.
  `CREATE UNLOGGED TABLE process (name ${text} PRIMARY KEY, at ${integer} NOT NULL) WITH (fillfactor = 50)`,
  // `id`: differs after the tables were emptied. `swept`: when a gateway has last deleted what is over.
  `CREATE UNLOGGED TABLE epoch (one ${integer} PRIMARY KEY CHECK (one = 1), id ${text} NOT NULL, swept ${integer} NOT NULL)`,
]

export const SHARED_LIMITS: SharedSchema = {
  name: 'headgate_limits',
  versions: { file: 'headgate_limits', migrations: [TABLES], oldestReader: 1 },
}
