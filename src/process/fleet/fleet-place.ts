/** Loaded by every process: whether there are other gateways at all. */
import type { Settings } from '../../core/settings.ts'
import type { NewsPlace } from '../../news/open-news.ts'
import { sharedDatabase } from '../../storage/sql/shared-database.ts'

/** The store in which the gateways of these settings leave messages for each other; null: they share none. */
export const fleetPlace = (settings: Pick<Settings, 'database' | 'redis'>): NewsPlace | null => {
  const database = sharedDatabase(settings)
  if (database) return { database }
  const { url } = settings.redis
  return url === undefined ? null : { redis: url }
}

/** What the log says when the store cannot be used, and when it can again (null). */
export const fleetLine = (problem: string | null): readonly ['info' | 'warn', string] =>
  problem === null
    ? ['info', 'Messages of other gateways arrive.']
    : ['warn', `Messages of other gateways do not arrive: ${problem}. This gateway decides alone meanwhile.`]
