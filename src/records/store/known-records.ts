/** The records that a serving process knows: those of headgate.yaml, and those that were read from the database. */
import { type AccountRecords, type Directory, type FileAccounts, NO_ACCOUNTS } from '../../core/accounts.ts'
import { buildDirectory, changeDirectory } from '../../policy/accounts/directory.ts'
import type { AccountsChange, AdminToken, Decision, StoredAccounts } from './record-operations.ts'

export type KnownRecordsOptions = { readonly file: () => FileAccounts; readonly isShared: boolean }

export class KnownRecords {
  readonly #options: KnownRecordsOptions
  /** The last change that was read whole. */
  #seq: number
  #isFollowing = false
  #directory: Directory
  /** Without the file, whose records may hide some of the database. */
  #storedDirectory: Directory
  #tokens: readonly AdminToken[]
  #decisions: readonly Decision[]

  constructor(options: KnownRecordsOptions, { seq, records, tokens, decisions }: StoredAccounts) {
    this.#options = options
    this.#seq = seq
    this.#directory = buildDirectory(options.file(), records)
    this.#storedDirectory = buildDirectory(NO_ACCOUNTS, records)
    this.#tokens = tokens
    this.#decisions = decisions
  }

  get directory(): Directory {
    return this.#directory
  }

  get tokens(): readonly AdminToken[] {
    return this.#tokens
  }

  get decisions(): readonly Decision[] {
    return this.#decisions
  }

  /** The thread has sent what it has read, and sends changes from now on. */
  get isFollowing(): boolean {
    return this.#isFollowing
  }

  /** The database has keys of clients. */
  get hasKeys(): boolean {
    return this.#storedDirectory.keys.size > 0
  }

  /** The records of the database, without placeholders for teams of the file. */
  stored(): AccountRecords {
    const isStored = ({ managed }: { readonly managed: string }) => managed === 'api'
    const { teams, keys, budgets, prices, routes } = this.#storedDirectory
    return {
      teams: [...teams.values()].filter(isStored),
      keys: [...keys.values()].filter(isStored),
      budgets: [...budgets.values()].filter(isStored),
      prices: prices.filter(isStored),
      routes: [...routes.values()],
    }
  }

  /** Whether a message of the thread has more than what was read before its first one. Later changes contain the rest. */
  isNews(seq: number): boolean {
    // A shared database may have been restored since the snapshot was written.
    const isNews = this.#options.isShared || this.#isFollowing || seq >= this.#seq
    this.#isFollowing = true
    return isNews
  }

  apply({ records, removed, tokens, decisions }: AccountsChange): void {
    this.#directory = changeDirectory(this.#directory, records, removed)
    this.#storedDirectory = changeDirectory(this.#storedDirectory, records, removed)
    this.#tokens = tokens ?? this.#tokens
    this.#decisions = decisions ?? this.#decisions
  }

  replace({ seq, records, tokens, decisions }: StoredAccounts): void {
    this.#seq = seq
    this.#directory = buildDirectory(this.#options.file(), records)
    this.#storedDirectory = buildDirectory(NO_ACCOUNTS, records)
    this.#tokens = tokens
    this.#decisions = decisions
  }

  /** Uses the records of the current file. */
  fileChanged(): void {
    this.#directory = buildDirectory(this.#options.file(), this.stored())
  }
}
