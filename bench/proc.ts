/** Reads process relations, memory and CPU time from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // It has exited.
    return ''
  }
}

/** Fields of stat from the state on. The name before them may contain spaces and brackets. */
const fields = (pid: number): readonly string[] => read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? []

/** The process and its descendants. */
export const family = (pid: number): readonly number[] => {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => [Number(name), Number(fields(Number(name))[1])] as const)
  const found = [pid]
  for (const known of found) for (const [child, parent] of parents) if (parent === known) found.push(child)
  return found
}

/**
 * User and system time of the current threads, without ended ones, in ms with the precision of ns
 * (Documentation/scheduler/sched-stats.rst). Throws if the process has exited.
 */
export const threadsTimeOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`).reduce(
    (sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6,
    0,
  )

/** The same of the main thread and of all threads, with those of descendants. Null: a process has exited. */
export const threadTimes = (pid: number): { readonly main: number; readonly all: number } | null => {
  const main = Number(read(`/proc/${pid}/task/${pid}/schedstat`).split(' ')[0]) / 1e6
  try {
    return { main, all: family(pid).reduce((sum, each) => sum + threadsTimeOf(each), 0) }
  } catch {
    return null
  }
}

/** User and system time in µs, in steps of ten thousand. */
export const timeOf = (pid: number): number => {
  const all = fields(pid)
  return (Number(all[11] ?? 0) + Number(all[12] ?? 0)) * 10_000
}

export type Memory = { readonly resident: number; readonly own: number }

/** Memory of a process and its descendants in KB: resident pages, and the proportional share of shared pages. */
export const memoryOf = (pid: number): Memory => {
  const sum = { resident: 0, own: 0 }
  for (const each of family(pid)) {
    const text = read(`/proc/${each}/smaps_rollup`)
    const of = (name: string) => Number(text.match(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm'))?.[1] ?? 0)
    sum.resident += of('Rss')
    sum.own += of('Pss')
  }
  return sum
}
