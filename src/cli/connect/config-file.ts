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
import { JsonTextError, readJsonText } from '../../connect/edit-json.ts'
import { undoneJson, type WrittenValue } from '../../connect/undo-json.ts'
import { isObject, list, parseObject } from '../../core/json.ts'
import { CliError, EXIT } from '../cli.ts'

/** What was written, kept beside the file. `values`: of a JSON file. */
type ConnectRecord = {
  readonly existed: boolean
  readonly mode: number
  readonly sha256: string
  readonly values: readonly WrittenValue[]
}

/** The file that a symbolic link leads to. */
const realPath = (path: string): string => (existsSync(path) ? realpathSync(path) : path)
const backupOf = (path: string): string => `${path}.headgate-backup`
/** The name of a changed file that was replaced by its original. */
const changedOf = (path: string): string => `${path}.headgate-changed`
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
    ? {
        existed: value.existed,
        mode: Number(value.mode ?? PRIVATE),
        sha256: value.sha256,
        values: list(value.values)
          .filter(isObject)
          .map(({ path, value: written = null }) => ({ path: list(path).map(String), value: written })),
      }
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
export const writeConfigFile = (given: string, text: string, values: readonly WrittenValue[]): void => {
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
  const record: ConnectRecord = { existed: original.existed, mode: original.mode, sha256: hashOf(bytes), values }
  replaceFile(recordOf(path), new TextEncoder().encode(`${JSON.stringify(record)}\n`), PRIVATE)
  replaceFile(path, bytes, original.existed ? original.mode & 0o700 : PRIVATE)
}

/** `undone`: only the values of the connection were taken out, because the file was changed since. */
type UndoResult = 'restored' | 'removed' | 'undone'

/**
 * Restores the original byte for byte, or removes a file that did not exist. In a JSON file that was changed since, which
 * some clients do at their first start, only the values of the connection are taken out. `force`: the original is restored,
 * and the changed file is kept beside it. Throws `CliError` (conflict).
 */
export const restoreConfigFile = (given: string, force: boolean): UndoResult => {
  const path = realPath(given)
  const record = readRecord(path)
  if (!record) throw new CliError(EXIT.conflict, `${given} was not changed by headgate connect.`)
  const now = existsSync(path) ? readFileSync(path) : null
  const isChanged = now !== null && hashOf(now) !== record.sha256
  const undone = isChanged && !force ? withoutConnection(path, record) : null
  if (isChanged && !force && undone === null) {
    const remedy = record.existed ? `The original is ${backupOf(path)}.` : 'It did not exist before.'
    const keep = `--force restores it, and keeps the changed file as ${changedOf(path)}.`
    throw new CliError(
      EXIT.conflict,
      `${given} was changed since it was connected, so it is left as it is. ${remedy} ${keep}`,
    )
  }
  if (isChanged && force) replaceFile(changedOf(path), now, PRIVATE)
  if (undone !== null) replaceFile(path, new TextEncoder().encode(undone), record.mode)
  else if (record.existed) replaceFile(path, readFileSync(backupOf(path)), record.mode)
  else rmSync(path, { force: true })
  rmSync(backupOf(path), { force: true })
  rmSync(recordOf(path), { force: true })
  return undone !== null ? 'undone' : record.existed ? 'restored' : 'removed'
}

/** The text of a JSON file without the values of the connection; null: it is another file, or it cannot be read. */
const withoutConnection = (path: string, { existed, values }: ConnectRecord): string | null => {
  if (values.length === 0) return null
  try {
    const original = existed ? readJsonText(readFileSync(backupOf(path), 'utf8')) : {}
    return undoneJson(readFileSync(path, 'utf8'), original, values)
  } catch (error) {
    if (error instanceof JsonTextError) return null
    throw error
  }
}
