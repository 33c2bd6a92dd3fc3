/**
 * The stored answers, opened when there is something to keep: whoever never uses them finds no file. Where the folder
 * cannot be written, or not for the moment, they are kept in memory meanwhile, and the operator is told.
 */
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isObject, parseJson } from '../../core/json.ts'
import type { ResponseStore, StoredResponse } from '../../core/stored.ts'
import { memoryStore } from '../../gateway/shelf.ts'
import { FILE, type OpenStore, openResponses, type StoreOptions } from './responses.ts'

export type LazyStore = ResponseStore & { close(): void }

/** Characters kept in memory where there is no database. */
const MOST = 64 * 1024 * 1024
const HOUR = 3_600_000
/** ms between two parts of a sweep. */
const PAUSE = 20
/** ms until a file that could not be opened is tried again: another process may have had its hands on it. */
const AGAIN = 10_000

export const lazyResponses = (options: Omit<StoreOptions, 'worker'>, problem: (message: string) => void): LazyStore => {
  let file: OpenStore | null = null
  /** What was put while the file could not be opened. */
  let spare: ResponseStore | null = null
  let againAt = 0
  let told = ''
  let sweeping: NodeJS.Timeout | undefined

  const open = (): ResponseStore => {
    if (file) return file
    if (spare && options.date() < againAt) return spare
    let opened: OpenStore | null = null
    try {
      opened = openResponses({ ...options, worker: `${process.pid}@${hostname()}` })
      opened.abandon((worker) => !isOthers(worker, true), abandoned)
      file = opened
      sweep()
      return file
    } catch (error) {
      opened?.close()
      const why = messageOf(error)
      if (why !== told)
        problem(
          `stored responses cannot be kept in ${options.folder} (data.dir, DATA_DIR): ${why}. They are kept in memory, and lost with the gateway, until they can be.`,
        )
      told = why
      againAt = options.date() + AGAIN
      spare ??= memoryStore(MOST)
      return spare
    }
  }
  /** Some now and the rest a moment later, with requests in between; then again in an hour. */
  const sweep = (): void => {
    const more = tried(() => file?.sweep()) === true
    if (!more) tried(() => file?.abandon((worker) => isOthers(worker, false), abandoned))
    sweeping = setTimeout(sweep, more ? PAUSE : HOUR).unref()
  }
  /** A disk that fails says so in the log, and nothing is found. */
  const tried = <T>(run: () => T): T | undefined => {
    try {
      return run()
    } catch (error) {
      problem(`stored responses in ${options.folder}: ${messageOf(error)}`)
      return undefined
    }
  }
  const path = join(options.folder, FILE)
  /** Another process with the same folder may have begun it since. */
  const existing = (): ResponseStore | null => file ?? (existsSync(path) ? open() : spare)
  existing()

  return {
    put: (response) => open().put(response),
    get: (id, owner) => tried(() => existing()?.get(id, owner)) ?? spare?.get(id, owner),
    holding: (item, owner) => tried(() => existing()?.holding(item, owner)) ?? spare?.holding(item, owner),
    delete(id, owner) {
      const kept = tried(() => existing()?.delete(id, owner)) ?? false
      return spare?.delete(id, owner) || kept
    },
    close() {
      clearTimeout(sweeping)
      tried(() => file?.close())
    },
  }
}

/**
 * Whether it is another process of this machine, one that is alive or one that is not: where one takes over from another,
 * that still answers what it has begun. Of other machines nothing can be known.
 */
const isOthers = (worker: string, alive: boolean): boolean => {
  const [pid = '', ...host] = worker.split('@')
  return host.join('@') === hostname() && Number(pid) !== process.pid && isAlive(Number(pid)) === alive
}

const isAlive = (pid: number): boolean => {
  try {
    // Sends nothing: it asks whether it could.
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** What an answer says that was being given when the process ended. */
const abandoned = ({ response }: StoredResponse): string => {
  const before = parseJson(response)
  return JSON.stringify({
    ...(isObject(before) && before),
    status: 'failed',
    error: { code: 'server_error', message: 'The gateway ended while it was answered. Ask again.' },
  })
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown')
