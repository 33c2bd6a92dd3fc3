/** Reads a segment of the journal from an offset. */
import { closeSync, openSync, readSync } from 'node:fs'
import { decodeLine, type JournalLine } from './journal-record.ts'

type ReadSoFar = {
  records: number
  /** Time of the last record, in ms since 1970; 0: there is none. */
  lastAt: number
  /** Offset after the last complete line read. */
  position: number
  /** Offsets of malformed lines, which are skipped. */
  malformed: readonly number[]
  /** Whether a complete line may follow. */
  more: boolean
}
export type JournalRead = Readonly<ReadSoFar>

/** `add` receives at most `most` records. */
type RecordReader = { readonly most: number; readonly add: (line: JournalLine) => void }

/** Longer lines are malformed. */
const CHUNK = 512 * 1024
const NEWLINE = 10

/** One reader per thread: the buffer is reused. */
const buffer = Buffer.allocUnsafeSlow(CHUNK)

/**
 * Reads records from `position`. A last line without its newline is not read: its
 * writer has not finished it, or has ended and never acknowledged it. Throws the file system's error.
 */
export const readJournal = (path: string, position: number, { most, add }: RecordReader): JournalRead => {
  const read: ReadSoFar = { records: 0, lastAt: 0, position, malformed: [], more: true }
  const fd = openSync(path, 'r')
  try {
    while (read.more && read.records < most) {
      const length = readSync(fd, buffer, 0, CHUNK, read.position)
      readLines(buffer.subarray(0, length), read, { most, add })
      read.more = length === CHUNK || read.records === most
    }
    return read
  } finally {
    closeSync(fd)
  }
}

const readLines = (chunk: Buffer, read: ReadSoFar, { most, add }: RecordReader): void => {
  let start = 0
  while (read.records < most) {
    const end = chunk.indexOf(NEWLINE, start)
    if (end === -1) break
    const record = decodeLine(chunk.toString('utf8', start, end))
    if (record) {
      add(record)
      read.records++
      read.lastAt = record.at
    } else {
      read.malformed = [...read.malformed, read.position + start]
    }
    start = end + 1
  }
  // A chunk without a newline is the beginning of a malformed line.
  if (start === 0 && chunk.length === CHUNK) {
    read.malformed = [...read.malformed, read.position]
    start = CHUNK
  }
  read.position += start
}
