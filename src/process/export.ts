/** Starts the export of usage once it is configured. */
import { hostname } from 'node:os'
import { nodeName } from '../usage/journal/node-name.ts'
import { openReader } from './admin-parts.ts'
import type { Runtime } from './runtime.ts'

/** All gateways with one database have one ledger. */
const SHARED = 'shared'

/** Loads the export once it is configured. Of several workers the first one exports. */
export const startExport = async (runtime: Runtime): Promise<void> => {
  const { current, gateway, ledger, log, worker } = runtime
  const { settings } = current.config
  const isConfigured = settings.export.s3.bucket !== undefined
  if (current.exporter || !isConfigured || (worker && worker.number !== 1)) return
  const [{ UsageSink }, reader] = await Promise.all([import('../usage/export/usage-sink.ts'), openReader(runtime)])
  const name = nameIn(settings.data.dir)
  current.exporter ??= new UsageSink({
    world: gateway.world,
    settings: () => current.config.settings,
    ledger: settings.database.url === undefined ? name : SHARED,
    gateway: name,
    rowsOf: (range) => reader.export({ ...range, level: 'request', format: 'jsonl', filter: {} }),
    isBehind: () => ledger.problem() !== null || ledger.state().lagMs > BEHIND,
    report(problem) {
      if (problem === null) return log.info('export', { status: 'ok', message: 'Usage is exported again.' })
      const message = `Usage cannot be exported: ${problem}. It stays in the ledger, and the export continues where it was.`
      log.error('export', { status: 'degraded', message })
    },
  })
}

/** The gateway's name in its ledger. In a folder without write permission: that of the host. */
const nameIn = (folder: string): string => {
  try {
    return nodeName(folder)
  } catch {
    return hostname()
  }
}

/** ms by which the ledger may be late without delaying the export. */
const BEHIND = 30_000
