/** Log lines for the state of the ledger: of the only process of a gateway, or of its supervisor for all workers. */
import type { Log } from '../../observe/log.ts'
import type { LedgerEvent } from '../../usage/bookkeeper/ledger-problems.ts'
import { malformedMessage } from '../../usage/journal/malformed-segment.ts'

/** `folder`: of the file; null: usage is stored in Postgres. `journal`: the folder of the journal. */
export type LedgerPlace = { readonly folder: string | null; readonly journal: string }

export const ledgerLog = (log: Log, { folder, journal }: LedgerPlace): ((event: LedgerEvent) => void) => {
  const place = folder === null ? 'Postgres (database.url, DATABASE_URL)' : `${folder} (data.dir, DATA_DIR)`
  const failed = (message: string) => log.error('ledger', { status: 'degraded', message })
  return (event) => {
    switch (event.event) {
      case 'unwritable':
        return failed(`Usage cannot be recorded in ${journal} (ledger.folder, LEDGER_FOLDER): ${event.reason}.`)
      case 'degraded':
        return failed(`Usage cannot be stored in ${place}: ${event.reason}. It is kept in the journal until it can.`)
      case 'ok':
        return log.info('ledger', { status: 'ok', message: `Usage is stored in ${place} again.` })
      case 'behind':
        return failed(
          `Usage is stored later than it is recorded, by ${Math.round(event.lagMs / 1_000)} s: reports and a next start wait for it. Check the load of this machine and of the disk of ${place}.`,
        )
      case 'malformed':
        return log.error('ledger', { status: 'malformed', message: malformedMessage(event) })
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }
}
