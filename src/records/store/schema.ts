/**
 * Tables of `control.db`. Times are ms since 1970. Secrets are stored as digests only. Records of all kinds share one table:
 * lists, filters, revisions and the merge with headgate.yaml are the same for each.
 */
import type { Generated } from 'kysely'
import { FULL_ACCESS, NO_LIMITS } from '../../core/accounts.ts'
import type { Migration } from '../../storage/sql/migrate.ts'

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
  readonly person: PersonRow
  readonly device: DeviceRow
  readonly sign_in: SignInRow
  readonly refresh: RefreshRow
}

/** A team, key, budget, price rule, route of a team or admin token. */
export type RecordRow = {
  readonly id: string
  /** `team`, `key`, `budget`, `price`, `route` or `token`. */
  readonly kind: string
  /** The ID of the team of a key or route; empty for other kinds. */
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

/**
 * A session of a browser. `digest`: of the value of its cookie; `actor`: JSON. `person`: the ID; null: a token began it. `sid`:
 * the session at the issuer. `doc`: JSON of `PersonLogin`.
 */
type LoginRow = {
  readonly digest: string
  readonly actor: string
  readonly csrf: string
  readonly until: number
  readonly person: string | null
  readonly sid: string | null
  readonly doc: string | null
}

/** Someone who has signed in. Issuer and subject are unique together; an e-mail address is not. */
export type PersonRow = {
  readonly id: string
  readonly issuer: string
  readonly subject: string
  /** The name of the identity provider in headgate.yaml at the last sign-in. */
  readonly provider: string
  readonly email: string | null
  readonly name: string | null
  /** JSON: the groups as the issuer stated them last. */
  readonly member_of: string
  /** `active` or `blocked`. */
  readonly status: string
  /** JSON: roles that an administrator has added to those of the groups. */
  readonly bindings: string
  readonly rev: number
  readonly created: number
  /** The last sign-in, or the last check at the issuer. */
  readonly seen: number
}

/**
 * A program that asks to sign in (RFC 8628). `digest`: of its device code. `code`: as the person types it, without the dash. `state`:
 * `pending`, `approved`, `denied`. `polled`: the last poll; `pause`: ms between two. Once the person is known: `person`, `confirm` (the
 * digest of the value that the page for the decision sends back), and `doc` (JSON of `PersonLogin`).
 */
export type DeviceRow = {
  readonly digest: string
  readonly code: string
  readonly client: string
  readonly address: string
  readonly state: string
  readonly created: number
  readonly until: number
  readonly polled: number | null
  readonly pause: number
  readonly person: string | null
  readonly confirm: string | null
  readonly doc: string | null
}

/** The sign-in of a program. `used`: its last refresh. `doc`: JSON of `PersonLogin`. */
export type SignInRow = {
  readonly id: string
  readonly person: string
  readonly client: string
  readonly address: string
  readonly created: number
  readonly used: number
  readonly until: number
  readonly doc: string
}

/** A refresh token of a sign-in. `used`: when it was used first; null: it is the newest. */
export type RefreshRow = {
  readonly digest: string
  readonly sign_in: string
  readonly created: number
  readonly used: number | null
}

const DEFAULT_TEAM_DOC = JSON.stringify({
  name: 'default',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  cache: null,
  tags: {},
})

const first: Migration = ({ integer, text, serial, inKey, now }) => [
  `CREATE TABLE record (id ${text} PRIMARY KEY, kind ${text} NOT NULL, team ${text} NOT NULL, name ${text} NOT NULL,
    status ${text} NOT NULL, expires ${integer}, doc ${text} NOT NULL, rev ${integer} NOT NULL, created ${integer} NOT NULL,
    created_by ${text} NOT NULL, changed ${integer} NOT NULL)`,
  "CREATE UNIQUE INDEX record_name ON record (kind, team, name) WHERE status <> 'revoked'",
  `CREATE TABLE secret (digest ${text} PRIMARY KEY, owner ${text} NOT NULL, last4 ${text} NOT NULL, created ${integer} NOT NULL,
    until ${integer}) ${inKey}`,
  'CREATE INDEX secret_owner ON secret (owner)',
  `CREATE TABLE key_use (id ${text} PRIMARY KEY, hour ${integer} NOT NULL) ${inKey}`,
  `CREATE TABLE decision (kind ${text} NOT NULL, id ${text} NOT NULL, state ${text} NOT NULL, until ${integer},
    reason ${text} NOT NULL, actor ${text} NOT NULL, at ${integer} NOT NULL, PRIMARY KEY (kind, id)) ${inKey}`,
  `CREATE TABLE audit (seq ${integer} PRIMARY KEY, id ${text} NOT NULL, at ${integer} NOT NULL, actor ${text} NOT NULL,
    source ${text}, action ${text} NOT NULL, object ${text} NOT NULL, doc ${text} NOT NULL, previous ${text} NOT NULL,
    hash ${text} NOT NULL)`,
  'CREATE INDEX audit_object ON audit (object, seq)',
  `CREATE TABLE audit_range (id ${integer} PRIMARY KEY CHECK (id = 1), first_seq ${integer} NOT NULL,
    first_previous ${text} NOT NULL, last_seq ${integer} NOT NULL, last_hash ${text} NOT NULL)`,
  "INSERT INTO audit_range VALUES (1, 1, '', 0, '')",
  `CREATE TABLE once (key ${text} PRIMARY KEY, print ${text} NOT NULL, status ${integer} NOT NULL, answer ${text} NOT NULL,
    at ${integer} NOT NULL) ${inKey}`,
  'CREATE INDEX once_at ON once (at)',
  `INSERT INTO record VALUES ('team_default', 'team', '', 'default', 'active', NULL, '${DEFAULT_TEAM_DOC}', 1, ${now},
    'headgate', 0)`,
  `CREATE TABLE change (seq ${serial}, kind ${text} NOT NULL, id ${text} NOT NULL, at ${integer} NOT NULL)`,
]

const second: Migration = ({ integer, text, inKey }) => [
  `CREATE TABLE login (digest ${text} PRIMARY KEY, actor ${text} NOT NULL, csrf ${text} NOT NULL, until ${integer} NOT NULL)
    ${inKey}`,
  'CREATE INDEX login_until ON login (until)',
]

const third: Migration = () => [
  'DROP INDEX record_name',
  "CREATE UNIQUE INDEX record_name ON record (kind, team, name) WHERE status <> 'revoked' AND status <> 'deleted'",
]

const fourth: Migration = ({ integer, text }) => [
  `CREATE TABLE person (id ${text} PRIMARY KEY, issuer ${text} NOT NULL, subject ${text} NOT NULL, provider ${text} NOT NULL,
    email ${text}, name ${text}, member_of ${text} NOT NULL, status ${text} NOT NULL, bindings ${text} NOT NULL,
    rev ${integer} NOT NULL, created ${integer} NOT NULL, seen ${integer} NOT NULL)`,
  'CREATE UNIQUE INDEX person_identity ON person (issuer, subject)',
  'CREATE INDEX person_seen ON person (seen, id)',
  `ALTER TABLE login ADD COLUMN person ${text}`,
  `ALTER TABLE login ADD COLUMN sid ${text}`,
  `ALTER TABLE login ADD COLUMN doc ${text}`,
  'CREATE INDEX login_person ON login (person)',
]

const fifth: Migration = ({ integer, text, inKey }) => [
  `CREATE TABLE device (digest ${text} PRIMARY KEY, code ${text} NOT NULL UNIQUE, client ${text} NOT NULL, address ${text} NOT NULL,
    state ${text} NOT NULL, created ${integer} NOT NULL, until ${integer} NOT NULL, polled ${integer}, pause ${integer} NOT NULL,
    person ${text}, confirm ${text}, doc ${text}) ${inKey}`,
  'CREATE INDEX device_until ON device (until)',
  'CREATE INDEX device_confirm ON device (confirm)',
  `CREATE TABLE sign_in (id ${text} PRIMARY KEY, person ${text} NOT NULL, client ${text} NOT NULL, address ${text} NOT NULL,
    created ${integer} NOT NULL, used ${integer} NOT NULL, until ${integer} NOT NULL, doc ${text} NOT NULL) ${inKey}`,
  'CREATE INDEX sign_in_person ON sign_in (person)',
  'CREATE INDEX sign_in_until ON sign_in (until)',
  `CREATE TABLE refresh (digest ${text} PRIMARY KEY, sign_in ${text} NOT NULL, created ${integer} NOT NULL, used ${integer}) ${inKey}`,
  'CREATE INDEX refresh_sign_in ON refresh (sign_in)',
]

/** Raw SQL: kysely's schema builder has no `WITHOUT ROWID`. */
export const CONTROL_MIGRATIONS: readonly Migration[] = [first, second, third, fourth, fifth]
