/** Reads what a serving process needs: all accounts, and what has changed since. In one transaction of reads. */
import type { Kysely } from 'kysely'
import type { AccountsChange, AdminToken, Decision, StoredAccounts } from './record-operations.ts'
import { recordsOf } from './records.ts'
import type { ControlTables, SecretRow } from './schema.ts'

/** IDs of one query: databases have limits for values. */
const IDS = 5_000

type StoredChange = Omit<ControlTables['change'], 'seq'> & { readonly seq: number }

/** The last change that was read. */
export type ChangeMark = StoredChange | { readonly seq: number }

/** All accounts, and the mark of their last change, whose row is never deleted. */
export const storedAccounts = async (
  db: Kysely<ControlTables>,
): Promise<{ readonly stored: StoredAccounts; readonly mark: ChangeMark }> => {
  const [rows, secrets, decisions, last] = await Promise.all([
    db.selectFrom('record').selectAll().execute(),
    db.selectFrom('secret').selectAll().execute(),
    decisionsOf(db),
    db.selectFrom('change').selectAll().orderBy('seq', 'desc').limit(1).executeTakeFirst(),
  ])
  return {
    stored: { seq: last?.seq ?? 0, ...recordsOf(rows, secrets), decisions },
    mark: last ?? { seq: 0 },
  }
}

/**
 * The changes after a mark; null: there are none. `complete`: their rows have been deleted, or the mark is not there, because
 * another database has taken its place.
 */
export const changesSince = async (
  db: Kysely<ControlTables>,
  since: ChangeMark,
): Promise<{ readonly change: AccountsChange; readonly mark: ChangeMark } | 'complete' | null> => {
  const found = await db.selectFrom('change').selectAll().where('seq', '>=', since.seq).orderBy('seq').execute()
  const [first] = found
  if (since.seq === 0 ? (first?.seq ?? 1) !== 1 : !first || !isMark(first, since)) return 'complete'
  const changed = found.filter(({ seq }) => seq > since.seq)
  const mark = changed.at(-1)
  if (!mark) return null
  const kinds = new Set(changed.map(({ kind }) => kind))
  const ids = [...new Set(changed.map(({ id }) => id))]
  if (ids.length > IDS) return 'complete'
  const [rows, secrets, tokens, decisions] = await Promise.all([
    db.selectFrom('record').selectAll().where('id', 'in', ids).execute(),
    db.selectFrom('secret').selectAll().where('owner', 'in', ids).execute(),
    kinds.has('token') ? tokensOf(db) : null,
    kinds.has('decision') ? decisionsOf(db) : null,
  ])
  const present = new Set(rows.map(({ id }) => id))
  const removed = changed.filter(({ kind, id }) => kind !== 'decision' && !present.has(id)).map(({ id }) => id)
  const { records } = recordsOf(rows, secrets)
  return { change: { seq: mark.seq, records, removed: [...new Set(removed)], tokens, decisions }, mark }
}

/** A mark with its number alone is that of another process, which has read the same database. */
const isMark = (row: StoredChange, mark: ChangeMark): boolean =>
  row.seq === mark.seq && (!('id' in mark) || (row.id === mark.id && row.kind === mark.kind && row.at === mark.at))

const tokensOf = async (db: Kysely<ControlTables>): Promise<readonly AdminToken[]> => {
  const [rows, secrets] = await Promise.all([
    db.selectFrom('record').selectAll().where('kind', '=', 'token').execute(),
    ofTokens(db),
  ])
  return recordsOf(rows, secrets).tokens
}

const ofTokens = (db: Kysely<ControlTables>): Promise<readonly SecretRow[]> =>
  db
    .selectFrom('secret')
    .selectAll()
    .where('owner', 'in', (tokens) => tokens.selectFrom('record').select('id').where('kind', '=', 'token'))
    .execute()

const decisionsOf = (db: Kysely<ControlTables>): Promise<readonly Decision[]> =>
  db.selectFrom('decision').select(['kind', 'id', 'state', 'until', 'reason']).execute()
