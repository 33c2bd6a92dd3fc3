/**
 * Backup and restore of the data folder: copies of the databases made by SQLite, and the journal, whose records may not be in
 * `usage.db` yet. Each file has its SHA-256 in `manifest.json`, the first file of the archive.
 */
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  createReadStream,
  createWriteStream,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { makeFolder } from '../storage/files/folder.ts'
import { schemaVersionOf } from '../storage/sql/sqlite/schema-version.ts'
import { listSegments, parseSegment } from '../usage/journal/segment-files.ts'
import { ArchiveError, readArchive, writeArchive } from './archive.ts'
import { DATABASES, databasesIn, IN_POSTGRES } from './data-files.ts'

/** The folders of a gateway. `isShared`: keys and usage are in Postgres. */
export type DataFolders = { readonly data: string; readonly journal: string; readonly isShared: boolean }

/** A backup cannot be written or restored. `conflict`: files are present or missing; `usage`: the file does not exist. */
export class BackupError extends Error {
  readonly reason: 'failed' | 'conflict' | 'usage'

  constructor(reason: 'failed' | 'conflict' | 'usage', message: string) {
    super(message)
    this.reason = reason
  }
}

const FORMAT = 1
const MANIFEST = 'manifest.json'
const JOURNAL = 'journal/'

const manifestSchema = z.strictObject({
  format: z.literal(FORMAT),
  version: z.string(),
  created_at: z.string(),
  /** What is in a database of its own and not part of the archive. */
  postgres: z.array(z.string()).optional(),
  files: z.array(
    z.strictObject({
      name: z.string(),
      bytes: z.int().min(0),
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
      schema: z.int().nullable(),
    }),
  ),
})
export type BackupManifest = z.output<typeof manifestSchema>

/** In the data folder: when a backup of it was last written. It is in no archive. */
const LAST = 'last-backup.json'
const lastSchema = z.strictObject({ at: z.iso.datetime(), bytes: z.int(), usage: z.boolean() })
/** `usage`: with the ledger. */
type LastBackup = z.output<typeof lastSchema>

/** The last backup of a data folder that this program wrote; null: none is known. */
export const lastBackup = (data: string): LastBackup | null => {
  try {
    return lastSchema.parse(JSON.parse(readFileSync(join(data, LAST), 'utf8')))
  } catch {
    // There was none, or another program has written the file.
    return null
  }
}

const hashOf = async (path: string, bytes: number): Promise<string> => {
  const hash = createHash('sha256')
  if (bytes > 0) for await (const chunk of createReadStream(path, { end: bytes - 1 })) hash.update(chunk)
  return hash.digest('hex')
}

/** Copies a database as it is at one moment, while others write it. */
const copyDatabase = (from: string, to: string): void => {
  const database = new DatabaseSync(from, { readOnly: true })
  try {
    database.exec('PRAGMA busy_timeout = 10000')
    database.prepare('VACUUM INTO ?').run(to)
  } finally {
    database.close()
  }
}

/** A segment of the journal: the file, and where its content is kept. */
type HeldSegment = { readonly file: string; readonly path: string; readonly isCopy: boolean }

/** Keeps the segments that exist now, although the bookkeeper may delete them: as links, or copies on another file system. */
const holdSegments = (journal: string, to: string, held: readonly HeldSegment[]): readonly HeldSegment[] =>
  listSegments(journal).flatMap(({ file }): readonly HeldSegment[] => {
    const [from, path] = [join(journal, file), join(to, file)]
    const known = held.find((one) => one.file === file)
    if (known && !known.isCopy) return []
    try {
      if (known) copyFileSync(from, path)
      else linkSync(from, path)
      return known ? [] : [{ file, path, isCopy: false }]
    } catch (error) {
      // Deleted meanwhile: all of it is in the database.
      if (!(error instanceof Error && 'code' in error) || error.code === 'ENOENT') return []
      copyFileSync(from, path)
      return [{ file, path, isCopy: true }]
    }
  })

/** The bytes up to the last line end: a line without one was never acknowledged. */
const wholeLines = (path: string): number => {
  const text = readFileSync(path)
  return text.lastIndexOf(0x0a) + 1
}

/**
 * Writes a backup. The segments are held before the databases are copied and read afterwards, so that every record is in a
 * database, in a segment, or in both, which the position in `usage.db` tells apart.
 */
