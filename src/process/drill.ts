/** The drill of routes, started once shapes of requests are counted. */
import { openDrill } from './admin-parts.ts'
import type { Runtime } from './runtime.ts'

/** Starts the hourly runs, or ends them. Of several workers the first one runs. */
export const startDrill = async (runtime: Runtime): Promise<void> => {
  const { current, worker } = runtime
  const { drill, usage } = current.config.settings
  if (worker && worker.number !== 1) return
  if (!current.drill && !(drill.shapes && usage.ledger)) return
  const runs = await openDrill(runtime)
  runs.start()
}
