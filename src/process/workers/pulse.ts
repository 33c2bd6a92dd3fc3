/**
 * Detects hanging workers. A missing reply is not enough, because a healthy worker may wait for seconds on a busy
 * machine. So the state and processor time of its main thread are read too (proc(5), `stat`).
 */
import { readFileSync } from 'node:fs'

/** The state of a worker's main thread at one moment: the state letter, and the processor time used so far in ms. */
export type Pulse = { readonly state: string; readonly cpu: number }

/** `every`: ms between heartbeats. `misses`: pulses in a row that have to agree. `busy`: ms of processor time. */
export type Watch = { readonly every: number; readonly misses: number; readonly busy: number }

/** Heartbeats without a reply after which a worker counts as hanging, whatever its pulses show. */
export const MAX_MISSES = 30

/** Processor time in ms that a sleeping thread may seem to use: the kernel counts in steps of 10. */
const STEP = 20

export type Hang = 'stopped' | 'busy' | 'blocked' | 'silent'

/**
 * Why a worker hangs; null if it does not. `pulses`: oldest first, one for each heartbeat since the last reply, including
 * the current one; null where none could be read.
 */
export const hangOf = (pulses: readonly (Pulse | null)[], { misses, busy }: Watch): Hang | null => {
  if (pulses.length < misses) return null
  if (pulses.length >= MAX_MISSES) return 'silent'
  const recent = pulses.slice(-misses)
  const [first, since, last] = [pulses[0], recent[0], pulses.at(-1)]
  if (!first || !since || !last) return null
  const all = (state: string) => recent.every((pulse) => pulse?.state === state)
  if (all('T')) return 'stopped'
  // One event loop turn has used this much processor time. A worker that gets little of it does not reach this limit.
  if (last.cpu - first.cpu >= busy) return 'busy'
  // A message is pending, so a healthy main thread would be running or ready to run.
  if (all('S') && last.cpu - since.cpu <= STEP) return 'blocked'
  return null
}

/** The pulse of a process's main thread; null without /proc, or if the process has ended. */
export const pulseOf = (pid: number): Pulse | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8')
    // The name in parentheses may contain anything; after the last one come the state and numbers.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state = ''] = fields
    const ticks = Number(fields[11]) + Number(fields[12])
    return Number.isFinite(ticks) ? { state, cpu: ticks * TICK } : null
  } catch {
    return null
  }
}

/** A clock tick of /proc in ms: USER_HZ is 100 on every Linux that Node supports. */
const TICK = 10
