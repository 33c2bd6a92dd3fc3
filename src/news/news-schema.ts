/** The tables of messages in Postgres. */
import type { SharedSchema } from '../storage/sql/postgres/shared-schema.ts'

export const NEWS_SCHEMA = 'headgate_news'

/**
 * `at` and `until`: by the clock of the server. The number of a message rises in the order in which messages are committed. A
 * gateway creates the tables while another one may do so too.
 */
const FIRST = [
  `CREATE TABLE IF NOT EXISTS message (id BIGSERIAL PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    sender TEXT NOT NULL, recipient TEXT, body TEXT NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS role (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until TIMESTAMPTZ NOT NULL,
    body TEXT)`,
]

export const SHARED_NEWS: SharedSchema = {
  name: NEWS_SCHEMA,
  versions: { file: NEWS_SCHEMA, migrations: [() => FIRST], oldestReader: 1 },
}

/** Creates the schema as `SHARED_NEWS` describes it, for a gateway that may: one message, which is one transaction. */
export const CREATE_NEWS = [
  "SELECT pg_advisory_xact_lock(hashtext('headgate migrate'))",
  `CREATE SCHEMA IF NOT EXISTS ${NEWS_SCHEMA}`,
  ...FIRST,
  `CREATE TABLE IF NOT EXISTS schema_version
    (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL, oldest_reader BIGINT NOT NULL)`,
  'INSERT INTO schema_version VALUES (1, 1, 1) ON CONFLICT DO NOTHING',
].join(';\n')
