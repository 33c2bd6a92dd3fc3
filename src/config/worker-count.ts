/**
 * The number of worker processes, read before anything else is loaded: with one worker this process serves; with several
 * it only supervises and stays small.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseDotenv } from './dotenv.ts'
import type { Env } from './env.ts'
import { withoutQuotes } from './without-quotes.ts'

/** Environment variable for a worker's number, such as `2/4`. Set by the supervisor only. */
export const WORKER_VARIABLE = 'HEADGATE_WORKER'

/** Upper limit of WORKERS. */
export const MAX_WORKERS = 64

/** `WORKERS` from the environment or `.env`. 1 for invalid values, which that process then rejects. */
export const workerCount = (env: Env, folder: string): number => {
  if (env[WORKER_VARIABLE] !== undefined) return 1
  const text = (env.WORKERS === undefined ? inDotenv(folder) : withoutQuotes(env.WORKERS))?.trim() ?? ''
  const count = /^[0-9]{1,3}$/.test(text) ? Number(text) : 1
  return count >= 1 && count <= MAX_WORKERS ? count : 1
}

const inDotenv = (folder: string): string | undefined => {
  try {
    const dotenv = readFileSync(join(folder, '.env'), 'utf8')
    return dotenv.includes('WORKERS') ? parseDotenv(dotenv).WORKERS : undefined
  } catch {
    // No readable `.env`. Reading the configuration reports the problem.
    return undefined
  }
}
