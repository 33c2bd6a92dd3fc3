/**
 * Writes a client's configuration file and restores it. The original is kept beside it as `<file>.headgate-backup`, and
 * `<file>.headgate.json` states whether there was one and what was written.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { isObject, parseObject } from '../../../core/json.ts'
import { CliError, EXIT } from '../cli.ts'

/** What was written, kept beside the file. */
type ConnectRecord = { readonly existed: boolean; readonly mode: number; readonly sha256: string }

/** The file that a symbolic link leads to. */
const realPath = (path: string): string => (existsSync(path) ? realpathSync(path) : path)
const backupOf = (path: string): string => `${path}.headgate-backup`
const recordOf = (path: string): string => `${path}.headgate.json`
const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
/** Only the owner: the file contains a key. */
const PRIVATE = 0o600

/** The text of a file; null: there is none. Throws `CliError` if it is not UTF-8. */
export const readConfigFile = (path: string): string | null => {
  if (!existsSync(path)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path))
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new CliError(EXIT.failed, `${path} is not a text in UTF-8.`)
  }
}

const readRecord = (path: string): ConnectRecord | null => {
  if (!existsSync(recordOf(path))) return null
  const value = parseObject(readFileSync(recordOf(path), 'utf8'))
  return isObject(value) && typeof value.existed === 'boolean' && typeof value.sha256 === 'string'
    ? { existed: value.existed, mode: Number(value.mode ?? PRIVATE), sha256: value.sha256 }
    : null
}

/** Replaces the file in one step. */
const replaceFile = (path: string, bytes: Uint8Array, mode: number): void => {
  const draft = `${path}.headgate-draft`
  writeFileSync(draft, bytes, { mode })
  chmodSync(draft, mode)
  renameSync(draft, path)
}

/** Writes the text and keeps the original. A second write keeps the original of the first, unless the file was changed since. */
export const writeConfigFile = (given: string, text: string): void => {
  const path = realPath(given)
  mkdirSync(dirname(path), { recursive: true })
  const before = existsSync(path) ? readFileSync(path) : null
  const previous = readRecord(path)
  const isOurs = previous !== null && before !== null && hashOf(before) === previous.sha256
  const original = isOurs
    ? previous
    : { existed: before !== null, mode: before === null ? PRIVATE : statSync(path).mode & 0o777 }
  if (!isOurs) {
    rmSync(backupOf(path), { force: true })
    if (before !== null) replaceFile(backupOf(path), before, PRIVATE)
  }
  const bytes = new TextEncoder().encode(text)
  const record: ConnectRecord = { existed: original.existed, mode: original.mode, sha256: hashOf(bytes) }
  replaceFile(recordOf(path), new TextEncoder().encode(`${JSON.stringify(record)}\n`), PRIVATE)
  replaceFile(path, bytes, original.existed ? original.mode & 0o700 : PRIVATE)
}

/** Restores the original byte for byte, or removes a file that did not exist. Throws `CliError` (conflict). */
export const restoreConfigFile = (given: string): 'restored' | 'removed' => {
  const path = realPath(given)
  const record = readRecord(path)
  if (!record) throw new CliError(EXIT.conflict, `${given} was not changed by headgate connect.`)
  const now = existsSync(path) ? readFileSync(path) : null
  if (now !== null && hashOf(now) !== record.sha256) {
    const remedy = record.existed ? `The original is ${backupOf(path)}.` : 'It did not exist before.'
    throw new CliError(EXIT.conflict, `${given} was changed since it was connected, so it is left as it is. ${remedy}`)
  }
  if (record.existed) replaceFile(path, readFileSync(backupOf(path)), record.mode)
  else rmSync(path, { force: true })
  rmSync(backupOf(path), { force: true })
  rmSync(recordOf(path), { force: true })
  return record.existed ? 'restored' : 'removed'
}
