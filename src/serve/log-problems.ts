/** Log lines for the state of the databases of the gateway. */
import type { BookkeeperEvent } from '../edge/ledger/bookkeeper.ts'
import { malformedMessage } from '../edge/ledger/malformed-segment.ts'
import type { Log } from '../edge/observe/log.ts'
import type { StoreChange } from '../edge/store/client.ts'

export function logControlState(log: Log, folder: string, problem: string | null): void {
  if (problem === null) return log.info('control', { status: 'ok' })
  const message = `The database of keys and budgets in ${folder} (data.dir, DATA_DIR) cannot be used: ${problem}. Known keys stay valid; changes are refused until it can.`
  log.error('control', { status: 'degraded', message })
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
