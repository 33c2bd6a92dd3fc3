/** Writes backups of a running gateway, one at a time. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { startThread } from '../storage/thread/database-thread.ts'
import type { DataFolders } from './backup.ts'

export type BackupOptions = { readonly file: string; readonly folders: DataFolders; readonly version: string }

/** `problem` null: the file is written. */
export type BackupResult = { readonly problem: string | null }

const THREAD = new URL('./backup-thread.mjs', import.meta.url)
/** MB. */
const MEMORY = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 }

let isRunning = false

/** Writes an archive in the data folder. Returns its path, or why there is none. The caller deletes it. */
export const backUp = async (
  folders: DataFolders,
  version: string,
): Promise<{ readonly file: string } | { readonly problem: string }> => {
  if (isRunning) return { problem: 'another backup is being written' }
  isRunning = true
  const file = join(folders.data, `backup-${randomUUID()}.tar.gz`)
  try {
    const { problem } = await inThread({ file, folders, version })
    return problem === null ? { file } : { problem }
  } finally {
    isRunning = false
  }
}

const inThread = (options: BackupOptions): Promise<BackupResult> =>
  new Promise((resolve) => {
    const thread = startThread<BackupResult>({
      file: THREAD,
      data: options,
      memory: MEMORY,
      onMessage: resolve,
      onExit: (_thread, problem) => resolve({ problem }),
    })
    if (typeof thread === 'string') resolve({ problem: thread })
  })
