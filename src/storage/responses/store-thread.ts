/**
 * The store's thread owns the database of responses: reads, writes, checkpoints and expiry. Writes that arrive together
 * are committed in one transaction. While another process holds the write lock, reads continue and writes are retried until
 * the client cancels them.
 */
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isObject, parseJson } from '../../core/json.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { isAlive } from '../files/process-alive.ts'
import { isBusy, isFull } from '../sql/sqlite/errors.ts'
import type { Emit, ThreadCall } from '../thread/thread-program.ts'
import { type Database, FILE, type Limits, openDatabase } from './database.ts'
import type { HoldingQuery, ResponseQuery, StoreEvents, StoreThreadOptions } from './messages.ts'

/** Answers a call. */
type Settle = () => void

/** A write that is not committed. `size`: in characters. `write` returns the bytes that it adds to the log. */
type PendingWrite = {
  readonly size: number
  readonly write: (database: Database) => { readonly bytes: number; readonly settle: Settle }
  readonly reject: (error: unknown) => void
}

/** Maximum writes per transaction, which makes the share of the commit a few percent. */
const BATCH = { writes: 64, characters: 8 * 1_048_576 }
/** ms until a write is retried while another process holds the lock. */
const LOCKED_RETRY = 10
/** Log size in bytes for a checkpoint once no write has come for `quiet` ms; from `most` on it happens at once. */
const LOG = { moved: 4 * 1_048_576, most: 32 * 1_048_576, quiet: 10 }
/** ms between two batches of a sweep, between two sweeps, and until a failed one is retried. */
const SWEEP = { pause: 20, next: 3_600_000, again: 10_000 }

export const program = (options: StoreThreadOptions, emit: Emit<StoreEvents>) => new StoreThread(options, emit)

class StoreThread {
  readonly #emit: Emit<StoreEvents>
  readonly #folder: string
  readonly #worker: string
  #limits: Limits
  #database: Database | null = null
  /** Whether the database has been open: if its files are missing now, they were deleted. */
  #wasOpen = false
  #writes: PendingWrite[] = []
  /** Calls of this turn whose results are known. */
  #settled: Settle[] = []
  /** Why the next write has to wait, if it does. */
  #waiting: string | null = null
  #scheduled = false
  #locked: NodeJS.Timeout | null = null
  /** Bytes in the log that are not in the file, as written by this process. */
  #logged = 0
  #moving: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined

