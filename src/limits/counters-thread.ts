/** Counts limits and budgets in Redis, in a thread: the event loop that serves clients has no connection to it. */
import type { Budget } from '../core/accounts.ts'
import type { SpentSum } from '../gateway/accounts/budget-counters.ts'
import type { Emit } from '../storage/thread/thread-program.ts'
import type {
  CountersEvents,
  CountersThreadOptions,
  EndedProcess,
  NodeSpent,
  SourceOperations,
} from './counters-thread-messages.ts'
import { RedisCounters } from './redis-counters.ts'

export const program = (options: CountersThreadOptions, emit: Emit<CountersEvents>) => {
  const counters = new RedisCounters(options, (message) => emit('counted', message))
  return {
    methods: {
      run: ({ source, operations }: SourceOperations) => counters.run(source, operations),
      /** The budgets of the configuration. */
      budgets: (budgets: readonly Budget[]) => counters.setBudgets(budgets),
      /** What this node has spent at least, as its ledger says. */
      raise: (sums: readonly SpentSum[]) => counters.raise(sums),
      /** What other gateways have spent, as the ledger that they share says: some of them may have ended for good. */
      adopt: (sums: readonly NodeSpent[]) => counters.adopt(sums),
      /** Corrections. */
      add: (sums: readonly SpentSum[]) => counters.add(sums),
      /** The process has ended: its slots are free. */
      exit: (source: number) => counters.exit(source),
      spent: ({ source, spends }: EndedProcess) => counters.spent(source, spends),
    },
    close: () => counters.close(),
  }
}
