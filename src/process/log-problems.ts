/** Log lines for the state of the databases of the gateway. */

import type { TeamRoute } from '../core/route.ts'
import type { Log } from '../observe/log.ts'
import type { StoreChange } from '../storage/responses/threaded-store.ts'

const POSTGRES = 'Postgres (database.url, DATABASE_URL)'

/** `folder`: of the file; null: the database is in Postgres. */
export function logControlState(log: Log, folder: string | null, problem: string | null): void {
  if (problem === null) return log.info('control', { status: 'ok' })
  const place = folder === null ? POSTGRES : `${folder} (data.dir, DATA_DIR)`
  const message = `The database of keys and budgets in ${place} cannot be used: ${problem}. Known keys stay valid, others are refused (503 keys_unavailable).`
  log.error('control', { status: 'degraded', message })
}

export function logSnapshotState(log: Log, folder: string, problem: string | null): void {
  if (problem === null) return log.debug('control', { message: `The snapshot of keys and budgets is in ${folder}.` })
  log.warn('control', {
    message: `The snapshot of keys and budgets cannot be written to ${folder} (data.dir, DATA_DIR): ${problem}. If Postgres cannot be reached at the next start, keys are refused until it can.`,
  })
}

/** `folder`: of the file; null: responses are stored in Postgres. */
export function logStoreChange(log: Log, folder: string | null, change: StoreChange): void {
  const { status } = change
  const place = folder === null ? POSTGRES : `${folder} (data.dir, DATA_DIR)`
  if (status === 'degraded')
    log.error('store', {
      status,
      message: `Responses cannot be stored in ${place}: ${change.reason}. Answers state store: false until they can.`,
    })
  else if (status === 'ok')
    log.info('store', { status, message: `Responses are stored in ${folder ?? 'Postgres'} again.` })
  else
    log.warn('store', {
      status,
      message: `The database in ${place} was deleted or moved while in use. A new one was created.`,
    })
}

/** Logs each route of a team once whose name headgate.yaml routes too. */
export const shadowReport = (log: Log): ((shadowed: readonly TeamRoute[]) => void) => {
  let known = new Set<string>()
  return (shadowed) => {
    for (const { id, name, team } of shadowed)
      if (!known.has(id))
        log.warn('routes', {
          message: `headgate.yaml has a route for the name ${JSON.stringify(name)}, so the route ${id} of the team ${team} does not apply. Rename or delete one of them.`,
        })
    known = new Set(shadowed.map(({ id }) => id))
  }
}