  readonly methods = {
    get: ({ id, owner }: ResponseQuery) => this.#read((database) => database.get(id, owner), undefined),
    turns: ({ id, owner }: ResponseQuery) => this.#read((database) => database.turns(id, owner), []),
    holding: ({ item, owner }: HoldingQuery) => this.#read((database) => database.holding(item, owner), undefined),
    /**
     * A response that is stored late is kept: its client may continue it, and the next answer, which depends on it, may be
     * stored in time. A background response is refused and never runs.
     */
    put: (response: StoredResponse, call: ThreadCall) => {
      const cancelling = response.status === 'queued' ? call : null
      return this.#write((database) => ({ value: null, bytes: database.put(response) }), cancelling, sizeOf(response))
    },
    delete: ({ id, owner }: ResponseQuery, call: ThreadCall) =>
      this.#write((database) => ({ value: database.delete(id, owner), bytes: 0 }), call),
    /** Checks whether writing works. */
    probe: (_: null, call: ThreadCall) =>
      this.#write((database) => {
        database.probe()
        return { value: null, bytes: 0 }
      }, call),
    limits: (limits: Limits): void => {
      this.#limits = limits
    },
  }

  constructor({ folder, worker, limits }: StoreThreadOptions, emit: Emit<StoreEvents>) {
    this.#emit = emit
    this.#folder = folder
    this.#worker = worker
    this.#limits = limits
  }

  /** Everything received in this turn of the event loop is written and answered together. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (!this.#locked) this.#commitNext()
      this.#settle()
    })
  }

  #settle(): void {
    for (const settle of this.#settled.splice(0)) settle()
  }

  #wait(problem: string | null): void {
    if (problem === this.#waiting) return
    this.#waiting = problem
    this.#emit('waiting', problem)
  }

  // ── Reads ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A read does not create the file; without one nothing is stored. */
  #read<Value>(read: (database: Database) => Value, without: Value): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>()
    try {
      const exists = this.#database !== null || existsSync(join(this.#folder, FILE))
      const value = exists ? read(this.#opened()) : without
      this.#settled.push(() => resolve(value))
    } catch (error) {
      this.#dropAfter(error)
      this.#settled.push(() => reject(error))
    }
    this.#schedule()
    return promise
  }

  // ── Writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** `cancelling`: the call, if it may be cancelled. */
  #write<Value>(
    write: (database: Database) => { readonly value: Value; readonly bytes: number },
    cancelling: ThreadCall | null,
    size = 0,
  ): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>()
    const pending: PendingWrite = {
      size,
      write: (database) => {
        const { value, bytes } = write(database)
        return { bytes, settle: () => resolve(value) }
      },
      reject,
    }
    if (cancelling) cancelling.onCancel = () => this.#cancel(pending)
    this.#writes.push(pending)
    this.#schedule()
    return promise
  }

  #commitNext(): void {
    const batch = this.#nextBatch()
    if (batch.length === 0) return this.#wait(null)
    // Deleted files accept writes and lose them when the process ends. Checked again after the commit, since they may have
    // been deleted meanwhile.
    this.#dropMoved()
    let settled = this.#commit(batch)
    if (this.#dropMoved()) settled = this.#commit(batch)
    if (settled) {
      this.#writes.splice(0, batch.length)
      this.#settled.push(...settled)
      this.#wait(null)
      if (this.#writes.length > 0) this.#schedule()
      return
    }
    this.#wait('database is locked')
    this.#locked = setTimeout(() => {
      this.#locked = null
      this.#schedule()
    }, LOCKED_RETRY)
  }

  #nextBatch(): readonly PendingWrite[] {
    let size = 0
    const end = this.#writes.findIndex((write, at) => {
      size += write.size
      return at === BATCH.writes || (at > 0 && size > BATCH.characters)
    })
    return end === -1 ? [...this.#writes] : this.#writes.slice(0, end)
  }

  /** Null: another process holds the lock, and nothing was written. */
  #commit(batch: readonly PendingWrite[]): readonly Settle[] | null {
    try {
      return this.#transact(batch)
    } catch (error) {
      if (isBusy(error)) return null
      this.#dropAfter(error)
      if (batch.length === 1)
        return batch.map(
          ({ reject }) =>
            () =>
              reject(error),
        )
    }
    // One write may be the cause, for example because it is too large for the disk.
    const settled: Settle[] = []
    for (const write of batch) {
      try {
        settled.push(...this.#transact([write]))
      } catch (error) {
        this.#dropAfter(error)
        settled.push(() => write.reject(error))
      }
    }
    return settled
  }

  #transact(batch: readonly PendingWrite[]): readonly Settle[] {
    const database = this.#opened()
    const written = database.transaction(() => batch.map(({ write }) => write(database)))
    this.#wrote(written.reduce((sum, { bytes }) => sum + bytes, 0))
    return written.map(({ settle }) => settle)
  }

  #cancel(write: PendingWrite): void {
    const at = this.#writes.indexOf(write)
    if (at === -1) return
    this.#writes.splice(at, 1)
    write.reject(new Error('cancelled'))
  }

  // ── The file ───────────────────────────────────────────────────────────────────────────────────────────────────

  #opened(): Database {
    if (this.#database) return this.#database
    const missing = !existsSync(join(this.#folder, FILE))
    const database = openDatabase({
      folder: this.#folder,
      date: Date.now,
      worker: this.#worker,
      limits: () => this.#limits,
    })
    if (missing && this.#wasOpen) this.#emit('recreated', null)
    this.#database = database
    this.#wasOpen = true
    clearTimeout(this.#sweeping)
    // This process may have responses in progress when the file is opened again, by this thread or the next.
    this.#sweep((worker) => worker !== this.#worker && !isOthers(worker, true))
    return database
  }

  /** Closes the database if its path no longer leads to it; returns whether it did. */
  #dropMoved(): boolean {
    if (!this.#database?.moved()) return false
    this.#closeDatabase()
    return true
  }

  /** After an error that does not concern one record, the file is opened again: the disk may have been replaced. */
  #dropAfter(error: unknown): void {
    if (this.#database && !isBusy(error) && !isFull(error)) this.#closeDatabase()
  }

  #closeDatabase(): void {
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

  /** Moves the log into the file during a pause, since it waits for the disk and blocks writes. */
  #wrote(bytes: number): void {
    this.#logged += bytes
    if (this.#logged < LOG.moved) return
    if (this.#logged < LOG.most || !this.#moving) {
      clearTimeout(this.#moving)
      this.#moving = setTimeout(() => this.#checkpoint(), this.#logged < LOG.most ? LOG.quiet : 0)
    }
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

  /** Commits queued writes and closes the database. */
  close(): void {
    if (this.#locked) clearTimeout(this.#locked)
    this.#locked = null
    // The lock may be held and the disk may fail, so a write that does not succeed at once is answered as failed.
    for (let before = -1; this.#writes.length > 0 && this.#writes.length !== before; ) {
      before = this.#writes.length
      this.#commitNext()
    }
    if (this.#locked) clearTimeout(this.#locked)
    for (const { reject } of this.#writes) reject(new Error('the gateway is shutting down'))
    this.#settle()
    this.#closeDatabase()
  }
}

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)

/**
 * Whether `worker` is another process of this machine whose liveness is `alive`. False for other machines, about which nothing
 * is known. A live process that is being replaced finishes its own responses.
 */
const isOthers = (worker: string, alive: boolean): boolean => {
  const [, ...host] = worker.split('@')
  const pid = Number.parseInt(worker, 10)
  return host.join('@') === hostname() && pid !== process.pid && isAlive(pid) === alive
}

/** The response that was in progress when its process ended. */
const abandoned = ({ response }: StoredResponse): string => {
  const before = parseJson(response)
  return JSON.stringify({
    ...(isObject(before) && before),
    status: 'failed',
    error: {
      code: 'server_error',
      message: 'The gateway stopped while this response was in progress. Retry the request.',
    },
  })
}
