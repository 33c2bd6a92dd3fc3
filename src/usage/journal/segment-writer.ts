/** Appends lines to the segments of one process's journal, and begins a new segment when one is full. */
import { closeSync, fdatasyncSync, fstatSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../../storage/files/folder.ts'
import { problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import { journalSize, segmentFile } from './segment-files.ts'

export type SegmentWriterOptions = {
  /** Created with the first record. */
  readonly folder: string
  /** Name of the process (`processName`). */
  readonly process: string
  /** Whether lines must be on the disk before they are safe. */
  readonly syncs: boolean
  /** Maximum size of the segments of all processes. */
  readonly spoolBytes: number
  readonly segmentBytes: number
}

/**
 * How many lines are in the file completely, and how many of them are so safe that an attempt may rely on them. `problem`: why
 * not all of them are; it contains no path.
 */
export type Appended = { readonly written: number; readonly safe: number; readonly problem: string | null }

type OpenSegment = { readonly fd: number; readonly path: string; size: number }

/** ms between checks whether the open segment was deleted. */
const CHECK = 1_000
const BUFFER = 256 * 1024
const NEWLINE = 10

export class SegmentWriter {
  readonly #options: SegmentWriterOptions
  #segment: OpenSegment | null = null
  #number = 0
  #checkAt = 0
  /** Reused for each write. */
  readonly #buffer = Buffer.allocUnsafe(BUFFER)

  constructor(options: SegmentWriterOptions) {
    this.#options = options
  }

  /** `now`: ms of the monotonic clock. */
  append(lines: readonly string[], now: number): Appended {
    const { syncs } = this.#options
    let done = 0
    let bytes: Buffer = this.#buffer
    try {
      bytes = this.#bytesOf(lines)
      const segment = this.#openSegment(now)
      while (done < bytes.length) {
        const count = writeSync(segment.fd, bytes, done, bytes.length - done)
        done += count
        segment.size += count
      }
      if (syncs) fdatasyncSync(segment.fd)
      return { written: lines.length, safe: lines.length, problem: null }
    } catch (error) {
      // Nothing may follow a torn line, and another error than a full disk may concern this file only.
      if ((done > 0 && bytes[done - 1] !== NEWLINE) || !isDiskFull(error)) this.close()
      const written = countLines(bytes.subarray(0, done))
      return { written, safe: syncs ? 0 : written, problem: problemOf(error) }
    }
  }

  close(): void {
    const segment = this.#segment
    this.#segment = null
    if (!segment) return
    try {
      closeSync(segment.fd)
      if (segment.size === 0) unlinkSync(segment.path)
    } catch {
      // The disk has failed, or the file was deleted.
    }
  }

  #bytesOf(lines: readonly string[]): Buffer {
    const text = lines.length === 1 ? (lines[0] ?? '') : lines.join('')
    // A UTF-16 unit takes at most three bytes.
    if (text.length * 3 > this.#buffer.length) return Buffer.from(text)
    return this.#buffer.subarray(0, this.#buffer.write(text))
  }

  #openSegment(now: number): OpenSegment {
    const segment = this.#segment
    const { folder, process, spoolBytes, segmentBytes } = this.#options
    if (segment && segment.size < segmentBytes && !this.#isDeleted(segment, now)) return segment
    this.close()
    makeFolder(folder)
    const size = journalSize(folder)
    if (size + segmentBytes > spoolBytes)
      throw new Error(`the journal has ${size} bytes that are not stored yet (limit ${spoolBytes} bytes)`)
    const path = join(folder, segmentFile(process, this.#number + 1))
    const fd = openSync(path, 'ax', 0o600)
    this.#number++
    this.#checkAt = now + CHECK
    this.#segment = { fd, path, size: 0 }
    return this.#segment
  }

  /** A deleted file accepts writes and loses them. */
  #isDeleted({ fd }: OpenSegment, now: number): boolean {
    if (now < this.#checkAt) return false
    this.#checkAt = now + CHECK
    return fstatSync(fd).nlink === 0
  }
}

const isDiskFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')

const countLines = (bytes: Buffer): number => {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}
