/** A `usage.db` of the weeks before the first release, opened by the present program. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { sql } from 'kysely'
import { NOON } from '../../../test/support/ledger-records.ts'
import { migrateSchema } from '../../storage/sql/migrate.ts'
import { UsageDatabase } from '../bookkeeper/usage-database.ts'
import { USAGE_FILE } from '../journal/file.ts'
import { NO_COUNTS } from './usage-schema.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-usage-upgrade-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const PROCESS = '1795341600000-77'
const TEXTS = ['node', 'team', 'key', 'provider', 'model', 'style', 'tag', 'outcome']
const COUNTS = Object.keys(NO_COUNTS)
const rollup = (period: string): string =>
  `(${period}, ${TEXTS.map((name) => `${name} TEXT NOT NULL`).join(', ')}, ${COUNTS.map((name) => `${name} INTEGER NOT NULL`).join(', ')},
    PRIMARY KEY (${[period.split(' ')[0], ...TEXTS].join(', ')})) WITHOUT ROWID`

const EARLIER = [
  `CREATE TABLE request (id TEXT NOT NULL, received INTEGER NOT NULL, ended INTEGER, style TEXT NOT NULL, stream INTEGER NOT NULL,
    asked TEXT NOT NULL, route TEXT, provider TEXT, model TEXT, key TEXT, team TEXT, person TEXT, end_user TEXT, tags TEXT,
    outcome TEXT NOT NULL, status INTEGER NOT NULL, code TEXT, message TEXT, attempts INTEGER NOT NULL, trail TEXT,
    decision TEXT, cache TEXT NOT NULL, first_content_ms INTEGER, total_ms INTEGER, overhead_us INTEGER, input INTEGER,
    output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER, cost INTEGER,
    saved INTEGER NOT NULL DEFAULT 0, usage_source TEXT, trace TEXT, node TEXT NOT NULL,
    PRIMARY KEY (received, id)) WITHOUT ROWID`,
  `CREATE TABLE attempt (request TEXT NOT NULL, n INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER, key TEXT,
    team TEXT, provider TEXT NOT NULL, model TEXT NOT NULL, credential TEXT NOT NULL, hedge INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL, kind TEXT, status INTEGER, message TEXT, first_content_ms INTEGER, input INTEGER, output INTEGER,
    cache_read INTEGER, cache_write INTEGER, cache_write_1h INTEGER, reasoning INTEGER, audio_input INTEGER,
    audio_output INTEGER, reserved INTEGER NOT NULL, cost INTEGER, usage_source TEXT NOT NULL, price_source TEXT NOT NULL,
    price_version TEXT, opened TEXT, PRIMARY KEY (started, request, n)) WITHOUT ROWID`,
  `CREATE TABLE usage_hour ${rollup('hour INTEGER NOT NULL')}`,
  `CREATE TABLE usage_day ${rollup('day TEXT NOT NULL')}`,
  `CREATE TABLE budget_sum (counter TEXT NOT NULL, period_start INTEGER NOT NULL, node TEXT NOT NULL, spent INTEGER NOT NULL,
    alerted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (counter, period_start, node)) WITHOUT ROWID`,
  `CREATE TABLE adjustment (id TEXT PRIMARY KEY, at INTEGER NOT NULL, budget TEXT, counter TEXT, period_start INTEGER, key TEXT,
    amount INTEGER NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL) WITHOUT ROWID`,
  'CREATE TABLE journal (segment TEXT PRIMARY KEY, position INTEGER NOT NULL, malformed INTEGER NOT NULL) WITHOUT ROWID',
  'CREATE TABLE facet (name TEXT NOT NULL, value TEXT NOT NULL, last_seen INTEGER NOT NULL, PRIMARY KEY (name, value)) WITHOUT ROWID',
]

const OPENED = {
  ...{ process: PROCESS, call: 7, key: 'key_a', team: 'team_a', style: 'chat', tag: null, ended: NOON },
  charges: [{ counter: 'bud_a', periodStart: NOON }],
}

const CONTENTS = `
  INSERT INTO request (id, received, style, stream, asked, outcome, status, attempts, cache, node)
    VALUES ('req_7', ${NOON}, 'chat', 0, 'm', 'answered', 200, 1, 'off', 'n');
  INSERT INTO attempt (request, n, started, provider, model, credential, outcome, reserved, usage_source, price_source, opened)
    VALUES ('req_7', 0, ${NOON}, 'openai', 'm', 'a1f3', 'open', 500, 'estimated', 'none', '${JSON.stringify(OPENED)}');
  INSERT INTO usage_hour VALUES (1, 'n', 'team_a', 'key_a', 'openai', 'm', 'chat', '', 'ok'${COUNTS.map((_, at) => `, ${at + 1}`).join('')});
  INSERT INTO budget_sum VALUES ('bud_a', ${NOON}, 'n', 1000, 80);
`

test('upgrade of usage.db: sums, requests and what continues are those of before', async () => {
  const earlier = new DatabaseSync(join(folder, USAGE_FILE))
  const up = async (db: Parameters<ReturnType<typeof sql.raw>['execute']>[0]) => {
    for (const statement of EARLIER) await sql.raw(statement).execute(db)
  }
  await migrateSchema(earlier, { file: USAGE_FILE, migrations: [{ up }], oldestReader: 1 })
  earlier.exec(CONTENTS)
  earlier.close()

  const writer = { node: 'n', process: { start: NOON + 1, pid: 78, worker: 0 } }
  const database = await UsageDatabase.open(folder, null, writer)
  const nodes = [{ node: 'n', isOwn: true, spent: 1000 }]
  assert.deepEqual(database.sums(0, [], NOON), [
    { counter: 'bud_a', period_start: NOON, spent: 1000, earlier: 1000, nodes },
  ])
  const [unfinished] = database.begin().unfinished
  assert.equal(unfinished?.row.call, 7)
  assert.deepEqual(unfinished?.opened, { ...OPENED, charges: [`${NOON} bud_a`], route: null, client: null })
  database.close()

  const stored = new DatabaseSync(join(folder, USAGE_FILE), { readOnly: true })
  const [request] = stored.prepare('SELECT id, call, client FROM request').all()
  assert.deepEqual({ ...request }, { id: 'req_7', call: 7, client: null })
  const [hour] = stored.prepare('SELECT * FROM usage_hour').all()
  assert.deepEqual(
    { ...hour },
    {
      ...{ hour: 1, node: 'n', team: 'team_a', key: 'key_a', provider: 'openai', model: 'm', style: 'chat', tag: '' },
      ...{ route: '', client: '', outcome: 'ok' },
      ...Object.fromEntries(COUNTS.map((name, at) => [name, at + 1])),
    },
  )
  stored.close()
  // A second start changes nothing.
  const again = await UsageDatabase.open(folder, null, writer)
  assert.equal(again.begin().unfinished.length, 1)
  again.close()
})
