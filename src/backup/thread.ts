/** Writes one backup in a thread, because SQLite copies a database at once. Loaded by `backup-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { problemOf } from '../storage/sql/sqlite/errors.ts'
import { BackupError, writeBackup } from './backup.ts'
import type { BackupOptions, BackupResult } from './client.ts'

/** Writes the backup, and reports its end. */
export const serveBackup = async (port: MessagePort, options: BackupOptions): Promise<void> => {
  const { file, folders, version } = options
  let result: BackupResult = { problem: null }
  try {
    await writeBackup(file, folders, { usage: true, version })
  } catch (error) {
    // As part of a sentence.
    result = { problem: error instanceof BackupError ? error.message.replace(/\.$/, '') : problemOf(error) }
  }
  port.postMessage(result)
}
