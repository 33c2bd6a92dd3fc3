/** Reads a segment of the journal from an offset. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { decodeLine, type JournalLine } from './journal-record.ts'

export type JournalRead = {
  readonly records: readonly JournalLine[]
  /** Offset after the last complete line read. */
  readonly position: number
  /** Offsets of malformed lines, which are skipped. */
  readonly malformed: readonly number[]
  /** Whether a complete line may follow. */
  readonly more: boolean
}

/** Longer lines are malformed. */
const CHUNK = 512 * 1024
const NEWLINE = 10

/** One reader per thread: the buffer is reused. */
const buffer = Buffer.allocUnsafeSlow(CHUNK)

/**
 * Reads at most `most` records from `position`. A last line without its newline is not read: its writer has not finished
 * it, or has ended and never acknowledged it. Throws the file system's error.
 */
export const readJournal = (path: string, position: number, most: number): JournalRead => {
  const fd = openSync(path, 'r')
  try {
    const length = readSync(fd, buffer, 0, CHUNK, position)
    const isLast = position + length >= fstatSync(fd).size
    return readLines(length, position, { most, isLast })
  } finally {
    closeSync(fd)
  }
}

const readLines = (
  length: number,
  position: number,
  { most, isLast }: { readonly most: number; readonly isLast: boolean },
): JournalRead => {
  const chunk = buffer.subarray(0, length)
  const records: JournalLine[] = []
  const malformed: number[] = []
  let start = 0
  while (records.length < most) {
    const end = chunk.indexOf(NEWLINE, start)
    if (end === -1) break
    const record = decodeLine(chunk.toString('utf8', start, end))
    if (record) records.push(record)
    else malformed.push(position + start)
    start = end + 1
  }
  if (records.length === most) return { records, malformed, position: position + start, more: true }
  // A chunk without a newline is the beginning of a malformed line.
  if (start === 0 && length === CHUNK)
    return { records, malformed: [position], position: position + length, more: true }
  return { records, malformed, position: position + start, more: !isLast }
}
