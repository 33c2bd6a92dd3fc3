/** The folder with tapes: reads them when they change, appends exchanges, and keeps its limits. */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { JsonObject } from '../core/json.ts'
import { canonicalJson } from '../policy/idempotency-key.ts'
import type { Normaliser } from './masking.ts'
import { type Exchange, exchangeLines, headLine, type ReadTape, type TapedExchange, TapeReader } from './tape-file.ts'

const MB = 1024 * 1024
/** Bytes of an exchange, of a tape, of all in the folder, and of the list of misses. */
export const MOST = { exchange: 4 * MB, tape: 10 * MB, folder: 50 * MB, misses: MB } as const

/** Names of tapes, which are names of files. */
export const TAPE_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/

/** The list of misses, and the figures of the last run. */
export const MISSES = '.misses.jsonl'
export const LAST_RUN = '.last-run.json'

export type LoadedTape = ReadTape & {
  readonly name: string
  readonly path: string
  readonly bytes: number
  /** By key. */
  readonly byKey: ReadonlyMap<string, readonly TapedExchange[]>
}

export class TapeFolder {
  readonly path: string
  readonly #loaded = new Map<
    string,
    { readonly version: string; readonly reader: TapeReader; readonly tape: LoadedTape }
  >()

  #missBytes = 0

  constructor(path: string) {
    this.path = path
  }

  /** The names of all tapes. */
  names(): readonly string[] {
    if (!statSync(this.path, { throwIfNoEntry: false })?.isDirectory()) return []
    return readdirSync(this.path, { withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.jsonl') && !entry.name.startsWith('.'))
      .map(({ name: file }) => file.slice(0, -'.jsonl'.length))
      .sort()
  }

  fileOf(name: string): string {
    return join(this.path, `${name}.jsonl`)
  }

  /** A tape as it is on disk now. One that does not exist or cannot be read is empty; the latter has a problem. */
  open(name: string): LoadedTape {
    const path = this.fileOf(name)
    try {
      const found = statSync(path, { throwIfNoEntry: false })
      const known = this.#loaded.get(name)
      if (known?.version === versionOf(found)) return known.tape
      const reader = new TapeReader()
      if (found) reader.read(readFileSync(path, 'utf8'))
      return this.#keep(name, reader, found)
    } catch (error) {
      // A folder of that name, or a file of another user.
      const message = `cannot be read (${error instanceof Error ? error.message : String(error)})`
      const empty = { ...new TapeReader().result(), bytes: 0, byKey: new Map() }
      return { ...empty, name, path, problems: [{ line: 1, message }], refusal: `It ${message}.` }
    }
  }

  /**
   * Adds an exchange, in one write at the end of the file. Throws if it is too large, with the remedy, and errors of the disk.
   */
  append(name: string, exchange: Exchange, more: AppendOptions): void {
    const tape = this.open(name)
    const { path, bytes, parts, isCut, refusal } = tape
    if (refusal !== null) throw new Error(`${path} is not written. ${refusal} Use another tape name.`)
    const isNew = bytes === 0
    const text = (isNew ? headLine(more.normalise) : '') + exchangeLines(exchange, new Set(parts))
    const size = Buffer.byteLength(text)
    const limit = (found: number, most: number, what: string) => {
      if (found > most)
        throw new Error(
          `${what} would have ${(found / MB).toFixed(1)} MB (limit ${most / MB} MB). Use another tape name, or headgate tape prune.`,
        )
    }
    limit(size, MOST.exchange, 'The exchange')
    limit(bytes + size, MOST.tape, `The tape ${name}`)
    limit(this.#bytes() + size, MOST.folder, `The folder ${this.path}`)
    more.check(text)
    mkdirSync(dirname(path), { recursive: true })
    for (const [digest, data] of more.media) this.#keepMedia(digest, data)
    // A line that another write has cut must not swallow this one.
    const written = isCut ? `\n${text}` : text
    appendFileSync(path, written)
    this.#added(tape, written)
  }

  /** The tape in memory with the exchange. If another process has written too, the file is read again. */
  #added(before: LoadedTape, written: string): void {
    const loaded = this.#loaded.get(before.name)
    const found = statSync(before.path)
    if (!loaded || found.size !== before.bytes + Buffer.byteLength(written)) return
    loaded.reader.read(written)
    this.#keep(before.name, loaded.reader, found)
  }

  #keep(name: string, reader: TapeReader, found: Stats | undefined): LoadedTape {
    const read = reader.result()
    const byKey = Map.groupBy(read.exchanges, ({ key }) => key)
    const tape = { ...read, name, path: this.fileOf(name), bytes: found?.size ?? 0, byKey }
    this.#loaded.set(name, { version: versionOf(found), reader, tape })
    return tape
  }

  /** Adds a miss to the list, up to its limit. Errors of the disk change nothing: the client has the report too. */
  addMiss(miss: JsonObject): void {
    const line = `${canonicalJson(miss)}\n`
    this.#missBytes += Buffer.byteLength(line)
    if (this.#missBytes > MOST.misses) return
    try {
      mkdirSync(this.path, { recursive: true })
      appendFileSync(join(this.path, MISSES), line)
    } catch {}
  }

  /** Removes the misses of an earlier run. */
  clearMisses(): void {
    try {
      rmSync(join(this.path, MISSES), { force: true })
    } catch {}
  }

  /** Writes the figures of this run, for `headgate tape`. */
  writeRun(run: JsonObject): void {
    mkdirSync(this.path, { recursive: true })
    writeFileSync(join(this.path, LAST_RUN), `${JSON.stringify(run)}\n`)
  }

  #keepMedia(digest: string, data: string): void {
    const path = join(this.path, 'media', digest)
    if (existsSync(path)) return
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, Buffer.from(data, 'base64'))
  }

  #bytes(): number {
    const own = this.names().map((name) => this.fileOf(name))
    const media = join(this.path, 'media')
    const files = existsSync(media) ? [...own, ...readdirSync(media).map((file) => join(media, file))] : own
    return files.reduce((sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0)
  }
}

type AppendOptions = {
  readonly normalise: readonly Normaliser[]
  readonly media: ReadonlyMap<string, string>
  /** Throws if the lines may not be written. */
  readonly check: (text: string) => void
}

const versionOf = (found: Stats | undefined): string => (found ? `${found.size} ${found.mtimeMs}` : '')
