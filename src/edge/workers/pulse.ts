/**
 * Whether a worker that does not answer hangs, or only gets little processor time. Silence alone cannot tell: on a busy
 * machine a healthy worker may wait for seconds. What the kernel reports of its main thread can (proc(5), `stat`).
 */
import { readFileSync } from 'node:fs'

/** A worker's main thread at one moment: its state as one letter, and the ms of processor time used so far. */
export type Pulse = { readonly state: string; readonly cpu: number }

/** `every`: ms between two heartbeats. `misses`: pulses in a row that have to agree. `busy`: ms. */
export type Watch = { readonly every: number; readonly misses: number; readonly busy: number }

/** Heartbeats in a row after which a silent worker hangs, whatever its pulses show. */
export const MOST_MISSES = 30

/** ms of processor time that a thread may seem to use while it sleeps: the kernel counts in steps of 10. */
const STEP = 20

export type Hang = 'stopped' | 'busy' | 'blocked' | 'silent'

/**
 * Why a worker counts as hanging; null: it does not. `pulses`: oldest first, one taken at each heartbeat since the worker
 * answered last, that of this moment included; null where none could be read.
 */
export const hangOf = (pulses: readonly (Pulse | null)[], { misses, busy }: Watch): Hang | null => {
  if (pulses.length < misses) return null
  if (pulses.length >= MOST_MISSES) return 'silent'
  const recent = pulses.slice(-misses)
  const [first, since, last] = [pulses[0], recent[0], pulses.at(-1)]
  if (!first || !since || !last) return null
  const all = (state: string) => recent.every((pulse) => pulse?.state === state)
  if (all('T')) return 'stopped'
  // One turn of the event loop that takes so long does not end. A worker short of processor time does not get this far.
  if (last.cpu - first.cpu >= busy) return 'busy'
  // A message waits for it, so a healthy main thread would be running or ready to run.
  if (all('S') && last.cpu - since.cpu <= STEP) return 'blocked'
  return null
}

/** The pulse of this process's main thread; null where the system has no /proc, or the process is gone. */
export const pulseOf = (pid: number): Pulse | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8')
    // The name in parentheses may contain anything; what follows the last one are numbers and the state.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state = ''] = fields
    const ticks = Number(fields[11]) + Number(fields[12])
    return Number.isFinite(ticks) ? { state, cpu: ticks * TICK } : null
  } catch {
    return null
  }
}

/** ms of a clock tick in /proc: USER_HZ is 100 on every Linux that Node runs on. */
const TICK = 10
