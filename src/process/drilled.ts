/** What the drill of this process has found, for metrics and alerts. */
import type { RouteReport } from '../policy/drill/report.ts'
import type { Runtime } from './runtime.ts'

/** Of several workers the first one drills: a report that another one has made for an operator is not renewed. */
export const drilledRoutes = ({ current, worker }: Pick<Runtime, 'current' | 'worker'>): readonly RouteReport[] =>
  worker && worker.number !== 1 ? [] : (current.drill?.last?.routes ?? [])
