/** Runs queries of the usage ledger in a thread: several at a time, of which each lets the others run after a statement. */
import { setImmediate as turn } from 'node:timers/promises'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'
import { activityOf, runningOf } from './activity.ts'
import { adjustmentsPage } from './adjustment-list.ts'
import { BucketMemory } from './bucket-memory.ts'
import { drillShapes } from './drill-shapes.ts'
import { endUserReport } from './end-user-report.ts'
import { exportPage } from './export-rows.ts'
import { forecastsOf } from './forecast.ts'
import { guardHitsOf } from './guard-hits.ts'
import { incidentsOf } from './incident-list.ts'
import { lanesOf } from './lanes.ts'
import { type LedgerReads, LedgerSource, QUERY_CANCELED, TooSlow } from './ledger-source.ts'
import { namesUsage } from './name-usage.ts'
import type { AskedQuery, NamedQuery, ReadAnswer, ReadingThreadOptions } from './named-query.ts'
import type { ReadResult } from './queries.ts'
import { ReportMemory } from './report-memory.ts'
import { facetsOf, oneRequest, requestsPage } from './request-list.ts'
import { routesTraffic } from './route-traffic.ts'
import { oneSession, sessionsPage } from './session-list.ts'
import { isTimeFor } from './slices.ts'
import { summaryOf } from './summary.ts'
import { usageReport } from './usage-report.ts'

export const program = ({ folder, database, timezone, limit, within }: ReadingThreadOptions) => {
  const source = new LedgerSource(folder, database)
  const buckets = new BucketMemory()
  const reports = new ReportMemory()
  const read = async ({ now, keepHours, read }: AskedQuery): Promise<ReadAnswer> => {
    const began = performance.now()
    const time = () => performance.now() - began
    const tooMuch = (): never => {
      throw new TooSlow()
    }
    const reads = {
      timezone,
      keepHours,
      now,
      time,
      isOver: isTimeFor(time, within),
      async turn() {
        await turn()
        if (time() > limit) throw new TooSlow()
      },
      tooMuch,
      memory: 'shared' in read.query && read.query.shared ? buckets : null,
      reports,
    }
    try {
      const value = await source.read((db) => run({ ...reads, db }, read))
      return { value, ms: time() }
    } catch (error) {
      if (isSlow(error)) return { slow: true }
      throw error
    }
  }
  return { methods: { read }, close: () => source.close() }
}

/** Postgres ends statements that take too long itself. */
const isSlow = (error: unknown): boolean =>
  error instanceof TooSlow || (error instanceof PostgresError && error.code === QUERY_CANCELED)

const run = (reads: LedgerReads, { name, query }: NamedQuery): Promise<ReadResult> => {
  switch (name) {
    case 'usage':
      return usageReport(reads, query)
    case 'requests':
      return requestsPage(reads, query)
    case 'request':
      return oneRequest(reads, query)
    case 'facets':
      return facetsOf(reads, query)
    case 'guard_hits':
      return guardHitsOf(reads, query)
    case 'end_users':
      return endUserReport(reads, query)
    case 'sessions':
      return sessionsPage(reads, query)
    case 'session':
      return oneSession(reads, query)
    case 'summary':
      return summaryOf(reads, query)
    case 'lanes':
      return lanesOf(reads, query)
    case 'activity':
      return activityOf(reads, query)
    case 'route_traffic':
      return routesTraffic(reads, query)
    case 'name_usage':
      return namesUsage(reads, query)
    case 'running':
      return runningOf(reads, query)
    case 'forecasts':
      return forecastsOf(reads, query)
    case 'adjustments':
      return adjustmentsPage(reads, query)
    case 'incidents':
      return incidentsOf(reads, query)
    case 'drill_shapes':
      return drillShapes(reads, query)
    case 'export':
      return exportPage(reads, query)
    default:
      throw new Error(`unknown query ${JSON.stringify(name satisfies never)}`)
  }
}
