/**
 * The teams, keys, budgets and prices of a serving process: those of headgate.yaml and of the database. It reads `control.db`,
 * or the snapshot of a shared database, once at the start, and then receives changes from the thread.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type AccountRecords, type Directory, type FileAccounts, NO_ACCOUNTS } from '../../core/accounts.ts'
import type { Settings } from '../../core/settings.ts'
import { buildDirectory, changeDirectory } from '../../policy/accounts/directory.ts'
import { namesCredential } from '../../policy/accounts/named-credentials.ts'
import { problemOf } from '../../storage/sql/sqlite/errors.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { ControlClient } from './client.ts'
import { controlSettings } from './control-settings.ts'
import type {
  AccountsChange,
  AdminToken,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  Decision,
  StoredAccounts,
} from './messages.ts'
import { CONTROL_FILE, readAtStart } from './read-accounts.ts'

/** A record that was written. `kind` null: it was removed. `team`: the ID of the team whose viewers may know; null: none. */
export type WrittenRecord = { readonly kind: string | null; readonly id: string; readonly team: string | null }

export type KeyStoreOptions = ControlPlace & {
  /** Reads the file or the snapshot; null: there is none. Throws if the file cannot be read. */
  readonly read?: (place: ControlPlace) => StoredAccounts | null
  readonly file: () => FileAccounts
  readonly auth: () => Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>
  readonly auditDays: () => number
  /** The configuration itself requires keys: it names a credential. */
  readonly isConfigured: () => boolean
  /** The only keys that clients can have are stored: a database that is missing cannot be distinguished from one that never was. */
  readonly needsStore: () => boolean
  /**
   * Whether the process is ready although its database is missing: the operator has stated that keys are required, so a new
   * installation behind a balancer must be reachable for its first key. Calls are refused as in every other case.
   */
  readonly isReadyWithoutStore?: () => boolean
  /** ms since 1970. */
  readonly date: () => number
  /** The directory, the admin tokens or the decisions have changed. `records`: those that were written, where it is known. */
  readonly onChange?: (records: readonly WrittenRecord[]) => void
  /** The database cannot be used, or works again (null). The text contains no path. */
  readonly onState: (problem: string | null) => void
  /** The snapshot cannot be written, or is written again (null). */
  readonly onSnapshot?: (problem: string | null) => void
  readonly onTime?: OnStoreTime
}

