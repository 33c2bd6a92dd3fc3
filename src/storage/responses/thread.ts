/**
 * The store's thread owns the database of responses: reads, writes, checkpoints and expiry. Writes that arrive together
 * are committed in one transaction. While another process holds the write lock, reads continue and writes are retried until
 * the client cancels them. Loaded by `store-thread.mjs`.
 */
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { MessagePort } from 'node:worker_threads'
import { isObject, parseJson } from '../../core/json.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { isAlive } from '../files/process-alive.ts'
import { isBusy, isFull, problemOf } from '../sql/sqlite/errors.ts'
import { type Database, FILE, type Limits, openDatabase } from './database.ts'
import type { FromThread, Operation, StoreAnswer, StoreWrite, ThreadOptions, ToThread } from './messages.ts'

type PendingWrite = StoreWrite & { readonly number: number }

/** Maximum writes per transaction, which makes the share of the commit a few percent. */
const BATCH = { writes: 64, characters: 8 * 1_048_576 }
/** ms until a write is retried while another process holds the lock. */
const LOCKED_RETRY = 10
/** Log size in bytes for a checkpoint once no write has come for `quiet` ms; from `most` on it happens at once. */
const LOG = { moved: 4 * 1_048_576, most: 32 * 1_048_576, quiet: 10 }
/** ms between two batches of a sweep, between two sweeps, and until a failed one is retried. */
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
  /** Whether the database has been open: if its files are missing now, they were deleted. */
  #wasOpen = false
  #writes: PendingWrite[] = []
  #answers: StoreAnswer[] = []
  #recreated = false
  #scheduled = false
  #locked: NodeJS.Timeout | null = null
  /** Bytes in the log that are not in the file, as written by this process. */
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

  /** Everything received in this turn of the event loop is written and answered together. */
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

  #read(operation: Operation & { readonly do: 'get' | 'turns' | 'holding' }): StoreAnswer {
    const { number } = operation
    try {
      // A read does not create the file; without one nothing is stored.
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
    // Deleted files accept writes and lose them when the process ends. Checked again after the commit, since they may have
    // been deleted meanwhile.
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

  /** Null: another process holds the lock, and nothing was written. */
  #commit(batch: readonly PendingWrite[]): readonly StoreAnswer[] | null {
    try {
      return this.#transact(batch)
    } catch (error) {
      if (isBusy(error)) return null
      this.#dropAfter(error)
      if (batch.length === 1) return batch.map(({ number }) => ({ number, problem: problemOf(error) }))
    }
    // One write may be the cause, for example because it is too large for the disk.
    const answers: StoreAnswer[] = []
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

  #transact(batch: readonly PendingWrite[]): readonly StoreAnswer[] {
    const database = this.#opened()
    let bytes = 0
    const answers = database.transaction(() =>
      batch.map((write): StoreAnswer => {
        const { number } = write
        if (write.do === 'delete') return { number, value: database.delete(write.id, write.owner) }
        if (write.do === 'put') {
          bytes += database.put(write.response)
          return { number, value: null }
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

  #close(): void {
    if (this.#locked) clearTimeout(this.#locked)
    this.#locked = null
    // The lock may be held and the disk may fail, so a write that does not succeed at once is answered as failed.
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
