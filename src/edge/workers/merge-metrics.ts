/**
 * The metrics pages of several processes as one: counters and histograms are sums, so that a rate is the rate of all of
 * them whoever was asked. Of what a process that is gone had counted nothing is taken away.
 */

type Family = { readonly head: string[]; readonly kind: string; readonly series: Map<string, number> }

/** Gauges whose sum says nothing. Every other is an amount, and amounts are added. */
const FOLDS: { readonly [gauge: string]: (a: number, b: number) => number } = {
  headgate_info: Math.max,
  process_start_time_seconds: Math.min,
  // What one of them cannot use is what an operator wants to know of.
  headgate_circuit_state: Math.max,
  headgate_key_active: Math.min,
  headgate_store_ok: Math.min,
  headgate_config_reload_ok: Math.min,
  headgate_event_loop_delay_seconds: Math.max,
}
const add = (a: number, b: number): number => a + b

/**
 * A family of so many lines takes no more of the past: a process has 20,000 at most, of names that clients choose, and
 * any number of processes may have come and gone.
 */
const MOST_LINES = 50_000

/** `current`: pages of now. `past`: pages of which only what never falls still counts. */
export const mergeMetrics = (current: readonly string[], past: readonly string[] = []): string => {
  const families = new Map<string, Family>()
  for (const page of current) fold(families, page, 'current')
  for (const page of past) fold(families, page, 'past')
  return [...families.values()].map(textOf).join('')
}

const fold = (families: Map<string, Family>, page: string, time: 'current' | 'past'): void => {
  let help = ''
  let isFull = false
  let family: Family | undefined
  let join = add
  for (const line of page.split('\n')) {
    if (line.startsWith('# HELP ')) help = line
    else if (line.startsWith('# TYPE ')) {
      const [, , name = '', kind = ''] = line.split(' ')
      const counts = time === 'current' || kind !== 'gauge'
      family = counts ? (families.get(name) ?? { head: [help, line], kind, series: new Map() }) : undefined
      if (family) families.set(name, family)
      isFull = time === 'past' && family !== undefined && family.series.size >= MOST_LINES
      join = (kind === 'gauge' ? FOLDS[name] : undefined) ?? add
    } else if (family && line !== '') {
      // A label's value may have spaces in it; the number behind the last one has none.
      const at = line.lastIndexOf(' ')
      const name = line.slice(0, at)
      const value = Number(line.slice(at + 1))
      const before = family.series.get(name)
      if (before !== undefined) family.series.set(name, join(before, value))
      else if (!isFull) family.series.set(name, value)
    }
  }
}

const textOf = ({ head, series }: Family): string =>
  [...head, ...[...series].map(([name, value]) => `${name} ${value}`), ''].join('\n')
