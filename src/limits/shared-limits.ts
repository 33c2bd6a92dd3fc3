/** Limits and budgets that the only process of this gateway shares with other gateways. */
import type { CounterStore } from '../gateway/accounts/counter-store.ts'
import type { LedgerProblem } from '../usage/bookkeeper/ledger-problems.ts'
import { storedNames } from '../usage/journal/node-name.ts'
import { processName, thisProcess } from '../usage/journal/segment-files.ts'
import { storeOf } from './common-counters.ts'
import { CountersClient, type CountersClientOptions } from './counters-client.ts'
import { LedgerSums, type LedgerSumsOptions } from './ledger-sums.ts'
import { SeededStore } from './seeded-store.ts'

export type SharedLimitsOptions = LedgerSumsOptions &
  CountersClientOptions & {
    readonly node: string
    /** Whether the ledger has what all gateways have spent. */
    readonly isLedgerShared: boolean
    /** Whether hard budgets are used before their earlier usage is known. */
    readonly servesUnknown: () => boolean
    /** Why the store cannot be used after an exchange, or null. */
    readonly onReply: (problem: string | null) => void
  }

export class SharedLimits {
  readonly store: CounterStore
  readonly #client: CountersClient
  readonly #sums: LedgerSums

  constructor({ node, isLedgerShared, servesUnknown, onReply, ...options }: SharedLimitsOptions) {
    this.#client = new CountersClient(options)
    this.#sums = new LedgerSums({
      ...options,
      onRestored: () => {
        options.onRestored()
        void seeded.restored()
      },
    })
    const part = isLedgerShared ? null : node
    const seeded = new SeededStore({
      store: this.#client,
      sums: this.#sums,
      part,
      servesUnknown,
      timeout: options.timeout,
      now: () => performance.now(),
    })
    this.store = storeOf(
      seeded,
      { process: node, boot: Date.now(), run: storedNames(node, isLedgerShared).stored(processName(thisProcess())) },
      onReply,
    )
  }

  /** The budgets may have changed. Resolves when what was spent of them earlier is known, or cannot be. */
  changed(): Promise<void> {
    return this.#sums.changed()
  }

  /** Why earlier usage is not counted, and since when; null: it is. */
  unknown(): LedgerProblem | null {
    return this.#sums.unknown()
  }

  /** After the leases were given back. Within 2 s. */
  close(): Promise<void> {
    return this.#client.close()
  }
}
