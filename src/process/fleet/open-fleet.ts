import { type NewsPlace, newsIn } from '../../news/open-news.ts'
import { Fleet, type FleetOptions } from './fleet.ts'

/** Joins the gateways that share a store. It connects in the background. */
export const openFleet = async (
  { place, node }: { readonly place: NewsPlace; readonly node: string },
  options: Omit<FleetOptions, 'node' | 'open'>,
): Promise<Fleet> => new Fleet({ ...options, node, open: await newsIn(place) })
