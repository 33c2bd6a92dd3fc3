/**
 * The ledger of the serving process: the writer of its journal and the client of the bookkeeper. Both are loaded with the
 * first model call, or after a start that finds earlier records.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AttemptOpened, Journal, JournalListener } from '../../core/journal.ts'
import type { Settings } from '../../core/settings.ts'
import {
  type ExportedSignal,
  exportedSignals,
  type TelemetryOptions,
  type TelemetryState,
} from '../../observe/otlp/telemetry-options.ts'
import { sharedDatabase } from '../../storage/sql/shared-database.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { USAGE_FILE } from '../journal/file.ts'
import type { JournalWriter } from '../journal/journal-writer.ts'
import type { LedgerClient, LedgerClientOptions } from './ledger-client.ts'
import { type LedgerEvent, type LedgerProblem, LedgerProblems } from './ledger-problems.ts'
import type { Adjusted, Adjustment, CountedPeriodOf, LedgerSum, UsageLimits } from './ledger-store.ts'
import { type BookkeeperProgress, COMMIT, NO_PROGRESS } from './progress.ts'

export type UsageLedgerOptions = {
  /** The settings at the start of the process; those of retention are read again. */
  readonly settings: () => Pick<Settings, 'data' | 'database' | 'ledger' | 'usage'>
  /** Present where several processes serve the port. */
  readonly worker?: { readonly number: number; readonly bookkeeper: SharedBookkeeper } | undefined
  /** The export of telemetry. Absent or null: none. */
  readonly telemetry?: TelemetryOptions | null
  readonly date: () => number
  /** Not called in a worker: the process of the bookkeeper reports for all. */
  readonly report: (event: LedgerEvent) => void
  /** Times of the bookkeeper of this process. */
  readonly onTime?: OnStoreTime
}

/** The bookkeeper of all workers, in another process. */
export type SharedBookkeeper = {
  /** This worker writes a journal from now on, or the retention has changed. `process`: its name in the journal. */
  readonly openLedger: (ledger: { readonly process: string; readonly options: SharedLedgerOptions }) => void
  /** Why this worker cannot write its journal; null: it can again. */
  readonly journalProblem: (problem: string | null) => void
  /** Stores everything that is in the journals now. Returns why it cannot, or null. */
  readonly flush: () => Promise<string | null>
  /** Stores an adjustment; a text is the problem. */
  readonly adjust: (adjustment: Adjustment) => Promise<Adjusted | string>
  /** What was exported of each signal; null: the process does not answer. */
  readonly telemetry: () => Promise<TelemetryState | null>
}

/** The options of the bookkeeper that the configuration determines. */
export type SharedLedgerOptions = Pick<
  LedgerClientOptions,
  'folder' | 'journal' | 'database' | 'node' | 'timezone' | 'syncs' | 'interval' | 'telemetry'
> & {
  readonly limits: UsageLimits
}

/**
 * The state of the bookkeeper in another process. `problem`: why usage cannot be stored; `unknown`: why the earlier usage of
 * budgets is not known.
 */
export type SharedLedgerState = {
  readonly problem: string | null
  readonly lagMs: number
  readonly unknown: string | null
}

type LedgerState = { readonly lagMs: number; readonly dropped: number }

const MIB = 1_048_576
/** Name of this node in `usage.db`, which only this machine writes. */
const NODE = 'local'

type LoadedLedger = {
  readonly writer: JournalWriter
  /** Null: another process stores the journal. */
  readonly client: LedgerClient | null
}

export class UsageLedger implements Journal {
  readonly #options: UsageLedgerOptions
  #loaded: LoadedLedger | null = null
  #loading: Promise<LoadedLedger> | null = null
  /** Calls that wait until the writer is loaded. */
  #waiting: ((writer: JournalWriter) => void)[] = []
  readonly #problems: LedgerProblems
  /** The state of the bookkeeper of all workers. */
  #shared: SharedLedgerState = { problem: null, lagMs: 0, unknown: null }
  /** ms since 1970. */
  #unknownSince = 0
  /** The name of this process in the journal, once it is loaded. */
  #process = ''
  #isClosed = false

