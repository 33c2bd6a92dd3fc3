/** Process metrics, for workers and their supervisor. */
import type { Registry } from './registry.ts'

export type ProcessUsage = { readonly rss: number; readonly heap: number; readonly cpu: number }

const processUsage = (): ProcessUsage => {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  return { rss, heap: heapUsed, cpu: (user + system) / 1e6 }
}

/** Adds process metrics. `started`: s since 1970. `usage` may throw, for example without free file descriptors. */
export const addUsage = (page: Registry, started: number, usage: () => ProcessUsage = processUsage): void => {
  page.gauge('process_start_time_seconds', 'Start time of the process, in s since 1970.', []).set({}, started)
  const used = attempt(usage)
  if (!used) return
  page.counter('process_cpu_seconds_total', 'CPU time used.', []).add({}, used.cpu)
  page.gauge('process_resident_memory_bytes', 'Resident memory.', []).set({}, used.rss)
  page.gauge('nodejs_heap_size_used_bytes', 'Heap memory used.', []).set({}, used.heap)
}

/** Returns undefined if `run` throws, so that only its part of the page is missing. */
export const attempt = <T>(run: () => T): T | undefined => {
  try {
    return run()
  } catch {
    return undefined
  }
}
