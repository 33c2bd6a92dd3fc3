/** Ends the processes that a process has started, and those that they have started. */
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** `start`: the time, so that a later process with the same ID is another one. */
type Running = { readonly pid: number; readonly parent: number; readonly start: string }

/** ms for processes to end by themselves, and between two looks at them. */
const GRACE = { end: 5_000, look: 50 }

const running = (): readonly Running[] =>
  execFileSync('ps', ['-A', '-o', 'pid=,ppid=,lstart='], { encoding: 'utf8' })
    .split('\n')
    .flatMap((line) => {
      const [, pid, parent, start] = /^\s*(\d+)\s+(\d+)\s+(.+)$/.exec(line) ?? []
      return start === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), start }]
    })

const descendantsOf = (pid: number, all: readonly Running[]): readonly Running[] =>
  all.filter(({ parent }) => parent === pid).flatMap((child) => [child, ...descendantsOf(child.pid, all)])

const kill = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended.
  }
}

/** Sends SIGTERM to the descendants of a process, and SIGKILL to those that still run after 5 s. */
export const endDescendants = async (of: number): Promise<void> => {
  // Found before the first of them ends: what an ended process has started has another parent.
  const found = descendantsOf(of, running())
  for (const { pid } of found) kill(pid, 'SIGTERM')
  const left = () => {
    const now = new Set(running().map(({ pid, start }) => `${pid} ${start}`))
    return found.filter(({ pid, start }) => now.has(`${pid} ${start}`))
  }
  for (const end = performance.now() + GRACE.end; left().length > 0 && performance.now() < end; )
    await sleep(GRACE.look)
  for (const { pid } of left()) kill(pid, 'SIGKILL')
}
