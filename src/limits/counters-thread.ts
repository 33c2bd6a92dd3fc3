/** Has the connection to shared counters, in a thread: the event loop that serves clients has none. */
import type { LeaseAsk, LeaseHolder } from '../policy/accounts/lease.ts'
import type { CommonCounters } from './common-counters.ts'
import type { CountersPlace } from './counters-place.ts'

export type StoreExchange = { readonly holder: LeaseHolder; readonly asks: readonly LeaseAsk[] }

/** `timeout`: ms for an answer. */
type CountersThreadOptions = { readonly place: CountersPlace; readonly timeout: number }

export const program = async (options: CountersThreadOptions) => {
  const store = await open(options)
  return {
    methods: {
      lease: ({ holder, asks }: StoreExchange) => store.lease(holder, asks),
      read: (counters: readonly string[]) => store.read(counters),
    },
    close: () => store.close(),
  }
}

/** Loads what the place needs. */
const open = async ({ place, timeout }: CountersThreadOptions): Promise<CommonCounters> => {
  if ('redis' in place) {
    const { RedisStore } = await import('./redis-store.ts')
    return new RedisStore({ url: place.redis, timeout })
  }
  const { PostgresCounterStore } = await import('./postgres-store.ts')
  return new PostgresCounterStore({ ...place, timeout })
}
