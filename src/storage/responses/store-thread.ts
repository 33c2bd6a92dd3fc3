/** The program of the store's thread: a file in the data folder, or Postgres, whose part is loaded on use. */
import type { ResponseName, StoredResponse } from '../../core/stored-response.ts'
import { isBusy } from '../sql/sqlite/sqlite-problem.ts'
import type { Emit, ThreadCall, ThreadService } from '../thread/thread-program.ts'
import { type Database, isUnfinished } from './database.ts'
import { ResponseFile } from './response-file.ts'
import { type StoreEvents, type StoreMethods, type StoreThreadOptions, sizeOf } from './store-queries.ts'

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

/** ms between two looks for what other processes ask. */
const NEWS = 250

export const program = async (
  options: StoreThreadOptions,
  emit: Emit<StoreEvents>,
): Promise<ThreadService<StoreMethods>> => {
  const { database } = options
  if (database === null) return new StoreThread(options, emit)
  const { SharedStore } = await import('./shared-store.ts')
  const store = new SharedStore({ ...options, database }, emit)
  // The first call does not wait for the tables within its own limit.
  await store.open().catch(() => {})
  return store
}

class StoreThread {
  readonly #emit: Emit<StoreEvents>
  readonly #file: ResponseFile
  #writes: PendingWrite[] = []
  /** Calls of this turn whose results are known. */
  #settled: Settle[] = []
  /** Why the next write has to wait, if it does. */
  #waiting: string | null = null
  #scheduled = false
  #locked: NodeJS.Timeout | null = null

  /** What this process runs, by owner and ID. */
  readonly #running = new Map<string, ResponseName>()
  #looking: NodeJS.Timeout | null = null
  #hasWritten = false

  readonly methods: StoreMethods = {
    get: ({ id, owner }) => this.#read((database) => database.get(id, owner), undefined),
    turns: ({ id, owner }) => this.#read((database) => database.turns(id, owner), []),
    holding: ({ item, owner }) => this.#read((database) => database.holding(item, owner), undefined),
    put: (response, call) => this.#put(response, call),
    delete: ({ id, owner }, call) => this.#change((database) => database.delete(id, owner), call),
    ask: async ({ asked, ...name }, call) =>
      this.#file.exists && this.#change((database) => database.runs.ask(name, asked), call),
    events: (query) => this.#read((database) => database.runs.events(query), { isRunning: false, lines: [] }),
    addEvents: (events, call) => this.#store((database) => database.runs.addEvents(events), call, events.lines.length),
    claim: (query, call) => this.#change((database) => database.claims.claim(query), call),
    keep: (kept, call) => this.#store((database) => database.claims.keep(kept), call, kept.answer.body.length),
    release: (name) => this.#store((database) => database.claims.release(name), null),
    // A file that nothing was written to is not created.
    probe: async (_, call) => (this.#hasWritten ? this.#store((database) => database.probe(), call) : null),
    limits: (limits): void => {
      this.#file.limits = limits
    },
    // Of processes that share a file, none runs again what another one has left behind.
    retire() {},
  }

  constructor(options: StoreThreadOptions, emit: Emit<StoreEvents>) {
    this.#emit = emit
    this.#file = new ResponseFile(options, () => emit('recreated', null))
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
      const value = this.#file.exists ? read(this.#file.open()) : without
      this.#settled.push(() => resolve(value))
    } catch (error) {
      this.#file.dropAfter(error)
      this.#settled.push(() => reject(error))
    }
    this.#schedule()
    return promise
  }

  // ── Writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * A response that is stored late is kept: its client may continue it, and the next answer, which depends on it, may be
   * stored in time. A background response is refused and never runs.
   */
  async #put(response: StoredResponse, call: ThreadCall): Promise<null> {
    const cancelling = response.status === 'queued' ? call : null
    await this.#write((database) => ({ value: null, bytes: database.put(response) }), cancelling, sizeOf(response))
    const { id, owner, status, isRun } = response
    if (isRun && isUnfinished(status)) this.#running.set(`${owner} ${id}`, { id, owner })
    else this.#running.delete(`${owner} ${id}`)
    this.#lookLater()
    return null
  }

  #change<Value>(change: (database: Database) => Value, call: ThreadCall): Promise<Value> {
    return this.#write((database) => ({ value: change(database), bytes: 0 }), call)
  }

  /** `size`: bytes that it adds to the log. */
  #store(store: (database: Database) => unknown, call: ThreadCall | null, size = 0): Promise<null> {
    return this.#write(
      (database) => {
        store(database)
        return { value: null, bytes: size }
      },
      call,
      size,
    )
  }

  #lookLater(): void {
    if (this.#looking || this.#running.size === 0) return
    this.#looking = setTimeout(() => this.#look(), NEWS)
  }

  #look(): void {
    this.#looking = null
    try {
      const news = this.#file.exists ? this.#file.open().runs.news([...this.#running.values()]) : null
      if (news && news.stop.length + news.follow.length > 0) this.#emit('news', news)
    } catch (error) {
      this.#file.dropAfter(error)
    }
    this.#lookLater()
  }

  /** `cancelling`: the call, if it may be cancelled. */
  #write<Value>(
    write: (database: Database) => { readonly value: Value; readonly bytes: number },
    cancelling: ThreadCall | null,
    size = 0,
  ): Promise<Value> {
    this.#hasWritten = true
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
    this.#file.dropMoved()
    let settled = this.#commit(batch)
    if (this.#file.dropMoved()) settled = this.#commit(batch)
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
      this.#file.dropAfter(error)
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
        this.#file.dropAfter(error)
        settled.push(() => write.reject(error))
      }
    }
    return settled
  }

  #transact(batch: readonly PendingWrite[]): readonly Settle[] {
    const database = this.#file.open()
    const written = database.transaction(() => batch.map(({ write }) => write(database)))
    this.#file.wrote(written.reduce((sum, { bytes }) => sum + bytes, 0))
    return written.map(({ settle }) => settle)
  }

  #cancel(write: PendingWrite): void {
    const at = this.#writes.indexOf(write)
    if (at === -1) return
    this.#writes.splice(at, 1)
    write.reject(new Error('cancelled'))
  }

  /** Commits queued writes and closes the database. */
  close(): void {
    if (this.#looking) clearTimeout(this.#looking)
    this.#running.clear()
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
    this.#file.close()
  }
}
