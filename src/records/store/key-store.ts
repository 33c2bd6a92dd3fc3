/**
 * The teams, keys, budgets and prices of a serving process: those of headgate.yaml and of the database. It reads `control.db`,
 * or the snapshot of a shared database, once at the start, and then receives changes from the thread.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type AccountRecords, type Directory, type FileAccounts, NO_ACCOUNTS } from '../../core/accounts.ts'
import type { Settings } from '../../core/settings.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { namesCredential } from '../../policy/accounts/named-credentials.ts'
import { problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { ControlClient } from './control-client.ts'
import { controlSettings } from './control-settings.ts'
import { FreshReads } from './fresh-reads.ts'
import { KnownRecords } from './known-records.ts'
import { CONTROL_FILE, readAtStart } from './read-accounts.ts'
import type {
  AccountsChange,
  AdminToken,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  Decision,
  StoredAccounts,
} from './record-operations.ts'
import { StoreAvailability, type StoreAvailabilityOptions } from './store-availability.ts'

/** A record that was written. `kind` null: it was removed. `team`: the ID of the team whose viewers may know; null: none. */
export type WrittenRecord = { readonly kind: string | null; readonly id: string; readonly team: string | null }

export type KeyStoreOptions = ControlPlace &
  StoreAvailabilityOptions & {
    /** Reads the file or the snapshot; null: there is none. Throws if the file cannot be read. */
    readonly read?: (place: ControlPlace) => StoredAccounts | null
    readonly file: () => FileAccounts
    readonly auth: () => Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>
    readonly auditDays: () => number
    /** The configuration itself requires keys: it names a credential. */
    readonly isConfigured: () => boolean
    /** The directory, the admin tokens or the decisions have changed. `records`: those that were written, where it is known. */
    readonly onChange?: (records: readonly WrittenRecord[]) => void
    /** The snapshot cannot be written, or is written again (null). */
    readonly onSnapshot?: (problem: string | null) => void
    readonly onTime?: OnStoreTime
  }

