/**
 * Tables of `control.db`. Times are ms since 1970. Secrets are stored as digests only. Records of all kinds share one table:
 * lists, filters, revisions and the merge with headgate.yaml are the same for each.
 */
import type { Generated } from 'kysely'
import type { Migration } from 'kysely/migration'
import { FULL_ACCESS, NO_LIMITS } from '../../core/accounts.ts'
import { migrationOf } from '../../storage/sql/migrate.ts'

export type ControlTables = {
  readonly record: RecordRow
  readonly secret: SecretRow
  readonly key_use: KeyUseRow
  readonly decision: DecisionRow
  readonly audit: AuditRow
  readonly audit_range: AuditRangeRow
  readonly once: OnceRow
  readonly change: ChangeTable
  readonly login: LoginRow
  /** Temporary: the records of headgate.yaml. */
  readonly file_record: RecordRow
  /** Temporary view: records of the file, and those of the database that the file does not replace. */
  readonly any_record: RecordRow & { readonly managed: 'file' | 'api'; readonly last_used: number | null }
}

/** A team, key, budget, price rule or admin token. */
export type RecordRow = {
  readonly id: string
  /** `team`, `key`, `budget`, `price` or `token`. */
  readonly kind: string
  /** The ID of a key's team; empty for other kinds. */
  readonly team: string
  /** Unique for its kind and team, unless it is revoked or deleted. */
  readonly name: string
  readonly status: string
  readonly expires: number | null
  /** JSON of the body that created it, with all defaults and later changes. */
  readonly doc: string
  /** Rises with each change. */
  readonly rev: number
  readonly created: number
  /** The name of the actor. */
  readonly created_by: string
  readonly changed: number
}

/** A secret of a key or an admin token. */
export type SecretRow = {
  readonly digest: string
  readonly owner: string
  readonly last4: string
  readonly created: number
  readonly until: number | null
}

/** The last use of a key, to the hour. Keys of the file have one too. */
type KeyUseRow = { readonly id: string; readonly hour: number }

/** An operator's decision about a provider credential or a circuit. */
export type DecisionRow = {
  readonly kind: string
  readonly id: string
  readonly state: string
  readonly until: number | null
  readonly reason: string
  readonly actor: string
  readonly at: number
}

/** One change. `hash` covers the row and `previous`, the hash of the row before. */
export type AuditRow = {
  readonly seq: number
  readonly id: string
  readonly at: number
  /** JSON. */
  readonly actor: string
  /** The address of the client. */
  readonly source: string | null
  readonly action: string
  readonly object: string
  /** JSON: `before`, `after`, `request_id`. */
  readonly doc: string
  readonly previous: string
  readonly hash: string
}

/** The range of retained audit rows: the hash before the first, and the last. Missing rows at either end are found with it. */
type AuditRangeRow = {
  readonly id: number
  readonly first_seq: number
  readonly first_previous: string
  readonly last_seq: number
  readonly last_hash: string
}

/** The answer to an `Idempotency-Key`, without secrets. `print`: a digest of the request. */
type OnceRow = {
  readonly key: string
  readonly print: string
  readonly status: number
  readonly answer: string
  readonly at: number
}

/** What other processes read on from. */
type ChangeTable = { readonly seq: Generated<number>; readonly kind: string; readonly id: string; readonly at: number }

/** A session of a browser. `digest`: of the value of its cookie; `actor`: JSON. */
type LoginRow = { readonly digest: string; readonly actor: string; readonly csrf: string; readonly until: number }

const RECORD = `id TEXT PRIMARY KEY, kind TEXT NOT NULL, team TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
  expires INTEGER, doc TEXT NOT NULL, rev INTEGER NOT NULL, created INTEGER NOT NULL, created_by TEXT NOT NULL,
  changed INTEGER NOT NULL`

const DEFAULT_TEAM_DOC = JSON.stringify({
  name: 'default',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  cache: null,
  tags: {},
})

const FIRST = [
  `CREATE TABLE record (${RECORD})`,
  "CREATE UNIQUE INDEX record_name ON record (kind, team, name) WHERE status <> 'revoked'",
  `CREATE TABLE secret (digest TEXT PRIMARY KEY, owner TEXT NOT NULL, last4 TEXT NOT NULL, created INTEGER NOT NULL,
    until INTEGER) WITHOUT ROWID`,
  'CREATE INDEX secret_owner ON secret (owner)',
  'CREATE TABLE key_use (id TEXT PRIMARY KEY, hour INTEGER NOT NULL) WITHOUT ROWID',
  `CREATE TABLE decision (kind TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, until INTEGER, reason TEXT NOT NULL,
    actor TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID`,
  `CREATE TABLE audit (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at INTEGER NOT NULL, actor TEXT NOT NULL, source TEXT,
    action TEXT NOT NULL, object TEXT NOT NULL, doc TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)`,
  'CREATE INDEX audit_object ON audit (object, seq)',
  `CREATE TABLE audit_range (id INTEGER PRIMARY KEY CHECK (id = 1), first_seq INTEGER NOT NULL,
    first_previous TEXT NOT NULL, last_seq INTEGER NOT NULL, last_hash TEXT NOT NULL)`,
  "INSERT INTO audit_range VALUES (1, 1, '', 0, '')",
  `CREATE TABLE once (key TEXT PRIMARY KEY, print TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL,
    at INTEGER NOT NULL) WITHOUT ROWID`,
  'CREATE INDEX once_at ON once (at)',
  `INSERT INTO record VALUES ('team_default', 'team', '', 'default', 'active', NULL, '${DEFAULT_TEAM_DOC}', 1,
    CAST(unixepoch('subsec') * 1000 AS INTEGER), 'headgate', 0)`,
  'CREATE TABLE change (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL)',
]

const SECOND = [
  `CREATE TABLE login (digest TEXT PRIMARY KEY, actor TEXT NOT NULL, csrf TEXT NOT NULL, until INTEGER NOT NULL)
    WITHOUT ROWID`,
  'CREATE INDEX login_until ON login (until)',
]

const THIRD = [
  'DROP INDEX record_name',
  "CREATE UNIQUE INDEX record_name ON record (kind, team, name) WHERE status <> 'revoked' AND status <> 'deleted'",
]

/** Raw SQL: kysely's schema builder has no `WITHOUT ROWID`. */
export const CONTROL_MIGRATIONS: readonly Migration[] = [FIRST, SECOND, THIRD].map(migrationOf)

/** For each connection. The file's records have a table of their own, so that lists sort and filter all records in SQL. */
export const TEMPORARY = `
  CREATE TEMP TABLE file_record (${RECORD});
  CREATE TEMP VIEW any_record AS
    SELECT one.*, hour AS last_used FROM (
      SELECT *, 'file' AS managed FROM file_record
      UNION ALL
      SELECT *, 'api' AS managed FROM record WHERE id NOT IN (SELECT id FROM file_record)) AS one
    LEFT JOIN key_use ON key_use.id = one.id`
