/** The last texts of the configuration file that were accepted, without secrets, in the data folder. */
import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Texts that are kept. */
const KEPT = 50
const NAME = /^(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d)-(\d{3}Z)-[0-9a-f]{8}$/
const END = '.yaml'

export type ConfigVersion = {
  readonly id: string
  /** When it was accepted, as ISO 8601. */
  readonly at: string
}

/** The folder of the texts. */
export const historyFolder = (dataFolder: string): string => join(dataFolder, 'config-history')

const pathOf = (dataFolder: string, id: string): string => join(historyFolder(dataFolder), `${id}${END}`)

/** Newest first; empty: none was kept so far. */
export const configVersions = async (dataFolder: string): Promise<readonly ConfigVersion[]> => {
  const names = await readdir(historyFolder(dataFolder)).catch(() => [])
  return names
    .flatMap((name) => {
      const id = name.endsWith(END) ? name.slice(0, -END.length) : ''
      const at = NAME.exec(id)
      return at ? [{ id, at: `${at[1]}${at[2]}:${at[3]}:${at[4]}.${at[5]}` }] : []
    })
    .toSorted((a, b) => (a.id < b.id ? 1 : -1))
}

/** Null: there is no such version. */
export const configVersion = async (dataFolder: string, id: string): Promise<string | null> =>
  NAME.test(id) ? readFile(pathOf(dataFolder, id), 'utf8').catch(() => null) : null

/** Keeps a text that was accepted at `at` (ms since 1970), unless the newest one is the same. Rejects if the folder cannot be written. */
export const keepConfig = async (dataFolder: string, text: string, at: number): Promise<void> => {
  // The parser of YAML loads slowly, and readers of the history need none.
  const { maskedText } = await import('./masked-text.ts')
  const masked = maskedText(text)
  if (masked === null) return
  const digest = hash('sha256', masked).slice(0, 8)
  const versions = await configVersions(dataFolder)
  if (versions[0]?.id.endsWith(digest)) return
  const id = `${new Date(at).toISOString().replace(/[:.]/g, '-')}-${digest}`
  await mkdir(historyFolder(dataFolder), { recursive: true, mode: 0o700 })
  await writeFile(pathOf(dataFolder, id), masked, { mode: 0o600 })
  for (const { id: old } of versions.slice(KEPT - 1)) await rm(pathOf(dataFolder, old), { force: true })
}
