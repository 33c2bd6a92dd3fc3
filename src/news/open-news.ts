import type { SharedDatabase } from '../storage/sql/shared-database.ts'
import type { NewsStore, NewsStoreOptions } from './news-store.ts'

/** Where gateways leave messages for each other: in Postgres, or without it in Redis. Plain JSON data. */
export type NewsPlace = { readonly database: SharedDatabase } | { readonly redis: string }

/** Loads what the place needs. The function connects in the background; it throws if the address of Redis cannot be read. */
export const newsIn = async (place: NewsPlace): Promise<(options: NewsStoreOptions) => NewsStore> => {
  if ('database' in place) {
    const { ThreadedNews } = await import('./threaded-news.ts')
    return (options) => new ThreadedNews(place.database, options)
  }
  const { RedisNews } = await import('./redis-news.ts')
  return (options) => new RedisNews(place.redis, options)
}
