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
import { z } from 'zod'
import type { ConfigChange, ConfigFormat } from '../../connect/clients.ts'
import { ConfigTextError, undoConfig } from '../../connect/edit.ts'
import { readJson } from '../../core/json.ts'
import { CliError, EXIT } from '../cli.ts'

/** What was written to a file. */
export type WrittenConfig = { readonly format: ConfigFormat; readonly changes: readonly ConfigChange[] }

/** What was written, kept beside the file. */
type ConnectRecord = WrittenConfig & {
  readonly existed: boolean
  readonly mode: number
  readonly sha256: string
}

/** The file that a symbolic link leads to. */
const realPath = (path: string): string => (existsSync(path) ? realpathSync(path) : path)
const backupOf = (path: string): string => `${path}.headgate-backup`
/** The name of a changed file that was replaced by its original. */
const changedOf = (path: string): string => `${path}.headgate-changed`
const recordOf = (path: string): string => `${path}.headgate.json`
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
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

const RECORD = z.object({
  existed: z.boolean(),
  mode: z.int().default(PRIVATE),
  sha256: z.string(),
  format: z.enum(['json', 'toml', 'yaml', 'env'] satisfies readonly ConfigFormat[]),
  changes: z
    .array(
      z.object({
        path: z.array(z.string()),
        value: z.json().default(null),
        entryBy: z.string().exactOptional(),
      }),
    )
    .default([]),
})

const readRecord = (path: string): ConnectRecord | null => {
  if (!existsSync(recordOf(path))) return null
  const { success, data } = RECORD.safeParse(readJson(readFileSync(recordOf(path), 'utf8')))
  return success ? data : null
}

/** Replaces the file in one step. */
const replaceFile = (path: string, bytes: Uint8Array, mode: number): void => {
  const draft = `${path}.headgate-draft`
  writeFileSync(draft, bytes, { mode })
  chmodSync(draft, mode)
  renameSync(draft, path)
}

/** The content to be restored, and the file mode; null: there was no file. */
type Original = { readonly bytes: Uint8Array; readonly mode: number } | null

/** Of a file that was changed since an earlier connection: its content without that connection. */
const originalOf = async (path: string): Promise<Original> => {
  const before = existsSync(path) ? readFileSync(path) : null
  const previous = readRecord(path)
  if (previous !== null && before !== null) {
    if (hashOf(before) === previous.sha256)
      return previous.existed ? { bytes: readFileSync(backupOf(path)), mode: previous.mode } : null
    const undone = await withoutConnection(path, previous)
    if (undone !== null) return undone === '' ? null : { bytes: bytesOf(undone), mode: previous.mode }
  }
  return before && { bytes: before, mode: statSync(path).mode & 0o777 }
}

/** Writes the text and keeps the original, also that of an earlier connection. */
export const writeConfigFile = async (given: string, text: string, written: WrittenConfig): Promise<void> => {
  const path = realPath(given)
  mkdirSync(dirname(path), { recursive: true })
  const original = await originalOf(path)
  rmSync(backupOf(path), { force: true })
  if (original) replaceFile(backupOf(path), original.bytes, PRIVATE)
  const bytes = bytesOf(text)
  const mode = original?.mode ?? PRIVATE
  const record: ConnectRecord = { existed: original !== null, mode, sha256: hashOf(bytes), ...written }
  replaceFile(recordOf(path), bytesOf(`${JSON.stringify(record)}\n`), PRIVATE)
  replaceFile(path, bytes, original ? mode & 0o700 : PRIVATE)
}

/** `undone`: only the values of the connection were taken out, because the file was changed since. */
type UndoResult = 'restored' | 'removed' | 'undone'

/**
 * Restores the original byte for byte, or removes a file that did not exist. In a file that was changed since, which some
 * clients do at their first start, only the values of the connection are taken out. `force`: the original is restored, and the
 * changed file is kept beside it. Throws `CliError` (conflict).
 */
export const restoreConfigFile = async (given: string, force: boolean): Promise<UndoResult> => {
  const path = realPath(given)
  const record = readRecord(path)
  if (!record) throw new CliError(EXIT.conflict, `${given} was not changed by headgate connect.`)
  const now = existsSync(path) ? readFileSync(path) : null
  const isChanged = now !== null && hashOf(now) !== record.sha256
  const undone = isChanged && !force ? await withoutConnection(path, record) : null
  if (isChanged && !force && undone === null) {
    const remedy = record.existed ? `The original is ${backupOf(path)}.` : 'It did not exist before.'
    const keep = `--force restores it, and keeps the changed file as ${changedOf(path)}.`
    throw new CliError(
      EXIT.conflict,
      `${given} was changed since it was connected and cannot be read, so it is left as it is. ${remedy} ${keep}`,
    )
  }
  if (isChanged && force) replaceFile(changedOf(path), now, PRIVATE)
  const isRemoved = undone === null ? !record.existed : undone === ''
  if (isRemoved) rmSync(path, { force: true })
  else if (undone !== null) replaceFile(path, bytesOf(undone), record.mode)
  else replaceFile(path, readFileSync(backupOf(path)), record.mode)
  rmSync(backupOf(path), { force: true })
  rmSync(recordOf(path), { force: true })
  return isRemoved ? 'removed' : undone !== null ? 'undone' : 'restored'
}

/** Whether a text has no values. */
const isEmpty = (text: string): boolean => /^\s*(?:\{\s*\}\s*)?$/.test(text)

/**
 * The text of a changed file without the values of the connection, empty if it did not exist before and has no others; null: a
 * text cannot be read.
 */
const withoutConnection = async (path: string, { existed, format, changes }: ConnectRecord): Promise<string | null> => {
  try {
    const [now, original] = [readConfigFile(path) ?? '', existed ? (readConfigFile(backupOf(path)) ?? '') : '']
    const undone = await undoConfig(now, original, { format }, changes)
    return !existed && isEmpty(undone) ? '' : undone
  } catch (error) {
    if (error instanceof ConfigTextError || error instanceof CliError) return null
    throw error
  }
}
