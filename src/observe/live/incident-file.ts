/** Keeps the incidents of one process over restarts, in a file of the data folder. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject, list } from '../../core/json.ts'
import type { Incident } from './incident.ts'

/** `worker`: its number where several processes serve the port; undefined: this is the only one. */
const fileOf = (worker: number | undefined): string =>
  worker === undefined ? 'incidents.json' : `incidents-${worker}.json`

/** Those of the earlier process, the oldest first; none if the file is missing or invalid. */
export const readIncidents = async (folder: string, worker: number | undefined): Promise<readonly Incident[]> => {
  try {
    const stored: unknown = JSON.parse(await readFile(join(folder, fileOf(worker)), 'utf8'))
    if (!isObject(stored) || stored.version !== 1) return []
    // Only this program writes the file. An entry of another shape is left out.
    return list(stored.incidents).filter(
      (one) => isObject(one) && typeof one.begin === 'number',
    ) as unknown as Incident[]
  } catch {
    return []
  }
}

/** Writes them in order, one write at a time; of several that wait, the last. `failed`: the reason. */
export const incidentWriter = (
  folder: () => string,
  worker: number | undefined,
  failed: (reason: string) => void,
): { readonly write: (incidents: readonly Incident[]) => void; readonly done: () => Promise<void> } => {
  let next: readonly Incident[] | null = null
  let working: Promise<void> | null = null
  const work = async (): Promise<void> => {
    while (next) {
      const incidents = next
      next = null
      try {
        const file = join(folder(), fileOf(worker))
        await mkdir(folder(), { recursive: true, mode: 0o700 })
        await writeFile(`${file}.new`, JSON.stringify({ version: 1, incidents }), { mode: 0o600 })
        await rename(`${file}.new`, file)
      } catch (error) {
        failed(error instanceof Error && 'code' in error ? String(error.code) : 'unknown error')
      }
    }
  }
  return {
    write(incidents) {
      next = incidents
      working ??= work().finally(() => {
        working = null
      })
    },
    async done() {
      await working
    },
  }
}
