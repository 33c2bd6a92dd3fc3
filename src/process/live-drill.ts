/** The live checks of the fallback drill, loaded once a route has them. */
import { parseDollars } from '../core/money.ts'
import { teamNamed } from '../policy/accounts/directory.ts'
import { DRILL_TEAM, hasLiveChecks, hourOfWeek } from '../policy/drill/live-rules.ts'
import type { UsageReader } from '../usage/reading/usage-reader.ts'
import { openReader } from './admin-parts.ts'
import type { Runtime } from './runtime.ts'
import { sharedRole } from './shared-role.ts'

const DAY = 86_400_000

/** Of several workers the first one sends them, of several gateways one at a time. The others read what was found. */
export const startLiveDrill = async (runtime: Runtime): Promise<void> => {
  const { current, gateway, keys, worker, version } = runtime
  current.liveDrill?.reschedule()
  if (current.liveDrill || !hasLiveChecks(current.config)) return
  const [{ LiveDrill }, { liveWork }, { stateFile }, reader] = await Promise.all([
    import('../gateway/drill/live-drill.ts'),
    import('../gateway/drill/live-work.ts'),
    import('../observe/alerts/alert-storage.ts'),
    openReader(runtime),
  ])
  const { date } = gateway.world
  const placeOf = (name: string) =>
    sharedRole(runtime, name) ?? stateFile(current.config.settings.data.dir, `${name}.json`)
  current.liveDrill ??= new LiveDrill({
    gateway: () => gateway,
    version,
    isSender: !worker || worker.number === 1,
    team: () => teamNamed(keys.directory(), DRILL_TEAM),
    storage: { spent: placeOf('drill'), results: placeOf('drill-results') },
    async work(routes) {
      const { days } = current.config.settings.drill
      const found = await reader.drillShapes({ from: date() - days * DAY, to: date() })
      return found.ok ? liveWork(gateway, found.value, routes) : []
    },
    weekSpend: () => weekSpend(reader, date()),
    hours: () => requestsByHour(reader, date()),
  })
}

const LAST_WEEK = { by: [], tz: null, filter: {}, limit: 200, after: null } as const

/** Null: the ledger does not answer. */
const weekSpend = async (reader: UsageReader, now: number): Promise<number | null> => {
  const found = await reader.usage({ ...LAST_WEEK, from: now - 7 * DAY, to: now, bucket: 'none' })
  const spent = found.ok ? parseDollars(found.value.total.cost) : null
  return spent?.ok ? spent.value : null
}

/** By hour of the week; an hour that is not known has none. */
const requestsByHour = async (reader: UsageReader, now: number): Promise<readonly number[]> => {
  const found = await reader.usage({ ...LAST_WEEK, from: now - 7 * DAY, to: now, bucket: 'hour' })
  const hours = Array.from({ length: 168 }, () => 0)
  if (found.ok)
    for (const { start, requests } of found.value.data)
      if (start !== undefined) hours[hourOfWeek(Date.parse(start))] = requests
  return hours
}
