/** Keeps the snapshot up to date with what the thread reports. */

import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { makeFolder } from '../../storage/files/folder.ts'
import { problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import type { AccountsChange, StoredAccounts } from './record-operations.ts'
import { writeSnapshot } from './snapshot.ts'

/** ms between two writes. A write of many keys takes time: the pause is this many times as long, too. */
const PAUSE = { least: 1_000, factor: 10 }

type ById<T> = Map<string, T>
type Records = StoredAccounts['records']

export type SnapshotKeeperOptions = {
  readonly folder: string
  readonly url: string
  /** The snapshot cannot be written, or is written again (null). */
  readonly onProblem: (problem: string | null) => void
}

export class SnapshotKeeper {
  readonly #options: SnapshotKeeperOptions
  #stored: StoredAccounts | null = null
  #records = recordMaps(NO_ACCOUNTS)
  /** Changes since the last write wait for it. */
  #timer: NodeJS.Timeout | null = null
  #isWritten = true
  #nextAt = 0

  constructor(options: SnapshotKeeperOptions) {
    this.#options = options
  }

  /** Everything that is stored. */
  replace(stored: StoredAccounts): void {
    this.#stored = stored
    this.#records = recordMaps(stored.records)
    this.#changed()
  }

  /** What has changed since. */
  apply({ seq, records, removed, tokens, decisions }: AccountsChange): void {
    if (!this.#stored) return
    const maps = this.#records
    for (const map of Object.values(maps)) for (const id of removed) map.delete(id)
    put(maps.teams, records.teams)
    put(maps.keys, records.keys)
    put(maps.budgets, records.budgets)
    put(maps.prices, records.prices)
    put(maps.routes, records.routes)
    this.#stored = {
      ...this.#stored,
      seq,
      tokens: tokens ?? this.#stored.tokens,
      decisions: decisions ?? this.#stored.decisions,
    }
    this.#changed()
  }

  /** Writes what was not written so far. */
  close(): void {
    if (!this.#isWritten) this.#write()
    if (this.#timer) clearTimeout(this.#timer)
  }

  #changed(): void {
    this.#isWritten = false
    this.#timer ??= setTimeout(() => this.#write(), Math.max(0, this.#nextAt - performance.now()))
  }

  #write(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    if (!this.#stored) return
    const since = performance.now()
    const { folder, url, onProblem } = this.#options
    try {
      makeFolder(folder)
      writeSnapshot(folder, url, { ...this.#stored, records: recordLists(this.#records) })
      this.#isWritten = true
      onProblem(null)
    } catch (error) {
      onProblem(problemOf(error))
    }
    const now = performance.now()
    this.#nextAt = now + Math.max(PAUSE.least, PAUSE.factor * (now - since))
    // A full disk has room again some time.
    if (!this.#isWritten) this.#changed()
  }
}

const recordMaps = ({ teams, keys, budgets, prices, routes }: Records) => ({
  teams: byId(teams),
  keys: byId(keys),
  budgets: byId(budgets),
  prices: byId(prices),
  routes: byId(routes),
})

const recordLists = ({ teams, keys, budgets, prices, routes }: ReturnType<typeof recordMaps>): Records => ({
  teams: [...teams.values()],
  keys: [...keys.values()],
  budgets: [...budgets.values()],
  prices: [...prices.values()],
  routes: [...routes.values()],
})

const byId = <T extends { readonly id: string }>(list: readonly T[]): ById<T> =>
  new Map(list.map((entry) => [entry.id, entry]))

const put = <T extends { readonly id: string }>(map: ById<T>, changed: readonly T[]): void => {
  for (const entry of changed) map.set(entry.id, entry)
}
