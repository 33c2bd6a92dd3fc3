/** Log lines for the state of the databases of the gateway. */
import type { BookkeeperEvent } from '../edge/ledger/bookkeeper.ts'
import { malformedMessage } from '../edge/ledger/malformed-segment.ts'
import type { Log } from '../edge/observe/log.ts'
import type { StoreChange } from '../edge/store/client.ts'

/** `folder`: of the file; null: the database is in Postgres. */
export function logControlState(log: Log, folder: string | null, problem: string | null): void {
  if (problem === null) return log.info('control', { status: 'ok' })
  const place = folder === null ? 'Postgres (database.url, DATABASE_URL)' : `${folder} (data.dir, DATA_DIR)`
  const message = `The database of keys and budgets in ${place} cannot be used: ${problem}. Known keys stay valid; changes are refused until it can.`
  log.error('control', { status: 'degraded', message })
}

export function logSnapshotState(log: Log, folder: string, problem: string | null): void {
  if (problem === null) return log.debug('control', { message: `The snapshot of keys and budgets is in ${folder}.` })
  log.warn('control', {
    message: `The snapshot of keys and budgets cannot be written to ${folder} (data.dir, DATA_DIR): ${problem}. If Postgres cannot be reached at the next start, keys are refused until it can.`,
  })
}

export function logStoreChange(log: Log, folder: string, change: StoreChange): void {
  const { status } = change
  if (status === 'degraded')
    log.error('store', {
      status,
      message: `Responses cannot be stored in ${folder} (data.dir, DATA_DIR): ${change.reason}. Answers state store: false until they can.`,
    })
  else if (status === 'ok') log.info('store', { status, message: `Responses are stored in ${folder} again.` })
  else
    log.warn('store', {
      status,
      message: `The database in ${folder} (data.dir, DATA_DIR) was deleted or moved while in use. A new one was created.`,
    })
}

export function logLedgerEvent(log: Log, folder: string, event: BookkeeperEvent): void {
  switch (event.event) {
    case 'degraded':
      return log.error('ledger', {
        status: 'degraded',
        message: `Usage cannot be recorded in ${folder} (data.dir, ledger.folder): ${event.reason}.`,
      })
    case 'ok':
      return log.debug('ledger', { status: 'ok', message: `Usage is recorded in ${folder}.` })
    case 'malformed':
      return log.error('ledger', {
        status: 'malformed',
        message: malformedMessage(event),
      })
    default:
      throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
  }
}
