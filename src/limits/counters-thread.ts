/** Has the connection to shared counters, in a thread: the event loop that serves clients has none. */
import type { LeaseAsk, LeaseHolder } from '../policy/accounts/lease.ts'
import { RedisStore, type RedisStoreOptions } from './redis-store.ts'

export type StoreExchange = { readonly holder: LeaseHolder; readonly asks: readonly LeaseAsk[] }

export const program = (options: RedisStoreOptions) => {
  const store = new RedisStore(options)
  return {
    methods: {
      lease: ({ holder, asks }: StoreExchange) => store.lease(holder, asks),
      read: (counters: readonly string[]) => store.read(counters),
    },
    close: () => store.close(),
  }
}
