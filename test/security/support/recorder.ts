/**
 * Preloaded into the gateway (`node --import`). Records every connection, name lookup, datagram and child process, at
 * the lowest level JavaScript has. Writes one JSON object per line to the file named in the environment.
 */
import childProcess from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { appendFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import worker from 'node:worker_threads'

export type RecordedAction = {
  readonly what: 'connect' | 'lookup' | 'datagram' | 'process' | 'thread'
  readonly to: string
}

const file = process.env.DEEDS

const note = (what: RecordedAction['what'], to: string): void => {
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ what, to } satisfies RecordedAction)}\n`)
}

type Anything = (this: unknown, ...given: unknown[]) => unknown

/** Wraps a function so that its arguments are recorded before the call. */
const watch = (
  owner: object,
  name: string,
  what: RecordedAction['what'],
  targetOf: (given: readonly unknown[]) => string | null,
) => {
  // The wrapped functions have different signatures, which types cannot express.
  const members = owner as Record<string, unknown>
  const before = members[name]
  if (typeof before !== 'function') throw new Error(`there is no ${name} to watch`)
  members[name] = function (this: unknown, ...given: unknown[]) {
    const to = targetOf(given)
    if (to !== null) note(what, to)
    return (before as Anything).apply(this, given)
  }
}

/** Looking up an IP address sends no query. */
const name = ([given]: readonly unknown[]): string | null => (net.isIP(String(given)) ? null : String(given))

const first = (given: readonly unknown[]): string => String(given[0])

/** net.connect normalises its arguments into one list before this call. */
const place = ([given]: readonly unknown[]): string => {
  const [options] = Array.isArray(given) ? given : [given]
  const { host = 'localhost', port, path } = (options ?? {}) as { host?: string; port?: number; path?: string }
  return path ?? `${host}:${port}`
}

if (file !== undefined) {
  watch(net.Socket.prototype, 'connect', 'connect', place)
  watch(dgram.Socket.prototype, 'send', 'datagram', () => 'udp')
  for (const method of ['lookup', 'resolve', 'resolve4', 'resolve6', 'resolveAny']) watch(dns, method, 'lookup', name)
  for (const method of ['lookup', 'resolve', 'resolve4', 'resolve6', 'resolveAny'])
    watch(dns.promises, method, 'lookup', name)
  for (const name of ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork'])
    watch(childProcess, name, 'process', first)
  const { Worker } = worker
  // A class cannot be wrapped like a function.
  ;(worker as { Worker: unknown }).Worker = class extends Worker {
    constructor(...given: ConstructorParameters<typeof Worker>) {
      // Threads have one entry point, which loads their program.
      note('thread', String(given[1]?.workerData?.program ?? given[0]))
      super(...given)
    }
  }
  syncBuiltinESMExports()
}
