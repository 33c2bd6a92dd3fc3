/** The rows of batches, and who books them. Times are ms since 1970. */
import type { ClaimedBatch, PassBatch } from '../../core/pass-batches.ts'
import type { Migration } from '../sql/migrate.ts'
import type { SqlStore } from '../sql/store.ts'

/** `claimed`: until when a process may book it; 0: none does. `due`: when it is read next. `booked`: 0 or 1. */
type BatchRow = PassBatch & { readonly claimed: number; readonly due: number; readonly booked: number }
export type BatchTables = { readonly pass_batch: BatchRow }

export const BATCHES: Migration = ({ integer, text, inKey }) => [
  `CREATE TABLE pass_batch (instance ${text} NOT NULL, id ${text} NOT NULL, team ${text} NOT NULL, key ${text} NOT NULL,
    path ${text} NOT NULL, request ${text} NOT NULL, made ${integer} NOT NULL, claimed ${integer} NOT NULL,
    due ${integer} NOT NULL, booked ${integer} NOT NULL, PRIMARY KEY (instance, id)) ${inKey}`,
  'CREATE INDEX pass_batch_due ON pass_batch (booked, due)',
]

type NamedBatch = Pick<PassBatch, 'instance' | 'id'>
export type AddedBatch = PassBatch & { readonly due: number }
/** `until`: of a claim. */
export type AskedBatch = NamedBatch & { readonly now: number; readonly until: number }
/** `booked`: 1, or 0, and it may be claimed again. */
export type EndedBatch = NamedBatch & { readonly booked: number }
/** `next`: when they are read again. */
export type DueBatches = { readonly now: number; readonly next: number; readonly most: number }

// The store has other tables, too.
type Store = Pick<SqlStore<BatchTables>, 'write' | 'single'>

/** The first one with an ID stays. */
export const addBatch = async (store: Store, batch: AddedBatch): Promise<null> => {
  await store.write((db) =>
    db
      .insertInto('pass_batch')
      .values({ ...batch, claimed: 0, booked: 0 })
      .onConflict((conflict) => conflict.columns(['instance', 'id']).doNothing())
      .execute(),
  )
  return null
}

/** Null: it is not known, booked, or claimed by another process. */
export const claimBatch = (store: Store, { instance, id, now, until }: AskedBatch): Promise<ClaimedBatch | null> =>
  store.write(async (db) => {
    const row = await db
      .selectFrom('pass_batch')
      .selectAll()
      .where('instance', '=', instance)
      .where('id', '=', id)
      .executeTakeFirst()
    if (!row) return null
    // Of several processes one updates the row: the others find another value in it.
    const { numUpdatedRows } = await db
      .updateTable('pass_batch')
      .set({ claimed: until })
      .where('instance', '=', instance)
      .where('id', '=', id)
      .where('booked', '=', 0)
      .where('claimed', '=', row.claimed)
      .where('claimed', '<=', now)
      .executeTakeFirst()
    return numUpdatedRows === 0n ? null : { ...batchOf(row), isAgain: Number(row.claimed) > 0 }
  })

export const endBatch = async (store: Store, { instance, id, booked }: EndedBatch): Promise<null> => {
  await store.write((db) =>
    db
      .updateTable('pass_batch')
      .set(booked === 1 ? { booked } : { claimed: 0 })
      .where('instance', '=', instance)
      .where('id', '=', id)
      .execute(),
  )
  return null
}

/** Those that were not read for a while. Each is given to one process. */
export const dueBatches = async (store: Store, { now, next, most }: DueBatches): Promise<readonly PassBatch[]> => {
  const found = await store.single
    .selectFrom('pass_batch')
    .selectAll()
    .where('booked', '=', 0)
    .where('due', '<=', now)
    .orderBy('due')
    .limit(most)
    .execute()
  const taken: PassBatch[] = []
  for (const row of found) {
    const { numUpdatedRows } = await store.write((db) =>
      db
        .updateTable('pass_batch')
        .set({ due: next })
        .where('instance', '=', row.instance)
        .where('id', '=', row.id)
        .where('due', '=', row.due)
        .executeTakeFirst(),
    )
    if (numUpdatedRows > 0n) taken.push(batchOf(row))
  }
  return taken
}

/** Postgres has integers as text. */
const batchOf = ({ instance, id, team, key, path, request, made }: BatchRow): PassBatch => ({
  instance,
  id,
  team,
  key,
  path,
  request,
  made: Number(made),
})
