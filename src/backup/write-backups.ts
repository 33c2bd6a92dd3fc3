/** Writes backups of a running gateway, one at a time. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { ThreadClient } from '../storage/thread/connect-thread.ts'
import type { DataFolders } from './backup.ts'
import type { program } from './backup-thread.ts'

const PROGRAM = new URL('./backup-thread.ts', import.meta.url)
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
  const thread = new ThreadClient<typeof program>({
    program: PROGRAM,
    data: () => null,
    memory: MEMORY,
    restart: 'when called',
  })
  const result = await thread.call('write', { file, folders, version }, { limit: null })
  void thread.close(0)
  isRunning = false
  return 'problem' in result ? { problem: result.problem } : { file }
}
