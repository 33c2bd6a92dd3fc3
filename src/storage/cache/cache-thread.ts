/** Has the connection to the shared answers, in a thread: a slow server, and large answers, do not delay the event loop. */
import type { CacheSelector } from '../../gateway/sharing/response-cache.ts'
import { type CachedRow, RedisCache, type RedisCacheOptions } from './redis-cache.ts'

export const program = (options: RedisCacheOptions) => {
  const cache = new RedisCache(options)
  return {
    methods: {
      find: (name: string) => cache.find(name),
      put: (answer: CachedRow) => cache.put(answer),
      purge: (selector: CacheSelector) => cache.purge(selector),
    },
    close: () => cache.close(),
  }
}
