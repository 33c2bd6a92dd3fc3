/** Where the alerts that were sent are kept, and which of several gateways sends them. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export type AlertStorage = {
  /** Other gateways use it, too. */
  readonly isShared: boolean
  /** Whether this gateway sends the alerts now. Rejects if that is not known. */
  claim(): Promise<boolean>
  /** Another gateway may send them. */
  release(): Promise<void>
  /** Null: nothing was saved. */
  load(): Promise<string | null>
  save(text: string): Promise<void>
}

/** A file in the data folder of the only gateway. */
export const stateFile = (folder: string, name: string): AlertStorage => ({
  isShared: false,
  claim: async () => true,
  release: async () => {},
  async load() {
    try {
      return await readFile(join(folder, name), 'utf8')
    } catch (error) {
      // Before the first save there is no file.
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
      throw error
    }
  },
  async save(text) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(join(folder, `${name}.new`), text, { mode: 0o600, flush: true })
    await rename(join(folder, `${name}.new`), join(folder, name))
  },
})