export const writeBackup = async (
  file: string,
  { data, journal, isShared }: DataFolders,
  { usage, version }: { readonly usage: boolean; readonly version: string },
): Promise<BackupManifest> => {
  const wanted = DATABASES.filter(
    (one) => existsSync(join(data, one.file)) && (usage || one.file !== 'usage.db') && !(isShared && one.isShared),
  )
  // With usage in Postgres, nothing in the archive would say which records of a segment are stored already.
  const hasJournal = usage && !isShared
  if (wanted.length === 0)
    throw new BackupError('conflict', `There is nothing to back up in ${data}.${isShared ? ` ${IN_POSTGRES}` : ''}`)
  if (existsSync(file)) throw new BackupError('conflict', `${file} exists. Choose another name.`)
  makeFolder(data)
  const work = mkdtempSync(join(data, 'backup-'))
  try {
    const before = hasJournal ? holdSegments(journal, work, []) : []
    const databases = wanted.map((one) => {
      const path = join(work, one.file)
      copyDatabase(join(data, one.file), path)
      return { name: one.file, path, bytes: statSync(path).size, schema: schemaVersionOf(path) }
    })
    // Segments that began meanwhile, and what was added to copies.
    const segments = hasJournal ? [...before, ...holdSegments(journal, work, before)] : []
    const held = segments.map(({ file: segment, path }) => ({
      name: JOURNAL + segment,
      path,
      bytes: wholeLines(path),
      schema: null,
    }))
    const all = [...databases, ...held]
    const files: BackupManifest['files'] = []
    for (const { name, path, bytes, schema } of all)
      files.push({ name, bytes, sha256: await hashOf(path, bytes), schema })
    const manifest: BackupManifest = {
      format: FORMAT,
      version,
      created_at: new Date().toISOString(),
      ...(isShared && { postgres: ['keys', 'usage'] }),
      files,
    }
    const page = join(work, MANIFEST)
    writeFileSync(page, `${JSON.stringify(manifest, null, 2)}\n`)
    await writeArchive(file, [{ name: MANIFEST, path: page, bytes: statSync(page).size }, ...all])
    const last: LastBackup = { at: manifest.created_at, bytes: statSync(file).size, usage }
    writeFileSync(join(data, LAST), JSON.stringify(last), { mode: 0o600 })
    return manifest
  } catch (error) {
    rmSync(file, { force: true })
    throw error
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

const MAX_MANIFEST = 16 * 1024 * 1024

const readManifest = async (content: AsyncIterable<Buffer>, name: string, bytes: number): Promise<BackupManifest> => {
  if (name !== MANIFEST || bytes > MAX_MANIFEST) throw new ArchiveError('it has no manifest')
  const parts: Buffer[] = []
  for await (const part of content) parts.push(part)
  const parsed = manifestSchema.safeParse(JSON.parse(Buffer.concat(parts).toString()))
  if (!parsed.success) throw new ArchiveError('its manifest is not one of this version')
  return parsed.data
}

/** Refuses names that are no databases or segments, and databases of a newer version. */
const checkManifest = ({ files, version }: BackupManifest): void => {
  for (const { name, schema } of files) {
    const database = DATABASES.find(({ file }) => file === name)
    const isSegment = name.startsWith(JOURNAL) && parseSegment(name.slice(JOURNAL.length)) !== undefined
    if (!database && !isSegment) throw new ArchiveError('it has a file that is not part of a backup')
    if (database?.newest && schema !== null && schema > database.newest)
      throw new BackupError(
        'conflict',
        `The backup was made by Headgate ${version}: ${name} has schema version ${schema} (supported: ${database.newest}). Use that version or a newer one.`,
      )
  }
}

/** Extracts all files into a folder and compares them with the manifest. */
const extract = async (file: string, work: string): Promise<BackupManifest> => {
  let manifest: BackupManifest | null = null
  const found = new Set<string>()
  for await (const { name, bytes, content } of readArchive(file)) {
    if (!manifest) {
      manifest = await readManifest(content, name, bytes)
      checkManifest(manifest)
      continue
    }
    const expected = manifest.files.find((one) => one.name === name)
    if (!expected || expected.bytes !== bytes || found.has(name))
      throw new ArchiveError(`${JSON.stringify(name)} is not in its manifest`)
    found.add(name)
    const path = join(work, name.replace('/', '-'))
    await pipeline(content, createWriteStream(path, { mode: 0o600 }))
    if ((await hashOf(path, bytes)) !== expected.sha256) throw new ArchiveError(`${name} is damaged`)
  }
  if (!manifest || found.size !== manifest.files.length) throw new ArchiveError('files are missing')
  for (const { file: name, version, problem } of databasesIn(work)) {
    if (problem !== null) throw new ArchiveError(`${name} is no database that can be read (${problem})`)
    // The gateway would take it for one that has lost its keys.
    if (name === 'control.db' && version === null) throw new ArchiveError(`${name} contains no tables of Headgate`)
  }
  return manifest
}

/** Moves the present files away, so that a restore can be undone by hand. */
const moveAway = ({ data, journal }: DataFolders, stamp: string): readonly string[] => {
  const present = [
    ...DATABASES.flatMap(({ file }) => [file, `${file}-wal`, `${file}-shm`].map((name) => join(data, name))),
    ...listSegments(journal).map(({ file }) => join(journal, file)),
  ].filter((path) => existsSync(path))
  const away = join(data, `replaced-${stamp}`)
  if (present.length > 0) mkdirSync(away, { mode: 0o700 })
  for (const path of present) renameSync(path, join(away, path.slice(dirname(path).length + 1)))
  return present
}

/** Restores a backup. `replace`: present databases are moved to a folder `replaced-…`, otherwise they are an error. */
export const restoreBackup = async (
  file: string,
  folders: DataFolders,
  replace: boolean,
): Promise<{ readonly manifest: BackupManifest; readonly moved: number }> => {
  const { data, journal } = folders
  if (!existsSync(file)) throw new BackupError('usage', `${resolve(file)} does not exist.`)
  makeFolder(data)
  const present = DATABASES.filter((one) => existsSync(join(data, one.file))).map((one) => one.file)
  if (present.length > 0 && !replace)
    throw new BackupError(
      'conflict',
      `${data} has ${present.join(', ')}. Pass --replace to move them to another folder.`,
    )
  const work = mkdtempSync(join(data, 'restore-'))
  try {
    const manifest = await extract(file, work)
    const moved = moveAway(folders, new Date().toISOString().replaceAll(/[:.]/g, '-'))
    makeFolder(journal)
    for (const { name } of manifest.files) {
      const target = name.startsWith(JOURNAL) ? join(journal, name.slice(JOURNAL.length)) : join(data, name)
      renameSync(join(work, name.replace('/', '-')), target)
    }
    return { manifest, moved: moved.length }
  } catch (error) {
    const isDamaged = error instanceof ArchiveError || error instanceof SyntaxError
    const isZlib = error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')
    if (!isDamaged && !isZlib) throw error
    throw new BackupError('failed', `${file} cannot be restored: ${error.message}. Nothing was changed.`)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
