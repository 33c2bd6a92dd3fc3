/** Loaded by every process: whether there are other gateways at all. */
import type { Config } from '../../core/config.ts'
import type { Settings } from '../../core/settings.ts'
import type { NewsPlace } from '../../news/open-news.ts'
import { sharedDatabase } from '../../storage/sql/shared-database.ts'
import { sharedName } from '../../usage/journal/node-name.ts'

/** The store in which the gateways of these settings leave messages for each other; null: they share none. */
const fleetPlace = (settings: Pick<Settings, 'database' | 'redis'>): NewsPlace | null => {
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

/** The name of a process for all gateways. */
export const processName = (node: string, name: string | null): string => (name === null ? node : `${node} ${name}`)

/** A multiple of 100 from 100 to 999,900, by which IDs of live events of several gateways differ. */
export const gatewayNumber = (node: string): number => {
  let hash = 0
  for (const character of node) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 9_999
  return (hash + 1) * 100
}

/** The store of the gateways and the name of this one; null: it shares none. */
export const fleetOf = ({ current }: { readonly current: { readonly config: Config } }) => {
  const { settings } = current.config
  const place = fleetPlace(settings)
  return place && { place, node: sharedName(settings.data.dir) }
}
