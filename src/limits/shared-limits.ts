/** Limits and budgets that the only process of this gateway shares with other gateways, in Redis. */
import type { OnStoreTime } from '../storage/thread/on-store-time.ts'
import type { LedgerProblem } from '../usage/bookkeeper/usage-ledger.ts'
import { CountersClient } from './counters-client.ts'
import type { CountersState } from './counters-thread-messages.ts'
import { SeededBudgets, type SeededBudgetsOptions } from './seeded-budgets.ts'
import { isUnknown, REDIS_TIMEOUT, SharedAuthority } from './shared-authority.ts'

export type SharedLimitsOptions = Omit<SeededBudgetsOptions, 'counters'> & {
  readonly url: string
  readonly node: string
  /** Whether hard budgets are used before their earlier usage is counted. */
  readonly servesUnknown: () => boolean
  readonly onState: (state: CountersState) => void
  readonly onTime: OnStoreTime
}

/** The only process. */
const SOURCE = 0

export class SharedLimits {
  readonly authority: SharedAuthority
  readonly #client: CountersClient
  readonly #seeded: SeededBudgets

  constructor({ url, node, servesUnknown, onState, onTime, ...options }: SharedLimitsOptions) {
    this.authority = new SharedAuthority({
      send: (operations) => this.#client.run(SOURCE, operations),
      of: () => this.#client.state.shares,
      now: () => performance.now(),
      timeout: () => REDIS_TIMEOUT,
      isUnknown: (budget) => !servesUnknown() && isUnknown(this.#client.state, budget),
      adjust: (correction) => {
        this.#seeded.corrected()
        this.#client.add([correction])
      },
    })
    this.#client = new CountersClient({
      url,
      node,
      shares: 1,
      onTime,
      onAnswers: (_, answers) => this.authority.onAnswers(answers),
      onFigures: (figures, takenBy) => this.authority.onFigures(figures, takenBy?.(SOURCE) ?? null),
      onState: (state) => {
        if (state.problem !== null) this.authority.onLost()
        onState(state)
      },
      onRestart: () => void this.#seeded.restarted(),
    })
    this.#seeded = new SeededBudgets({ ...options, counters: this.#client })
  }

  /** The budgets may have changed. */
  changed(): Promise<void> {
    return this.#seeded.changed()
  }

  /** Why earlier usage is not counted, and since when; null: it is. */
  unknown(): LedgerProblem | null {
    return this.#seeded.unknown()
  }

  /** Frees what is in progress, within 2 s. */
  close(): Promise<void> {
    return this.#client.close()
  }
}
