/**
 * The stored answers, opened when there is something to keep: whoever never uses them finds no file. Where the folder
 * cannot be written, they are kept in memory, and the operator is told.
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

export const lazyResponses = (options: Omit<StoreOptions, 'worker'>, problem: (message: string) => void): LazyStore => {
  let store: ResponseStore | null = null
  let file: OpenStore | null = null
  let sweeping: NodeJS.Timeout | undefined

  const open = (): ResponseStore => {
    if (store) return store
    try {
      file = openResponses({ ...options, worker: `${process.pid}@${hostname()}` })
      file.abandon((worker) => !isOthers(worker, true), abandoned)
      store = file
      sweep()
    } catch (error) {
      problem(
        `stored responses cannot be kept in ${options.folder} (data.dir, DATA_DIR): ${messageOf(error)}. They are kept in memory until the gateway ends.`,
      )
      store = memoryStore(MOST)
    }
    return store
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
  const existing = (): ResponseStore | null => store ?? (existsSync(path) ? open() : null)
  existing()

  return {
    put: (response) => open().put(response),
    get: (id, owner) => tried(() => existing()?.get(id, owner)),
    holding: (item, owner) => tried(() => existing()?.holding(item, owner)),
    delete: (id, owner) => tried(() => existing()?.delete(id, owner)) ?? false,
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
