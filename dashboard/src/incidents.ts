/** Reads the outages of providers in the range of the page. */
import type { Shown } from '../../src/records/entities/shown.ts'
import type { INCIDENT } from '../../src/server/answers/incidents.ts'
import { type ApiList, hasRole, read, useResource } from './api.ts'
import { minute } from './format.ts'
import { everyUnlessHeld, useReloadOn } from './live.ts'
import { EVERY, rangeKey, rangeQuery } from './provider-data.ts'
import { now } from './store.ts'
import { providerWords as words } from './words/providers.ts'

export type ListedIncident = Shown<typeof INCIDENT>

/** A time that charts show as a band, in ms since 1970. */
export type ChartBand = { readonly from: number; readonly to: number; readonly text: string }

/** Incidents of a page. */
const MOST = 50

/** The newest first; undefined: not read yet, or not readable with this role. `provider` null: of all. */
export const useIncidents = (provider: string | null): readonly ListedIncident[] | undefined => {
  const { value, reload } = useResource(
    hasRole('viewer', 'all') ? `incidents ${provider} ${rangeKey()}` : null,
    () => read<ApiList<ListedIncident>>('/incidents', { ...rangeQuery(), provider, limit: MOST }),
    { every: everyUnlessHeld(EVERY) },
  )
  useReloadOn(['circuits'], reload, 1_000)
  return value?.data
}

/** Incidents as bands of a chart. */
export const bandsOf = (incidents: readonly ListedIncident[], now: number): readonly ChartBand[] =>
  incidents.map(({ providers, begin, end }) => {
    const [from, to] = [Date.parse(begin), end === null ? now : Date.parse(end)]
    return { from, to, text: words.detail.outage(providers.join(', '), minute(from), end === null ? null : minute(to)) }
  })

/** The outages in the range of the page, for a chart. */
export const useBands = (): readonly ChartBand[] => bandsOf(useIncidents(null) ?? [], now.value)
