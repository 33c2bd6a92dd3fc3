/**
 * Merges the metrics pages of several processes: counters and histograms are added, so that rates cover all workers. The
 * counts of ended processes are kept.
 */

type MetricFamily = { readonly head: string[]; readonly kind: string; readonly series: Map<string, number> }

/** How gauges are merged that must not be added. All others are amounts and are added. */
const MERGES: { readonly [gauge: string]: (a: number, b: number) => number } = {
  headgate_info: Math.max,
  process_start_time_seconds: Math.min,
  // The worst state of any worker.
  headgate_circuit_state: Math.max,
  headgate_key_active: Math.min,
  headgate_ledger_ok: Math.min,
  headgate_store_ok: Math.min,
  headgate_config_reload_ok: Math.min,
  headgate_event_loop_delay_seconds: Math.max,
  headgate_budget_limit_dollars: Math.max,
  headgate_store_up: Math.min,
  headgate_tls_not_after_seconds: Math.min,
}
const add = (a: number, b: number): number => a + b

/**
 * Maximum lines per metric beyond which pages of ended processes add no series. A process has at most 20,000, with names
 * chosen by clients, and any number of processes may end.
 */
const MAX_LINES = 50_000

/** `current`: pages of running processes. `past`: pages of ended ones; their gauges are ignored. */
export const mergeMetrics = (current: readonly string[], past: readonly string[] = []): string => {
  const families = new Map<string, MetricFamily>()
  for (const page of current) fold(families, page, 'current')
  for (const page of past) fold(families, page, 'past')
  return [...families.values()].map(textOf).join('')
}

const fold = (families: Map<string, MetricFamily>, page: string, time: 'current' | 'past'): void => {
  let help = ''
  let isFull = false
  let family: MetricFamily | undefined
  let merge = add
  for (const line of page.split('\n')) {
    if (line.startsWith('# HELP ')) help = line
    else if (line.startsWith('# TYPE ')) {
      const [, , name = '', kind = ''] = line.split(' ')
      const counts = time === 'current' || kind !== 'gauge'
      family = counts ? (families.get(name) ?? { head: [help, line], kind, series: new Map() }) : undefined
      if (family) families.set(name, family)
      isFull = time === 'past' && family !== undefined && family.series.size >= MAX_LINES
      merge = (kind === 'gauge' ? MERGES[name] : undefined) ?? add
    } else if (family && line !== '') {
      // Label values may contain spaces; the value after the last space does not.
      const at = line.lastIndexOf(' ')
      const name = line.slice(0, at)
      const value = Number(line.slice(at + 1))
      const before = family.series.get(name)
      if (before !== undefined) family.series.set(name, merge(before, value))
      else if (!isFull) family.series.set(name, value)
    }
  }
}

const textOf = ({ head, series }: MetricFamily): string =>
  [...head, ...[...series].map(([name, value]) => `${name} ${value}`), ''].join('\n')
