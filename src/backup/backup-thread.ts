/** Writes one backup in a thread, because SQLite copies a database at once. */
import { BackupError, type DataFolders, writeBackup } from './backup.ts'

type BackupOptions = { readonly file: string; readonly folders: DataFolders; readonly version: string }

const write = async ({ file, folders, version }: BackupOptions): Promise<void> => {
  try {
    await writeBackup(file, folders, { usage: true, version })
  } catch (error) {
    // As part of a sentence.
    throw error instanceof BackupError ? new Error(error.message.replace(/\.$/, '')) : error
  }
}

export const program = (_: null) => ({ methods: { write } })
