/**
 * `run.json` in the data folder: the address of the gateway that runs there, for the command line. Written when it listens
 * and removed when it ends. A process that is killed leaves it, so readers check the process ID.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../storage/files/folder.ts'

export type RunFile = {
  /** The process that serves, or the supervisor of the workers. */
  readonly pid: number
  /** The address it listens on. */
  readonly host: string
  readonly port: number
  /** The path below which it serves. */
  readonly basePath: string
  /** It takes TLS. */
  readonly secure: boolean
  /** Serves the probes over plain HTTP; 0: none. */
  readonly healthPort: number
}

const pathOf = (folder: string): string => join(folder, 'run.json')

/** Writes the file, readable by its owner only. Without write permission there is none: the gateway serves all the same. */
export const writeRunFile = (folder: string, run: RunFile): void => {
  const draft = `${pathOf(folder)}.${run.pid}`
  try {
    makeFolder(folder)
    writeFileSync(draft, `${JSON.stringify(run)}\n`, { mode: 0o600 })
    renameSync(draft, pathOf(folder))
  } catch {
    // A read-only file system, or a permission that is missing.
  }
}

/** The file's content; null if there is none or it is not valid. */
export const readRunFile = (folder: string): RunFile | null => {
  try {
    const read: Partial<Record<string, unknown>> = JSON.parse(readFileSync(pathOf(folder), 'utf8'))
    const { pid, host, port, basePath = '', secure = false, healthPort = 0 } = read
    if (typeof pid !== 'number' || typeof host !== 'string' || typeof port !== 'number') return null
    if (typeof basePath !== 'string' || typeof secure !== 'boolean' || typeof healthPort !== 'number') return null
    return { pid, host, port, basePath, secure, healthPort }
  } catch {
    return null
  }
}

/** Removes the file of this process. The file of a gateway that was started later stays. */
export const removeRunFile = (folder: string, pid: number): void => {
  if (readRunFile(folder)?.pid !== pid) return
  try {
    rmSync(pathOf(folder), { force: true })
  } catch {
    // A file that stays is recognised by its process ID.
  }
}
