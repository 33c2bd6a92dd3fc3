/** Stores of shared counters for tests, with a ledger in memory. */
import type { Budget } from '../../src/core/accounts.ts'
import { parseCharge } from '../../src/core/journal.ts'
import type { CounterStore } from '../../src/gateway/accounts/counter-store.ts'
import { type CommonCounters, storeOf } from '../../src/limits/common-counters.ts'
import { LedgerSums } from '../../src/limits/ledger-sums.ts'
import { SeededStore } from '../../src/limits/seeded-store.ts'
import type { RecordedPart } from '../../src/policy/accounts/lease.ts'

/** What was spent of counters, by the name of the counter; a text is the problem of the ledger. `pause`: before a read. */
export type TestLedger = {
  sums: Map<string, number>
  /** The parts of processes in the sums, by counter and process. */
  parts: Map<string, Map<string, number>>
  reads: number
  problem: string | null
  pause?: (read: number) => Promise<void> | null
}

export const testLedger = (): TestLedger => ({ sums: new Map(), parts: new Map(), reads: 0, problem: null })

/** A process has spent. `run`: `runOf`. */
export const recordIn = (ledger: TestLedger, charge: string, { run, spent }: RecordedPart): void => {
  ledger.sums.set(charge, (ledger.sums.get(charge) ?? 0) + spent)
  const parts = ledger.parts.get(charge) ?? new Map<string, number>()
  ledger.parts.set(charge, parts.set(run, (parts.get(run) ?? 0) + spent))
}

/** The name of a process in a test ledger. */
export const runOf = (process: string, boot: number): string => `${process}:${boot}`

export type SeededOptions = {
  readonly ledger?: TestLedger
  readonly budgets?: readonly Budget[]
  /** The ledger has only the part of this gateway. */
  readonly isPart?: boolean
  readonly servesUnknown?: boolean
  /** When the process has started. */
  readonly boot?: number
  readonly now?: () => number
}

/** The store as one gateway sees it. */
export const seededStore = (store: CommonCounters, process: string, more: SeededOptions = {}): CounterStore => {
  const { ledger = testLedger(), budgets = [], isPart = false, servesUnknown = false, boot = 1, now = () => 0 } = more
  const sums = new LedgerSums({
    ledger: {
      async spentSince() {
        ledger.reads++
        await (ledger.pause?.(ledger.reads) ?? null)
        return (
          ledger.problem ??
          [...ledger.sums].map(([charge, spent]) => {
            const { counter, periodStart } = parseCharge(charge)
            const recorded = [...(ledger.parts.get(charge) ?? [])].map(([run, part]) => ({ run, spent: part }))
            return { counter, period_start: periodStart, spent, earlier: spent, recorded }
          })
        )
      },
    },
    budgets: () => budgets,
    isRecorded: () => true,
    date: () => 0,
    later: () => () => {},
    onProblem() {},
    onRestored() {},
  })
  const part = isPart ? process : null
  return storeOf(new SeededStore({ store, sums, part, timeout: 0, servesUnknown: () => servesUnknown, now }), {
    process,
    boot,
    run: runOf(process, boot),
  })
}
