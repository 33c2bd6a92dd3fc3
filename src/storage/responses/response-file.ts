/**
 * The file of responses: it is opened when it is first needed, and again after it was deleted or replaced. While it is open,
 * its log is moved into it in pauses, and expired responses are deleted.
 */
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isAlive } from '../files/process-alive.ts'
import { isBusy, isFull } from '../sql/sqlite/sqlite-problem.ts'
import { abandoned } from './abandoned.ts'
import { type Database, FILE, openDatabase } from './database.ts'
import type { Limits, StoreThreadOptions } from './store-queries.ts'

/** Log size in bytes for a checkpoint once no write has come for `quiet` ms; from `most` on it happens at once. */
const LOG = { moved: 4 * 1_048_576, most: 32 * 1_048_576, quiet: 10 }
/** ms between two batches of a sweep, between two sweeps, and until a failed one is retried. */
const SWEEP = { pause: 20, next: 3_600_000, again: 10_000 }

export class ResponseFile {
  readonly #folder: string
  readonly #worker: string
  /** The files were deleted or moved, and new ones have been created. */
  readonly #onRecreated: () => void
  limits: Limits
  #database: Database | null = null
  /** Whether the database has been open: if its files are missing now, they were deleted. */
  #wasOpen = false
  /** Bytes in the log that are not in the file, as written by this process. */
  #logged = 0
  #moving: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined

  constructor({ folder, worker, limits }: Omit<StoreThreadOptions, 'database'>, onRecreated: () => void) {
    this.#folder = folder
    this.#worker = worker
    this.limits = limits
    this.#onRecreated = onRecreated
  }

  /** It is open or can be opened. `open` creates it otherwise. */
  get exists(): boolean {
    return this.#database !== null || existsSync(join(this.#folder, FILE))
  }

  open(): Database {
    if (this.#database) return this.#database
    const missing = !existsSync(join(this.#folder, FILE))
    const database = openDatabase({
      folder: this.#folder,
      date: Date.now,
      worker: this.#worker,
      limits: () => this.limits,
      isGone: (worker) => worker !== this.#worker && !isOthers(worker, true),
    })
    if (missing && this.#wasOpen) this.#onRecreated()
    this.#database = database
    this.#wasOpen = true
    clearTimeout(this.#sweeping)
    // This process may have responses in progress when the file is opened again, by this thread or the next.
    this.#sweep((worker) => worker !== this.#worker && !isOthers(worker, true))
    return database
  }

  /** Closes the database if its path no longer leads to it; returns whether it did. */
  dropMoved(): boolean {
    if (!this.#database?.moved()) return false
    this.close()
    return true
  }

  /** After an error that does not concern one record, the file is opened again: the disk may have been replaced. */
  dropAfter(error: unknown): void {
    if (this.#database && !isBusy(error) && !isFull(error)) this.close()
  }

  /** Moves the log into the file during a pause, since it waits for the disk and blocks writes. */
  wrote(bytes: number): void {
    this.#logged += bytes
    if (this.#logged < LOG.moved) return
    if (this.#logged < LOG.most || !this.#moving) {
      clearTimeout(this.#moving)
      this.#moving = setTimeout(() => this.#checkpoint(), this.#logged < LOG.most ? LOG.quiet : 0)
    }
  }

  close(): void {
    clearTimeout(this.#sweeping)
    clearTimeout(this.#moving)
    this.#moving = undefined
    this.#logged = 0
    try {
      this.#database?.close()
    } catch {
      // Already broken, which is why it is closed.
    }
    this.#database = null
  }

  #checkpoint(): void {
    this.#moving = undefined
    this.#logged = 0
    try {
      this.#database?.checkpoint()
    } catch {
      // The disk is full, or another process is doing the same. The log keeps the data until the next time.
    }
  }

  /** Deletes expired responses in batches, with writes in between; then marks unfinished ones of ended workers as failed. */
  #sweep(isGone: (worker: string) => boolean): void {
    let next = SWEEP.next
    try {
      this.#database?.abandon(isGone, abandoned)
      if (this.#database?.sweep()) next = SWEEP.pause
    } catch {
      // Locked, or the disk has failed: the next write reports it.
      next = SWEEP.again
    }
    const later = next === SWEEP.again ? isGone : (worker: string) => isOthers(worker, false)
    this.#sweeping = setTimeout(() => this.#sweep(later), next)
  }
}

/**
 * Whether `worker` is another process of this machine whose liveness is `alive`. False for other machines, about which nothing
 * is known. A live process that is being replaced finishes its own responses.
 */
const isOthers = (worker: string, alive: boolean): boolean => {
  const [, ...host] = worker.split('@')
  const pid = Number.parseInt(worker, 10)
  return host.join('@') === hostname() && pid !== process.pid && isAlive(pid) === alive
}