/** The process itself runs an operation. */
export const PROCESS: ControlContext = {
  actor: { kind: 'process', id: '', name: '' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}
/** ms between two checks whether another process has created the database, and until the thread is started. */
const TIMES = { check: 1_000, start: 1_000 }

const NOTHING: StoredAccounts = {
  seq: 0,
  records: NO_ACCOUNTS,
  tokens: [],
  decisions: [],
}

export class KeyStore {
  readonly #client: ControlClient
  readonly #options: KeyStoreOptions
  readonly #known: KnownRecords
  readonly #availability: StoreAvailability
  #timer: NodeJS.Timeout | null = null
  /** A credential was named, now or earlier. */
  #isNamed = false

  /** Reads the file or the snapshot. If that fails, the thread tries again each second. */
  constructor(options: KeyStoreOptions) {
    this.#options = options
    const { folder, database, file, auth, auditDays } = options
    this.#availability = new StoreAvailability(options)
    const stored = storedAtStart(options, this.#availability)
    this.#availability.started(stored === null ? 'unread' : stored === NOTHING ? 'absent' : 'read')
    this.#known = new KnownRecords({ file, isShared: database !== null }, stored ?? NOTHING)
    this.#isNamed = stored?.isNamed === true
    this.#observe()
    this.#client = new ControlClient(
      {
        folder,
        database,
        settings: () => controlSettings({ accounts: file(), auth: auth(), auditDays: auditDays() }),
        earlier: () => ({ isKnown: this.#availability.content !== 'absent', hasKeys: this.#known.hasKeys }),
        onChange: (change) => {
          if (!this.#known.isNews(change.seq)) return
          this.#known.apply(change)
          this.#observe()
          options.onChange?.(writtenRecords(change))
        },
        onComplete: (complete) => {
          if (this.#known.isNews(complete.seq)) this.#replace(complete)
        },
        onState: (problem, isLost) => this.#availability.lost(problem, isLost),
        onSnapshot: options.onSnapshot,
        onTime: options.onTime,
      },
      this.#availability.content === 'read' && stored ? stored.seq : null,
    )
  }

  readonly run = (operation: ControlOperation, context: ControlContext): Promise<ControlResult> =>
    this.#client.run(operation, context)
  /** Whether there is a database; another process may have created it. */
  readonly isStored = (): boolean =>
    this.#options.database !== null || existsSync(join(this.#options.folder, CONTROL_FILE))
  readonly directory = (): Directory => this.#known.directory
  readonly tokens = (): readonly AdminToken[] => this.#known.tokens
  /** Decisions about credentials and circuits; some may have ended. */
  readonly decisions = (): readonly Decision[] => this.#known.decisions
  /** The database could not be found, opened or read: a key that is unknown may be one of its keys. */
  readonly isUnavailable = (): boolean => this.#availability.isUnavailable
  /** A credential was named at some time of this installation: model calls need a key from then on. */
  readonly isNamed = (): boolean => this.#isNamed
  /** The configuration states that there are credentials: its settings, or an account of headgate.yaml. */
  readonly isStated = (): boolean =>
    this.#options.isConfigured() || namesCredential(buildDirectory(this.#options.file(), NOTHING.records))
  /** The keys are unknown, also from a snapshot of a shared database: the process cannot serve their clients. */
  readonly isLoading = (): boolean => this.#availability.isLoading
  /** Resolves once the database was read. */
  get loaded(): Promise<void> {
    return this.#availability.loaded
  }

  /**
   * Begins to read a shared database, and waits for it for `limit` ms: keys may have been revoked since the snapshot was
   * written. Resolves at once for a file, which was read already.
   */
  async readShared(limit: number): Promise<void> {
    if (!this.#options.database) return
    this.#client.start()
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, limit)
    await Promise.race([this.loaded, promise])
    clearTimeout(timer)
  }

  /** Returns when this process has the changes that are stored so far. */
  readonly refresh = async (): Promise<void> => {
    const isAsked = this.#options.database !== null || this.#known.isFollowing
    if (isAsked || (this.isStored() && !this.#readAgain())) await this.run({ do: 'refresh' }, PROCESS)
  }

  /**
   * Reads what others have stored, for a credential that is not known. Resolves with whether that was possible, within 2 s; many
   * calls are few reads.
   */
  readonly lookUp = async (): Promise<boolean> => {
    const mayBeStored = this.#options.database !== null || this.isStored()
    return !mayBeStored || (this.problem() === null && this.#fresh.read())
  }
  readonly #fresh = new FreshReads({
    read: async () => (await this.run({ do: 'refresh' }, PROCESS)).ok,
    now: () => performance.now(),
    after: (ms, run) => void setTimeout(run, ms).unref(),
  })

  readonly used = (id: string, now: number): void => this.#client.used(id, now)

  /** The current problem of the database, or null. */
  problem(): { readonly reason: string; readonly since: number } | null {
    return this.#availability.problem
  }

  /** The records of the database; null: it could not be read so far. */
  readonly stored = (): AccountRecords | null => (this.isUnavailable() ? null : this.#known.stored())

  /** Starts the thread soon if there is a database, or once another process creates one. */
  start(): void {
    if (this.#options.database) return this.#client.start()
    const isPresent = this.#availability.content !== 'absent'
    this.#timer = setTimeout(
      () => (isPresent || this.isStored() ? this.#client.start() : this.start()),
      isPresent ? TIMES.start : TIMES.check,
    ).unref()
  }

  /** Uses the records of the current file and the current settings. */
  settingsChanged(): void {
    this.#known.fileChanged()
    this.#observe()
    this.#client.settingsChanged()
    this.#options.onChange?.([])
  }

  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    await this.#client.close()
  }

  /** Remembers that a credential was named: the end of the last one must not open the gateway. */
  #observe(): void {
    this.#isNamed ||=
      this.#options.isConfigured() || this.#known.tokens.length > 0 || namesCredential(this.#known.directory)
    this.#availability.checkMissing()
  }

  /** Reads all rows, because the thread takes longer to start. Returns whether they could be read. */
  #readAgain(): boolean {
    const { read = readAtStart } = this.#options
    this.#client.start()
    try {
      const stored = read(this.#options)
      if (stored) this.#replace(stored)
      return true
    } catch {
      // The thread waits longer for a lock, and reports what it finds.
      return false
    }
  }

  #replace(stored: StoredAccounts): void {
    this.#known.replace(stored)
    this.#availability.read()
    this.#isNamed ||= stored.isNamed === true
    this.#observe()
    this.#availability.report(null)
    this.#options.onChange?.([])
  }
}

/** Null: the file could not be read, or there is no snapshot. */
const storedAtStart = (options: KeyStoreOptions, availability: StoreAvailability): StoredAccounts | null => {
  try {
    const { read = readAtStart, database } = options
    return read(options) ?? (database ? null : NOTHING)
  } catch (error) {
    availability.report(problemOf(error))
    return null
  }
}

const writtenRecords = ({
  records: { teams, keys, budgets, prices, routes },
  removed,
  tokens,
  decisions,
}: Omit<AccountsChange, 'seq'>): readonly WrittenRecord[] => [
  ...teams.map(({ id }) => ({ kind: 'team', id, team: id })),
  ...keys.map(({ id, team }) => ({ kind: 'key', id, team })),
  ...budgets.map(({ id }) => ({ kind: 'budget', id, team: null })),
  ...prices.map(({ id }) => ({ kind: 'price', id, team: null })),
  ...routes.map(({ id, team }) => ({ kind: 'route', id, team })),
  ...removed.map((id) => ({ kind: null, id, team: null })),
  ...(tokens ? [{ kind: 'token', id: '', team: null }] : []),
  ...(decisions ? [{ kind: 'decision', id: '', team: null }] : []),
]
