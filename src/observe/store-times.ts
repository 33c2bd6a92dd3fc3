/** How long the databases take. */
import type { Histogram, Registry } from './registry.ts'

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** `store` and `op` are names of the program. */
export const storeTimes = (registry: Pick<Registry, 'histogram'>): Histogram =>
  registry.histogram(
    'headgate_store_seconds',
    'Time of an operation of a database, with the wait for its thread; for usage, of a transaction.',
    ['store', 'op'],
    SECONDS,
  )
