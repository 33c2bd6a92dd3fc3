/**
 * Loaded into the gateway before anything of its own (`node --import`): writes down every connection it opens, name it
 * looks up, datagram it sends and process it starts, at the lowest place JavaScript has for each. The file's path is in
 * the environment; a line is JSON.
 */
import childProcess from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { appendFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import worker from 'node:worker_threads'

export type Deed = { readonly what: 'connect' | 'lookup' | 'datagram' | 'process' | 'thread'; readonly to: string }

const file = process.env.DEEDS

const note = (what: Deed['what'], to: string): void => {
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ what, to } satisfies Deed)}\n`)
}

type Anything = (this: unknown, ...given: unknown[]) => unknown

/** Calls what was there before, having written down what it was called with. */
const watch = (owner: object, name: string, what: Deed['what'], told: (given: readonly unknown[]) => string | null) => {
  // Functions of every signature are wrapped here, which types cannot follow.
  const members = owner as Record<string, unknown>
  const before = members[name]
  if (typeof before !== 'function') throw new Error(`there is no ${name} to watch`)
  members[name] = function (this: unknown, ...given: unknown[]) {
    const to = told(given)
    if (to !== null) note(what, to)
    return (before as Anything).apply(this, given)
  }
}

/** An address is looked up too, which asks nobody. */
const name = ([given]: readonly unknown[]): string | null => (net.isIP(String(given)) ? null : String(given))

const first = (given: readonly unknown[]): string => String(given[0])

/** net.connect normalises what it is given into one list before it comes here. */
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
  // A class cannot be wrapped as a function is.
  ;(worker as { Worker: unknown }).Worker = class extends Worker {
    constructor(...given: ConstructorParameters<typeof Worker>) {
      note('thread', String(given[0]))
      super(...given)
    }
  }
  syncBuiltinESMExports()
}
