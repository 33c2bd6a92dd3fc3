/** Sessions of browsers as rows, so that each process accepts them, also after a restart. */
import type { Kysely } from 'kysely'
import type { ControlLogin, ControlResult } from './record-operations.ts'
import { done, refused } from './results.ts'
import type { ControlTables } from './schema.ts'

/** ms for which a session is valid after its last use. */
export const SESSION_AGE = 8 * 3_600_000
/** ms between two renewals. */
const RENEWAL = 60_000
/** Sessions kept; the one used longest ago ends first. */
const MAX_SESSIONS = 1_000

const DONE = done({})

/** Deletes the sessions that have ended. */
export const deleteLogins = async (db: Kysely<ControlTables>, now: number): Promise<void> => {
  await db.deleteFrom('login').where('until', '<=', now).execute()
}

/** Runs an operation. Needs a transaction. */
export const runLogin = async (
  db: Kysely<ControlTables>,
  operation: ControlLogin,
  now: number,
): Promise<ControlResult> => {
  const { digest } = operation
  switch (operation.do) {
    case 'login_create': {
      const until = now + SESSION_AGE
      const { csrf, actor } = operation
      const newest = db
        .selectFrom('login')
        .select('digest')
        .orderBy('until', 'desc')
        .limit(MAX_SESSIONS - 1)
      await db.deleteFrom('login').where('digest', 'not in', newest).execute()
      await db
        .insertInto('login')
        .values({ digest, actor: JSON.stringify(actor), csrf, until })
        .execute()
      return done({ actor, csrf, until })
    }
    case 'login_use': {
      const row = await db
        .selectFrom('login')
        .selectAll()
        .where('digest', '=', digest)
        .where('until', '>', now)
        .executeTakeFirst()
      if (!row) return refused(404, 'not_found', 'The session has ended.')
      const isRenewed = row.until < now + SESSION_AGE - RENEWAL
      const until = isRenewed ? now + SESSION_AGE : row.until
      if (isRenewed) await db.updateTable('login').set({ until }).where('digest', '=', digest).execute()
      return done({ actor: JSON.parse(row.actor), csrf: row.csrf, until })
    }
    case 'login_end':
      await db.deleteFrom('login').where('digest', '=', digest).execute()
      return DONE
    default:
      throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
  }
}
