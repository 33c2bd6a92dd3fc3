/** The journal of a gateway's processes, for the bookkeeper: it is read, flushed to the disk, and removed when it is stored. */
import { closeSync, fdatasyncSync, openSync, renameSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalRow } from '../columns/usage-schema.ts'
import { readJournal } from '../journal/journal-reader.ts'
import type { JournalLine } from '../journal/journal-record.ts'
import type { MalformedSegment } from '../journal/malformed-segment.ts'
import { type JournalSegment, journalSize, listSegments } from '../journal/segment-files.ts'

export type SegmentReads = {
  /** New positions. */
  readonly changed: readonly JournalRow[]
  readonly malformed: readonly (MalformedSegment & { readonly offset: number })[]
  readonly hasMore: boolean
  readonly records: number
  /** Time of the last record. */
  readonly lastAt: number
}

/** Records that are read at once. */
const BATCH = 10_000
/** ms between flushes of journals to the disk. */
const SYNC = 1_000

export class JournalFolder {
  readonly #folder: string
  readonly #syncs: boolean
  /** Positions up to which segments were flushed to the disk. */
  readonly #synced = new Map<string, number>()
  #syncAt = 0

  /** `syncs`: whether journals are flushed to the disk each second. */
  constructor(folder: string, syncs: boolean) {
    this.#folder = folder
    this.#syncs = syncs
  }

  segments(): readonly JournalSegment[] {
    return listSegments(this.#folder)
  }

  /** Size of all segments in bytes; null: the folder cannot be read. */
  size(): number | null {
    try {
      return journalSize(this.#folder)
    } catch {
      return null
    }
  }

  /** Reads the next records of segments, after their positions. `add` receives each. */
  read(
    segments: readonly JournalSegment[],
    positions: ReadonlyMap<string, JournalRow>,
    add: (line: JournalLine, process: string) => void,
  ): SegmentReads {
    const changed: JournalRow[] = []
    const malformed: SegmentReads['malformed'][number][] = []
    let left = BATCH
    let lastAt = 0
    const result = (hasMore: boolean) => ({ changed, malformed, hasMore, records: BATCH - left, lastAt })
    for (const { file, process } of segments) {
      const before = positions.get(file) ?? { segment: file, position: 0, malformed: 0 }
      const reader = { most: left, add: (line: JournalLine) => add(line, process) }
      const read = readJournal(join(this.#folder, file), before.position, reader)
      left -= read.records
      lastAt = read.lastAt || lastAt
      const [offset] = read.malformed
      const lines = read.malformed.length
      if (offset !== undefined) malformed.push({ segment: file, lines, offset })
      if (read.position > before.position)
        changed.push({ segment: file, position: read.position, malformed: before.malformed + lines })
      if (read.more) return result(true)
    }
    return result(false)
  }

  /** Whether a segment is longer than its position, or that cannot be known. */
  hasUnstored(positions: ReadonlyMap<string, JournalRow>): boolean {
    try {
      return this.segments().some(({ file }) => {
        const size = statSync(join(this.#folder, file), { throwIfNoEntry: false })?.size ?? 0
        return size > (positions.get(file)?.position ?? 0)
      })
    } catch {
      return true
    }
  }

  /** Removes a stored segment, or keeps it as `.broken`. */
  remove(file: string, isMalformed: boolean): void {
    const path = join(this.#folder, file)
    if (isMalformed) renameSync(path, `${path}.broken`)
    else unlinkSync(path)
    this.#synced.delete(file)
  }

  /** Flushes journals that have grown to the disk. */
  sync(positions: ReadonlyMap<string, JournalRow>): void {
    const now = performance.now()
    if (!this.#syncs || now < this.#syncAt) return
    this.#syncAt = now + SYNC
    for (const { segment, position } of positions.values()) {
      if (position === this.#synced.get(segment)) continue
      const fd = openSync(join(this.#folder, segment), 'r+')
      try {
        fdatasyncSync(fd)
      } finally {
        closeSync(fd)
      }
      this.#synced.set(segment, position)
    }
  }
}
