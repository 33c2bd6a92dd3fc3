/** The tables of stored responses in Postgres. Columns with contents of clients are bytes: texts cannot have a NUL there. */
import type { SharedSchema } from '../sql/postgres/shared-schema.ts'

const TABLES = [
  // `worker`: the process that runs it; empty: it waits for one that runs it again. `stop`, `follow`: what others ask of that process.
  // `request`: what another process needs to run it again. `losses`: how often its process was lost.
  `CREATE TABLE response (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    previous TEXT,
    status TEXT NOT NULL,
    created BIGINT NOT NULL,
    touched TIMESTAMPTZ NOT NULL,
    size BIGINT NOT NULL,
    input BYTEA NOT NULL,
    response BYTEA NOT NULL,
    events BYTEA,
    maker TEXT,
    users TEXT,
    worker TEXT,
    stop BOOLEAN NOT NULL DEFAULT false,
    follow BOOLEAN NOT NULL DEFAULT false,
    request BYTEA,
    losses INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, id))`,
  'CREATE INDEX response_touched ON response (touched)',
  'CREATE INDEX response_owner ON response (owner, touched) INCLUDE (size)',
  'CREATE INDEX response_worker ON response (worker) WHERE worker IS NOT NULL',
  `CREATE TABLE item (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, response) REFERENCES response (owner, id) ON DELETE CASCADE)`,
  'CREATE INDEX item_response ON item (owner, response)',
  // Events of responses in progress which other gateways stream. `first`: the index of the first one.
  `CREATE TABLE event (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    first BIGINT NOT NULL,
    lines BYTEA NOT NULL,
    PRIMARY KEY (owner, id, first),
    FOREIGN KEY (owner, id) REFERENCES response (owner, id) ON DELETE CASCADE)`,
  // Processes with responses or claims in progress. `beat` grows while they live.
  'CREATE TABLE process (id TEXT PRIMARY KEY, beat BIGINT NOT NULL)',
  // `worker`: the process that makes the call. Null: `head` and `body` are the answer.
  `CREATE TABLE claim (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    worker TEXT,
    expires TIMESTAMPTZ NOT NULL,
    size BIGINT NOT NULL DEFAULT 0,
    head BYTEA,
    body BYTEA)`,
  // When a gateway has last deleted what has expired: each minute one of them does.
  'CREATE TABLE sweep (id INTEGER PRIMARY KEY CHECK (id = 1), at TIMESTAMPTZ NOT NULL)',
  "INSERT INTO sweep VALUES (1, '-infinity')",
  'CREATE INDEX claim_expires ON claim (expires)',
  'CREATE INDEX claim_worker ON claim (worker) WHERE worker IS NOT NULL',
]

export const SHARED_RESPONSES: SharedSchema = {
  name: 'headgate_responses',
  versions: { file: 'headgate_responses', migrations: [() => TABLES], oldestReader: 1 },
}
