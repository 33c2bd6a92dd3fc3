/** The folders of a backup, and its errors as those of the command line. */
import { join, resolve } from 'node:path'
import { BackupError, type DataFolders } from '../backup/backup.ts'
import { CliError, EXIT } from './cli.ts'
import { type Local, sharedIn } from './local.ts'

/** The folders that the configuration of a working folder names. */
export const foldersOf = (local: Local): DataFolders => {
  const { dataDir, loaded } = local
  const isShared = sharedIn(local) !== null
  const folder = loaded.ok ? loaded.config.settings.ledger.folder : undefined
  return { data: dataDir, journal: folder === undefined ? join(dataDir, 'journal') : resolve(folder), isShared }
}

/** Reports the errors of a backup with their exit codes. */
export const withExitCode = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw error instanceof BackupError ? new CliError(EXIT[error.reason], error.message) : error
  })