  constructor(options: UsageLedgerOptions) {
    this.#options = options
    const { date, report, worker } = options
    this.#problems = new LedgerProblems({ date, report: worker ? () => {} : report })
  }

  /** Why usage cannot be recorded or stored, or null. */
  problem(): LedgerProblem | null {
    return this.#problems.problem
  }

  /** Why the earlier usage of budgets is not known to the process that decides about them; null: it is. */
  unknownBudgets(): LedgerProblem | null {
    const { unknown } = this.#shared
    return unknown === null ? null : { reason: unknown, since: this.#unknownSince }
  }

  /** `lagMs`: age of the oldest record that is not stored. `dropped`: records that could not be written. */
  state(): LedgerState {
    const { writer, client } = this.#loaded ?? {}
    return { lagMs: client?.progress.lagMs ?? this.#shared.lagMs, dropped: writer?.dropped ?? 0 }
  }

  /** What the bookkeeper of this process has stored; nothing if another process stores the journal. */
  progress(): BookkeeperProgress {
    return this.#loaded?.client?.progress ?? NO_PROGRESS
  }

  /** What was exported of each signal since the start of the bookkeeper; null: its process does not answer. */
  async telemetry(): Promise<readonly ExportedSignal[] | null> {
    const { worker, telemetry = null } = this.#options
    const state = worker ? await worker.bookkeeper.telemetry() : this.progress().telemetry
    return state && exportedSignals(telemetry, state)
  }

  openAttempt(record: AttemptOpened, listener: JournalListener): void {
    this.#withWriter((writer) => writer.openAttempt(record, listener))
  }

  append(record: Parameters<Journal['append']>[0]): void {
    this.#withWriter((writer) => writer.append(record))
  }

  /** Stores everything that is recorded now. Returns why it cannot, or null. */
  async flush(): Promise<string | null> {
    const { worker } = this.#options
    // Nothing was recorded yet.
    if (!this.#loading) return null
    const { writer, client } = await this.#loading
    writer.flush()
    return client ? client.flush() : (worker?.bookkeeper.flush() ?? null)
  }

  /**
   * Stores an adjustment of a budget or a key, after everything that is recorded. A reset computes its amount. A text is the
   * problem.
   */
  async adjust(given: Omit<Adjustment, 'process'>): Promise<Adjusted | string> {
    const { worker } = this.#options
    const { client, writer } = await this.#load()
    writer.flush()
    const adjustment = { ...given, process: this.#process }
    return client ? client.adjust(adjustment) : (worker?.bookkeeper.adjust(adjustment) ?? UNREACHABLE)
  }

  /** The bookkeeper in another process has reported its state. */
  sharedState(state: SharedLedgerState): void {
    if (this.#shared.unknown === null) this.#unknownSince = this.#options.date()
    this.#shared = state
    this.#follow()
  }

  /**
   * Stores what is recorded so far, within 30 s, and returns what budget counters have spent in periods that began at
   * `since` or later, after the periods of `counted` are counted; null if another process stores the journal. A text is the
   * problem.
   */
  async spentSince(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[] | string | null> {
    const { client, writer } = await this.#load()
    if (!client) return null
    writer.flush()
    return (await client.flush()) ?? client.sums(since, counted)
  }

  /**
   * Stores what earlier processes have recorded, and upgrades their database: otherwise reports lack it until the first call.
   * Of several workers the first one does it.
   */
  async openEarlier(): Promise<void> {
    const { settings, worker } = this.#options
    if (settings().usage.ledger && (worker?.number ?? 1) === 1 && hasEarlier(settings())) await this.#load()
  }

  /** Begins to record: another process that stores the journal is informed of it. */
  async open(): Promise<void> {
    await this.#load()
  }

  /** The retention has changed. */
  limitsChanged(): void {
    if (this.#loaded?.client) this.#loaded.client.limitsChanged()
    else if (this.#loaded) this.#openShared()
  }

  /** Writes and stores the rest, within 5 s. */
  async close(): Promise<void> {
    const loaded = await this.#loading
    this.#isClosed = true
    loaded?.writer.close()
    await loaded?.client?.close()
  }

  #withWriter(use: (writer: JournalWriter) => void): void {
    if (this.#loaded) return use(this.#loaded.writer)
    if (this.#isClosed) return
    this.#waiting.push(use)
    void this.#load()
  }

  #load(): Promise<LoadedLedger> {
    this.#loading ??= this.#create()
    return this.#loading
  }

  async #create(): Promise<LoadedLedger> {
    const [{ JournalWriter }, { LedgerClient }, { processName, thisProcess }] = await Promise.all([
      import('../journal/journal-writer.ts'),
      import('./ledger-client.ts'),
      import('../journal/segment-files.ts'),
    ])
    const { worker, settings } = this.#options
    const { data, ledger } = settings()
    const folder = journalFolder({ data, ledger })
    const process = thisProcess(worker?.number ?? 0)
    const writer = new JournalWriter({
      folder,
      process: processName(process),
      sync: ledger.sync,
      whenUnwritable: ledger.whenUnwritable,
      spoolBytes: ledger.spoolMegabytes * MIB,
      changed: () => {
        worker?.bookkeeper.journalProblem(writer.problem)
        this.#follow()
      },
    })
    this.#process = processName(process)
    const client = worker
      ? null
      : new LedgerClient({
          ...bookkeeperOptions(settings()),
          telemetry: this.#options.telemetry ?? null,
          process,
          limits: () => settings().usage,
          report: (event) => (event.event === 'malformed' ? this.#options.report(event) : this.#follow()),
          onProgress: ({ commits }) => {
            this.#follow()
            for (const ms of commits) this.#options.onTime?.(COMMIT, ms)
          },
        })
    client?.start()
    this.#loaded = { writer, client }
    this.#openShared()
    for (const use of this.#waiting) use(writer)
    this.#waiting = []
    return this.#loaded
  }

  #openShared(): void {
    const { worker, settings } = this.#options
    const { keepDays, keepHours, maxMegabytes } = settings().usage
    const options = {
      ...bookkeeperOptions(settings()),
      telemetry: this.#options.telemetry ?? null,
      limits: { keepDays, keepHours, maxMegabytes },
    }
    worker?.bookkeeper.openLedger({ process: this.#process, options })
  }

  #follow(): void {
    const { writer, client } = this.#loaded ?? {}
    const { problem: shared } = this.#shared
    const { lagMs } = this.state()
    this.#problems.follow({ writer: writer?.problem ?? null, own: client?.problem ?? null, shared, lagMs })
  }
}

const UNREACHABLE = 'the process that stores usage does not respond'

/** The folder of the journal, as written in the settings. */
export const journalFolder = ({ data, ledger }: Pick<Settings, 'data' | 'ledger'>): string =>
  ledger.folder ?? join(data.dir, 'journal')

/** Whether there may be records of earlier processes. */
const hasEarlier = (settings: Pick<Settings, 'data' | 'database' | 'ledger'>): boolean =>
  sharedDatabase(settings) !== null ||
  existsSync(join(settings.data.dir, USAGE_FILE)) ||
  existsSync(journalFolder(settings))

const bookkeeperOptions = (settings: Pick<Settings, 'data' | 'database' | 'ledger' | 'usage'>) => {
  const database = sharedDatabase(settings)
  return {
    folder: settings.data.dir,
    journal: journalFolder(settings),
    database,
    node: database ? null : NODE,
    timezone: settings.usage.timezone,
    syncs: settings.ledger.sync !== 'never',
    interval: settings.ledger.interval,
  }
}
