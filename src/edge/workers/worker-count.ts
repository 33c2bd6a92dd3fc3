/**
 * How many processes are wanted, found out before anything else is loaded: with one, all that follows is loaded into this
 * process; with several, into each of them, and this one stays small.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseDotenv } from '../config/dotenv.ts'

type Env = Readonly<Record<string, string | undefined>>

/** A worker's place among the others, `2/4`; set by the process that started it, and by nobody else. */
export const WORKER_VARIABLE = 'HEADGATE_WORKER'

/** More than a machine for this has processors. */
export const MOST_WORKERS = 64

/** `WORKERS` of the environment, else of `.env` in this folder. 1 for whatever cannot be: the one process says so. */
export const workerCount = (env: Env, folder: string): number => {
  if (env[WORKER_VARIABLE] !== undefined) return 1
  const text = (env.WORKERS ?? inDotenv(folder))?.trim() ?? ''
  const count = /^[0-9]{1,3}$/.test(text) ? Number(text) : 1
  return count >= 1 && count <= MOST_WORKERS ? count : 1
}

const inDotenv = (folder: string): string | undefined => {
  try {
    const dotenv = readFileSync(join(folder, '.env'), 'utf8')
    return dotenv.includes('WORKERS') ? parseDotenv(dotenv).WORKERS : undefined
  } catch {
    // None, or one that cannot be read: whoever reads all of the configuration says so.
    return undefined
  }
}
