/**
 * Names of gateways in a shared database. Processes of two containers may have the same start and PID, so names of processes
 * and of journal segments begin with that of their gateway there: `<node>/<process>`. `usage.db` has those of one gateway,
 * without it.
 */
import { createHash, randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { makeFolder } from '../../storage/files/folder.ts'

/** The file with the gateway's name, in its data folder. */
const NAME_FILE = 'node-name'
const SEPARATOR = '/'
/** The next character: names of a gateway are those from `<node>/` to it. */
const AFTER_SEPARATOR = '0'
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/

/**
 * The name of the gateway with this data folder: that of the host at its first start, and random letters, because a host may
 * have several. It is kept in the folder like the journal, whose positions belong to it: a folder that moves to another host
 * keeps the name, and two gateways must not use copies of one folder. Throws the error of the file system.
 */
export const nodeName = (folder: string): string => {
  const path = join(folder, NAME_FILE)
  const known = nameIn(path)
  if (known !== null) return known
  makeFolder(folder)
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, '-')
  const suffix = randomBytes(3).toString('hex')
  const name = `${/^[A-Za-z0-9]/.test(host) ? host.slice(0, 63) : 'node'}-${suffix}`
  const written = `${path}.${suffix}`
  writeFileSync(written, `${name}\n`, { mode: 0o600, flush: true })
  try {
    // Fails if another process has done it meanwhile.
    linkSync(written, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    rmSync(written, { force: true })
  }
  const found = nameIn(path)
  if (found === null) throw new Error(`the file ${NAME_FILE} of the data folder contains no name`)
  return found
}

/** The same where the folder cannot be written: of the host and the folder. */
export const sharedName = (folder: string): string => {
  try {
    return nodeName(folder)
  } catch {
    return `${hostname()}-${createHash('sha256').update(resolve(folder)).digest('hex').slice(0, 12)}`
  }
}

/** Null: there is no file. */
const nameIn = (path: string): string | null => {
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
  if (!NAME.test(text)) throw new Error(`the file ${NAME_FILE} of the data folder contains no name`)
  return text
}

/** The name of a process among those of several gateways. */
export const runName = (node: string, process: string): string => node + SEPARATOR + process

/** How a gateway's processes and segments are named in the database. */
export type StoredNames = {
  readonly node: string
  readonly stored: (name: string) => string
  /** The name within the gateway; null: of another gateway, or of none. */
  readonly own: (stored: string) => string | null
  /** Its names are in this range, in the order of bytes; the end is exclusive. */
  readonly range: readonly [from: string, to: string]
}

export const storedNames = (node: string, isShared: boolean): StoredNames => {
  if (!isShared)
    return {
      node,
      stored: (name) => name,
      own: (name) => name || null,
      range: ['', '\u{10ffff}'],
    }
  const prefix = runName(node, '')
  return {
    node,
    stored: (name) => prefix + name,
    own: (stored) => (stored.startsWith(prefix) ? stored.slice(prefix.length) : null),
    range: [prefix, node + AFTER_SEPARATOR],
  }
}