/** The process itself runs an operation. */
const PROCESS: ControlContext = {
  actor: { kind: 'process', id: '', name: '' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}
/** ms between two checks whether another process has created the database, and until the thread is started. */
const TIMES = { check: 1_000, start: 1_000 }

/** The problem of a file that is needed. */
const MISSING =
  'there is no control.db in the data folder, so no client key is known. If its folder is not mounted or not the right one, correct that. In a new installation, create the first key: headgate keys create NAME'

const NOTHING: StoredAccounts = {
  seq: 0,
  records: { teams: [], keys: [], budgets: [], prices: [] },
  tokens: [],
  decisions: [],
}

export class KeyStore {
  readonly #client: ControlClient
  readonly #options: KeyStoreOptions
  /** Null until the database or its snapshot could be read. */
  #stored: StoredAccounts | null
  /** The database itself was read. */
  #isLoaded: boolean
  readonly #load = Promise.withResolvers<void>()
  #directory: Directory
  /** Without the file, whose records may hide some of the database. */
  #storedDirectory: Directory
  #tokens: readonly AdminToken[]
  #decisions: readonly Decision[]
  #timer: NodeJS.Timeout | null = null
  #problem: { readonly reason: string; readonly since: number } | null = null
  /** The file is missing or cannot be opened, though it could be before. */
  #isLost = false
  /** A credential was named, now or earlier. */
  #isNamed = false
  /** The thread has sent what it has read, and sends changes from now on. */
  #isFollowing = false

  /** Reads the file or the snapshot. If that fails, the thread tries again each second. */
  constructor(options: KeyStoreOptions) {
    this.#options = options
    const { folder, database, file, auth, auditDays } = options
    this.#stored = this.#read()
    this.#isLoaded = database === null && this.#stored !== null
    if (database && this.#stored === null)
      this.#problem = { reason: 'the keys have not been read so far', since: options.date() }
    const { seq, records, tokens, decisions } = this.#stored ?? NOTHING
    this.#directory = buildDirectory(file(), records)
    this.#storedDirectory = buildDirectory(NO_ACCOUNTS, records)
    this.#tokens = tokens
    this.#decisions = decisions
    this.#isNamed = this.#stored?.isNamed === true
    this.#observe()
    const hasFile = this.#stored !== NOTHING && this.#stored !== null
    this.#client = new ControlClient(
      {
        folder,
        database,
        settings: () => controlSettings({ accounts: file(), auth: auth(), auditDays: auditDays() }),
        earlier: () => ({ isKnown: this.#stored !== NOTHING, hasKeys: this.#storedDirectory.keys.size > 0 }),
        onChange: (change) => {
          if (this.#isNews(change.seq)) this.#apply(change)
        },
        onComplete: (complete) => {
          if (this.#isNews(complete.seq)) this.#replace(complete)
        },
        onState: (problem, isLost) => {
          this.#isLost = isLost
          this.#state(problem)
        },
        onSnapshot: options.onSnapshot,
        onTime: options.onTime,
      },
      hasFile ? seq : null,
    )
  }

  readonly run = (operation: ControlOperation, context: ControlContext): Promise<ControlResult> =>
    this.#client.run(operation, context)
  /** Whether there is a database; another process may have created it. */
  readonly isStored = (): boolean =>
    this.#options.database !== null || existsSync(join(this.#options.folder, CONTROL_FILE))
  readonly directory = (): Directory => this.#directory
  readonly tokens = (): readonly AdminToken[] => this.#tokens
  /** Decisions about credentials and circuits; some may have ended. */
  readonly decisions = (): readonly Decision[] => this.#decisions
  /** The database could not be found, opened or read: a key that is unknown may be one of its keys. */
  readonly isUnavailable = (): boolean => !this.#isLoaded || this.#isLost || this.#isMissing()
  /** A credential was named at some time of this installation: model calls need a key from then on. */
  readonly isNamed = (): boolean => this.#isNamed
  /** The configuration states that there are credentials: its settings, or an account of headgate.yaml. */
  readonly isStated = (): boolean =>
    this.#options.isConfigured() || namesCredential(buildDirectory(this.#options.file(), NOTHING.records))
  /** The keys are unknown, also from a snapshot of a shared database: the process cannot serve their clients. */
  readonly isLoading = (): boolean => {
    const { database, isReadyWithoutStore } = this.#options
    if (database !== null) return this.#stored === null
    return this.isUnavailable() && !(this.#isMissing() && this.#isLoaded && isReadyWithoutStore?.())
  }
  /** Resolves once the database was read. */
  readonly loaded: Promise<void> = this.#load.promise

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
    const isAsked = this.#options.database !== null || this.#isFollowing
    if (isAsked || (this.isStored() && !this.#readAgain())) await this.run({ do: 'refresh' }, PROCESS)
  }

  readonly used = (id: string, now: number): void => this.#client.used(id, now)

  /** The current problem of the database, or null. */
  problem(): { readonly reason: string; readonly since: number } | null {
    return this.#problem
  }

  /** The records of the database; null: it could not be read so far. */
  readonly stored = (): AccountRecords | null => (this.isUnavailable() ? null : this.#records())

  /** Starts the thread soon if there is a database, or once another process creates one. */
  start(): void {
    if (this.#options.database) return this.#client.start()
    const isPresent = this.#stored !== NOTHING
    this.#timer = setTimeout(
      () => (isPresent || this.isStored() ? this.#client.start() : this.start()),
      isPresent ? TIMES.start : TIMES.check,
    ).unref()
  }

  /** Uses the records of the current file and the current settings. */
  settingsChanged(): void {
    this.#directory = buildDirectory(this.#options.file(), this.#records())
    this.#observe()
    this.#client.settingsChanged()
    this.#options.onChange?.([])
  }

  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    await this.#client.close()
  }

  #isMissing(): boolean {
    return this.#stored === NOTHING && this.#options.needsStore()
  }

  /** Remembers that a credential was named: the end of the last one must not open the gateway. */
  #observe(): void {
    this.#isNamed ||= this.#options.isConfigured() || this.#tokens.length > 0 || namesCredential(this.#directory)
    if (this.#isMissing()) this.#state(MISSING)
    else if (this.#problem?.reason === MISSING) this.#state(null)
  }

  #read(): StoredAccounts | null {
    try {
      const { read = readAtStart, database } = this.#options
      return read(this.#options) ?? (database ? null : NOTHING)
    } catch (error) {
      this.#state(problemOf(error))
      return null
    }
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

  /** Whether a message of the thread has more than what was read before its first one. Later changes contain the rest. */
  #isNews(seq: number): boolean {
    // A shared database may have been restored since the snapshot was written.
    const isNews = this.#options.database !== null || this.#isFollowing || seq >= (this.#stored?.seq ?? 0)
    this.#isFollowing = true
    return isNews
  }

  /** The records of the database, without placeholders for teams of the file. */
  #records(): StoredAccounts['records'] {
    const isStored = ({ managed }: { readonly managed: string }) => managed === 'api'
    const { teams, keys, budgets, prices } = this.#storedDirectory
    return {
      teams: [...teams.values()].filter(isStored),
      keys: [...keys.values()].filter(isStored),
      budgets: [...budgets.values()].filter(isStored),
      prices: prices.filter(isStored),
    }
  }

  #apply({ records, removed, tokens, decisions }: AccountsChange): void {
    this.#directory = changeDirectory(this.#directory, records, removed)
    this.#storedDirectory = changeDirectory(this.#storedDirectory, records, removed)
    this.#tokens = tokens ?? this.#tokens
    this.#decisions = decisions ?? this.#decisions
    this.#observe()
    this.#options.onChange?.(writtenRecords({ records, removed, tokens, decisions }))
  }

  #replace(stored: StoredAccounts): void {
    this.#stored = stored
    this.#isLoaded = true
    this.#isLost = false
    this.#load.resolve()
    this.#directory = buildDirectory(this.#options.file(), stored.records)
    this.#storedDirectory = buildDirectory(NO_ACCOUNTS, stored.records)
    this.#tokens = stored.tokens
    this.#decisions = stored.decisions
    this.#isNamed ||= stored.isNamed === true
    this.#observe()
    if (this.#problem) this.#state(null)
    this.#options.onChange?.([])
  }

  #state(reason: string | null): void {
    if (reason === (this.#problem?.reason ?? null)) return
    this.#problem = reason === null ? null : { reason, since: this.#problem?.since ?? this.#options.date() }
    this.#options.onState(reason)
  }
}

const writtenRecords = ({
  records: { teams, keys, budgets, prices },
  removed,
  tokens,
  decisions,
}: Omit<AccountsChange, 'seq'>): readonly WrittenRecord[] => [
  ...teams.map(({ id }) => ({ kind: 'team', id, team: id })),
  ...keys.map(({ id, team }) => ({ kind: 'key', id, team })),
  ...budgets.map(({ id }) => ({ kind: 'budget', id, team: null })),
  ...prices.map(({ id }) => ({ kind: 'price', id, team: null })),
  ...removed.map((id) => ({ kind: null, id, team: null })),
  ...(tokens ? [{ kind: 'token', id: '', team: null }] : []),
  ...(decisions ? [{ kind: 'decision', id: '', team: null }] : []),
]
