/** The counters that several processes share, as the process sees it that has them, or the connection to them. */
import type { CounterStore, LeaseReply } from '../gateway/accounts/counter-store.ts'
import type { LeaseAsk, LeaseHolder } from '../policy/accounts/lease.ts'

/** As `CounterStore`, for several processes. */
export type CommonCounters = {
  lease(holder: LeaseHolder, asks: readonly LeaseAsk[]): Promise<LeaseReply>
  read: CounterStore['read']
  /** As in `CounterStore`, of this store. Absent: it does not list them. */
  known?: CounterStore['known']
  close(): Promise<void>
}

/**
 * The store as one process sees it. `boot`: when it has started, in ms since 1970. `onReply`: receives why the store cannot be
 * used after each exchange, or null.
 */
export const storeOf = (
  store: Pick<CommonCounters, 'lease'> & Pick<CounterStore, 'read' | 'spent' | 'known'>,
  { process, run, boot: started }: LeaseHolder,
  onReply: (problem: string | null) => void = () => {},
): CounterStore => {
  let boot = started
  return {
    async lease(asks) {
      const reply = await store.lease({ process, boot, run }, asks)
      // The clock went back since an earlier process of this gateway has started.
      for (const answer of reply.answers) if (answer.status === 'stale' && answer.boot > boot) boot = answer.boot + 1
      onReply(reply.problem)
      return reply
    },
    read: (counters) => store.read(counters),
    spent: (counters) => store.spent(counters),
    known: () => store.known(),
  }
}
