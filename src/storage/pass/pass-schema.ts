/** The schema of what passed calls have made at providers: in a file of the data folder, or in Postgres. Times are ms since 1970. */
import type { Migration } from '../sql/migrate.ts'
import type { SharedSchema } from '../sql/postgres/shared-schema.ts'
import { BATCHES, type BatchTables } from './batch-rows.ts'

export type PassTables = {
  readonly pass_object: {
    readonly instance: string
    readonly id: string
    readonly team: string
    readonly key: string
    readonly at: number
  }
} & BatchTables

const first: Migration = ({ integer, text, inKey }) => [
  `CREATE TABLE pass_object (instance ${text} NOT NULL, id ${text} NOT NULL, team ${text} NOT NULL, key ${text} NOT NULL,
    at ${integer} NOT NULL, PRIMARY KEY (instance, id)) ${inKey}`,
  'CREATE INDEX pass_object_at ON pass_object (at)',
]

export const PASS_FILE = 'pass.db'
export const PASS_SCHEMA = { file: PASS_FILE, migrations: [first, BATCHES], oldestReader: 1 }
export const SHARED_PASS: SharedSchema = { name: 'headgate_pass', versions: PASS_SCHEMA }
