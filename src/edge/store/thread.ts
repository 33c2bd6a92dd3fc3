/**
 * The store's thread owns the database of responses: reads, writes, checkpoints and expiry. Writes that arrive together
 * are committed in one transaction. While another process holds the lock for writing, reads go on and writes are tried
 * again until the client cancels them. Loaded by `store-thread.mjs`.
 */
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { MessagePort } from 'node:worker_threads'
import { isObject, parseJson } from '../../core/json.ts'
import type { StoredResponse } from '../../core/stored.ts'
import { type Database, FILE, type Limits, openDatabase } from './database.ts'
import {
  type Answer,
  type FromThread,
  type Operation,
  problemOf,
  type ThreadOptions,
  type ToThread,
  type Write,
} from './messages.ts'

type PendingWrite = Write & { readonly number: number }

/** Writes of one transaction: a commit is a few percent of so many. */
const BATCH = { writes: 64, characters: 8 * 1_048_576 }
/** ms until a write is tried again while another process has the lock. */
const LOCKED_RETRY = 10
/** Bytes in the log at which it is moved into the file when no write has come for `quiet` ms; at `most` it is moved at once. */
const LOG = { moved: 4 * 1_048_576, most: 32 * 1_048_576, quiet: 10 }
/** ms between two parts of a sweep, between two sweeps, and until one that failed is tried again. */
const SWEEP = { pause: 20, next: 3_600_000, again: 10_000 }

/** Serves the port until the message `close`. */
export const serveStore = (port: MessagePort, options: ThreadOptions): void => {
  const thread = new StoreThread(port, options)
  port.on('message', (message: ToThread) => thread.receive(message))
}

class StoreThread {
  readonly #port: MessagePort
  readonly #folder: string
  readonly #worker: string
  #limits: Limits
  #database: Database | null = null
  /** The database was open before: if its files are gone now, they were deleted. */
  #wasOpen = false
  #writes: PendingWrite[] = []
  #answers: Answer[] = []
  #recreated = false
  #scheduled = false
  #locked: NodeJS.Timeout | null = null
  /** Bytes in the log that are not in the file, as far as this process wrote them. */
  #logged = 0
  #moving: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined

  constructor(port: MessagePort, { folder, worker, limits }: ThreadOptions) {
    this.#port = port
    this.#folder = folder
    this.#worker = worker
    this.#limits = limits
  }

  receive(message: ToThread): void {
    switch (message.do) {
      case 'put':
      case 'delete':
      case 'probe':
        this.#writes.push(message)
        return this.#schedule()
      case 'get':
      case 'turns':
      case 'holding':
        this.#answers.push(this.#read(message))
        return this.#schedule()
      case 'cancel':
        return this.#cancel(message.number)
      case 'limits':
        this.#limits = message.limits
        return
      case 'close':
        return this.#close()
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** Everything that arrived in this turn of the event loop is written and answered together. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (!this.#locked) this.#commitNext()
      this.#post()
    })
  }

  #post(waiting?: string): void {
    if (this.#answers.length === 0 && waiting === undefined) return
    const message: FromThread = {
      answers: this.#answers,
      ...(waiting !== undefined && { waiting }),
      ...(this.#recreated && { recreated: true }),
    }
    this.#answers = []
    this.#recreated = false
    this.#port.postMessage(message)
  }

  // ── Reads ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #read(operation: Operation & { readonly do: 'get' | 'turns' | 'holding' }): Answer {
    const { number } = operation
    try {
      // A read creates no file: without one nothing is stored.
      const exists = this.#database !== null || existsSync(join(this.#folder, FILE))
      const database = exists ? this.#opened() : null
      if (operation.do === 'holding') return { number, value: database?.holding(operation.item, operation.owner) }
      if (operation.do === 'get') return { number, value: database?.get(operation.id, operation.owner) }
      return { number, value: database?.turns(operation.id, operation.owner) ?? [] }
    } catch (error) {
      this.#dropAfter(error)
      return { number, problem: problemOf(error) }
    }
  }

  // ── Writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #commitNext(): void {
    const batch = this.#nextBatch()
    if (batch.length === 0) return
    // Files that were deleted while open take writes, and lose them at the end of the process. After the commit too: they
    // may have been deleted meanwhile.
    this.#dropMoved()
    let answers = this.#commit(batch)
    if (this.#dropMoved()) answers = this.#commit(batch)
    if (answers) {
      this.#writes.splice(0, batch.length)
      this.#answers.push(...answers)
      if (this.#writes.length > 0) this.#schedule()
      return
    }
    this.#post('database is locked')
    this.#locked = setTimeout(() => {
      this.#locked = null
      this.#schedule()
    }, LOCKED_RETRY)
  }

  #nextBatch(): readonly PendingWrite[] {
    let size = 0
    const end = this.#writes.findIndex((write, at) => {
      size += write.do === 'put' ? sizeOf(write.response) : 0
      return at === BATCH.writes || (at > 0 && size > BATCH.characters)
    })
    return end === -1 ? [...this.#writes] : this.#writes.slice(0, end)
  }

  /** Null: another process has the lock, and nothing was written. */
  #commit(batch: readonly PendingWrite[]): readonly Answer[] | null {
    try {
      return this.#transact(batch)
    } catch (error) {
      if (isBusy(error)) return null
      this.#dropAfter(error)
      if (batch.length === 1) return batch.map(({ number }) => ({ number, problem: problemOf(error) }))
    }
    // One of them may be to blame, such as one that is too large for the disk.
    const answers: Answer[] = []
    for (const write of batch) {
      try {
        answers.push(...this.#transact([write]))
      } catch (error) {
        this.#dropAfter(error)
        answers.push({ number: write.number, problem: problemOf(error) })
      }
    }
    return answers
  }

  #transact(batch: readonly PendingWrite[]): readonly Answer[] {
    const database = this.#opened()
    let bytes = 0
    const answers = database.transaction(() =>
      batch.map((write): Answer => {
        const { number } = write
        if (write.do === 'delete') return { number, value: database.delete(write.id, write.owner) }
        if (write.do === 'put') {
          const put = database.put(write.response)
          bytes += put.bytes
          return { number, value: put.replaced }
        }
        database.probe()
        return { number, value: null }
      }),
    )
    this.#wrote(bytes)
    return answers
  }

  #cancel(number: number): void {
    const at = this.#writes.findIndex((write) => write.number === number)
    if (at === -1) return
    this.#writes.splice(at, 1)
    this.#answers.push({ number, problem: 'cancelled' })
    this.#schedule()
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
    this.#recreated ||= missing && this.#wasOpen
    this.#database = database
    this.#wasOpen = true
    clearTimeout(this.#sweeping)
    // The file may be opened again, by this thread or the next, while this process has responses in progress.
    this.#sweep((worker) => worker !== this.#worker && !isOthers(worker, true))
    return database
  }

  /** Closes the database if its path does not lead to it any more; true: it did. */
  #dropMoved(): boolean {
    if (!this.#database?.moved()) return false
    this.#closeDatabase()
    return true
  }

  /** After an error that is not about one record the file is opened again: the disk may have been replaced or repaired. */
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
      // It is broken, which is why it is closed.
    }
    this.#database = null
  }

  /** Moves the log into the file when there is a pause: it waits for the disk, and writes wait for it. */
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
      // The disk is full, or another process does the same. The log keeps it until the next time.
    }
  }

  /** Deletes what has expired, a part at a time with writes in between; then ends what workers that are gone had in progress. */
  #sweep(isGone: (worker: string) => boolean): void {
    let next = SWEEP.next
    try {
      this.#database?.abandon(isGone, abandoned)
      if (this.#database?.sweep()) next = SWEEP.pause
    } catch {
      // Locked, or the disk does not work: the next write reports it.
      next = SWEEP.again
    }
    const later = next === SWEEP.again ? isGone : (worker: string) => isOthers(worker, false)
    this.#sweeping = setTimeout(() => this.#sweep(later), next)
  }

  #close(): void {
    if (this.#locked) clearTimeout(this.#locked)
    this.#locked = null
    // The lock may not come free, and a disk may not work: what cannot be written at once is answered as not written.
    for (let before = -1; this.#writes.length > 0 && this.#writes.length !== before; ) {
      before = this.#writes.length
      this.#commitNext()
    }
    if (this.#locked) clearTimeout(this.#locked)
    for (const { number } of this.#writes) this.#answers.push({ number, problem: 'the gateway is shutting down' })
    this.#post()
    this.#closeDatabase()
    this.#port.close()
  }
}

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const codeOf = (error: unknown): number =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode & 0xff : 0
const isBusy = (error: unknown): boolean => codeOf(error) === 5 || codeOf(error) === 6
const isFull = (error: unknown): boolean => codeOf(error) === 13

/**
 * Whether it is another process of this machine that is alive, or that is not: a process that replaces another leaves it
 * to answer what it has begun. Of other machines nothing is known.
 */
const isOthers = (worker: string, alive: boolean): boolean => {
  const [, ...host] = worker.split('@')
  const pid = Number.parseInt(worker, 10)
  return host.join('@') === hostname() && pid !== process.pid && isAlive(pid) === alive
}

const isAlive = (pid: number): boolean => {
  try {
    // Signal 0 sends nothing.
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** The response that was in progress when its process ended. */
const abandoned = ({ response }: StoredResponse): string => {
  const before = parseJson(response)
  return JSON.stringify({
    ...(isObject(before) && before),
    status: 'failed',
    error: { code: 'server_error', message: 'The gateway ended while it was answered. Ask again.' },
  })
}
