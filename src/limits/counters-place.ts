import type { Settings } from '../core/settings.ts'
import { type SharedDatabase, sharedDatabase } from '../storage/sql/shared-database.ts'

/** Where several gateways count together. Plain JSON data with secrets. */
export type CountersPlace = { readonly redis: string } | { readonly database: SharedDatabase }

/** The store of these settings: Redis, or without it Postgres; null: this gateway counts alone. */
export const countersPlace = (settings: Pick<Settings, 'database' | 'redis'>): CountersPlace | null => {
  const { url } = settings.redis
  if (url !== undefined) return { redis: url }
  const database = sharedDatabase(settings)
  return database && { database }
}
