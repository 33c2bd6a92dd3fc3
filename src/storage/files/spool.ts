/** Forms that are longer than what is kept in memory: a file each, without a name, until the request has ended. */
import { readdirSync, unlinkSync } from 'node:fs'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Failure, fail } from '../../core/failure.ts'
import type { ByteReading, FormStore, GrowingBytes } from '../../core/form.ts'
import { makeFolder } from './folder.ts'

export type SpoolRules = {
  /** The folder of the files; it is created. */
  readonly folder: string
  /** Bytes of all files. */
  readonly limit: number
}

const NO_SPACE = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** The files of this process. */
export class Spool implements FormStore {
  readonly #rules: () => SpoolRules
  #isReady = false
  #used = 0
  #count = 0

  constructor(rules: () => SpoolRules) {
    this.#rules = rules
  }

  /** Bytes of all files. */
  get used(): number {
    return this.#used
  }

  /** A new file. */
  create(): SpoolFile {
    return new SpoolFile(this, () => this.open())
  }

  /** Takes space. Returns why there is none. */
  take(bytes: number): Failure | null {
    const { limit } = this.#rules()
    if (this.#used + bytes > limit)
      return fail(
        'spool_full',
        `Forms in progress have reached the limit of the disk (limit.spoolMegabytes, ${limit / 1_048_576} MiB).`,
        {
          headers: NO_RETRY,
        },
      )
    this.#used += bytes
    return null
  }

  give(bytes: number): void {
    this.#used -= bytes
  }

  /** A new file without a name. */
  protected async open(): Promise<FileHandle> {
    const { folder } = this.#rules()
    if (!this.#isReady) {
      makeFolder(folder)
      // Left by a process that ended between the two calls below. Those of other workers are open, and need no name.
      for (const name of readdirSync(folder)) unlinkIfThere(join(folder, name))
      this.#isReady = true
    }
    const path = join(folder, `${process.pid}-${++this.#count}`)
    const handle = await open(path, 'wx+', 0o600)
    await unlink(path).catch(ignore)
    return handle
  }
}

/** Clients of OpenAI retry each 5xx, with the whole file, unless this header is there. */
const NO_RETRY = { 'x-should-retry': 'false' }

const ignore = (): void => {}

const unlinkIfThere = (path: string): void => {
  try {
    unlinkSync(path)
  } catch {
    // Another process was first.
  }
}

/** The bytes of one form. Append, then read. */
class SpoolFile implements GrowingBytes {
  readonly whole = null
  readonly #spool: Spool
  readonly #handle: Promise<FileHandle>
  #length = 0
  #readings = 0
  #isReleased = false

  constructor(spool: Spool, opened: () => Promise<FileHandle>) {
    this.#spool = spool
    this.#handle = opened()
    // Reported by `append`, which is always called.
    this.#handle.catch(ignore)
  }

  get length(): number {
    return this.#length
  }

  /** Writes pieces at the end; one call at a time. Returns why they cannot be written. */
  async append(pieces: readonly Uint8Array[]): Promise<Failure | null> {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
    const full = this.#spool.take(bytes)
    if (full) return full
    const from = this.#length
    this.#length += bytes
    try {
      await writeAll(await this.#handle, pieces, from)
      return null
    } catch (error) {
      // Released while it was written to: the client has left.
      return this.#isReleased ? null : failureOf(error)
    }
  }

  open(): ByteReading {
    this.#readings++
    let isOver = false
    return {
      read: async (into, from) => (await (await this.#handle).read(into, 0, into.length, from)).bytesRead,
      end: () => {
        if (isOver) return
        isOver = true
        this.#readings--
        this.#closeIfUnused()
      },
    }
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#closeIfUnused()
  }

  #closeIfUnused(): void {
    if (!this.#isReleased || this.#readings > 0) return
    // `close` waits for calls in progress.
    void this.#handle
      .then((handle) => handle.close())
      .catch(ignore)
      .then(() => this.#spool.give(this.#length))
  }
}

/** The system may write less than all: a disk that is nearly full, or more than 2 GiB. */
const writeAll = async (handle: FileHandle, pieces: readonly Uint8Array[], from: number): Promise<void> => {
  let at = from
  for (const piece of pieces)
    for (let done = 0; done < piece.length; ) {
      const { bytesWritten } = await handle.write(piece, done, piece.length - done, at)
      done += bytesWritten
      at += bytesWritten
    }
}

const failureOf = (error: unknown): Failure => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return NO_SPACE.has(code)
    ? fail('spool_full', `The disk has no space for the form (${code}; data.dir, DATA_DIR).`, { headers: NO_RETRY })
    : fail('storage', `The form cannot be stored (${code}; data.dir, DATA_DIR).`, { headers: NO_RETRY })
}
