/** What a process uses, as each page of metrics has it: a worker's and its supervisor's. */
import type { Registry } from './registry.ts'

export type Usage = { readonly rss: number; readonly heap: number; readonly cpu: number }

const processUsage = (): Usage => {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  return { rss, heap: heapUsed, cpu: (user + system) / 1e6 }
}

/** `started`: s since 1970 when the process began. `usage`: may throw, as it does when no file can be opened any more. */
export const addUsage = (page: Registry, started: number, usage: () => Usage = processUsage): void => {
  page.gauge('process_start_time_seconds', 'When the process began, in s since 1970.', []).set({}, started)
  const used = attempt(usage)
  if (!used) return
  page.counter('process_cpu_seconds_total', 'CPU time used.', []).add({}, used.cpu)
  page.gauge('process_resident_memory_bytes', 'Memory held.', []).set({}, used.rss)
  page.gauge('nodejs_heap_size_used_bytes', 'Memory of objects.', []).set({}, used.heap)
}

/** Runs what may fail for want of file handles; then its part of the page is missing, not the page. */
export const attempt = <T>(run: () => T): T | undefined => {
  try {
    return run()
  } catch {
    return undefined
  }
}
