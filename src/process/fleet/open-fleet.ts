import type { Settings } from '../../core/settings.ts'
import { type NewsPlace, newsIn } from '../../news/open-news.ts'
import { sharedDatabase } from '../../storage/sql/shared-database.ts'
import { Fleet, type FleetOptions } from './fleet.ts'

/** The store in which the gateways of these settings leave messages for each other; null: they share none. */
export const fleetPlace = (settings: Pick<Settings, 'database' | 'redis'>): NewsPlace | null => {
  const database = sharedDatabase(settings)
  if (database) return { database }
  const { url } = settings.redis
  return url === undefined ? null : { redis: url }
}

/** Joins the gateways that share a store. It connects in the background. */
export const openFleet = async (
  { place, node }: { readonly place: NewsPlace; readonly node: string },
  options: Omit<FleetOptions, 'node' | 'open'>,
): Promise<Fleet> => new Fleet({ ...options, node, open: await newsIn(place) })
