/**
 * Standard output where several processes write to it: lines of one are never inside lines of another. A write to a pipe
 * of at most PIPE_BUF bytes is made whole or not at all (pipe(7)); to a file or a terminal every write is. So what is
 * written goes out in pieces of whole lines, none longer than that, each in a call of its own.
 */
import { writeSync } from 'node:fs'
import { isFull, MAX_WAITS, waitMillisecond } from '../observe/blocking-wait.ts'
import type { Out } from '../observe/log.ts'

/** PIPE_BUF of Linux, in bytes. */
export const ATOMIC_WRITE_BYTES = 4096

/** ms until a pipe that was full is tried again. */
const AGAIN = 5
const NEWLINE = 0x0a

type Write = (fd: number, piece: Buffer) => number

export const atomicLines = (fd: number, write: Write = writeSync): Out => {
  const held: Buffer[] = []
  let length = 0
  let timer: NodeJS.Timeout | undefined
  /** The end of the process is listened to, since something had to wait. */
  let ends = false
  const troubled = new Set<(error: Error) => void>()

  /** Writes until all is out or the reader has had enough. */
  const pour = (): void => {
    for (let piece = held[0]; piece; piece = held[0]) {
      try {
        const written = write(fd, piece)
        length -= written
        if (written < piece.length) held[0] = piece.subarray(written)
        else held.shift()
      } catch (error) {
        if (isFull(error)) return
        held.length = 0
        length = 0
        for (const run of troubled) run(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }
  const pourAtEnd = () => {
    for (let turn = 0; held.length > 0 && turn < MAX_WAITS; turn++) {
      pour()
      if (held.length > 0) waitMillisecond()
    }
  }
  const again = (): void => {
    timer = undefined
    pour()
    if (held.length === 0) return
    timer = setTimeout(again, AGAIN)
    if (ends) return
    ends = true
    process.once('exit', pourAtEnd)
  }

  return {
    write(text) {
      const bytes = Buffer.from(text)
      held.push(...piecesOf(bytes))
      length += bytes.length
      if (timer === undefined) again()
      return held.length === 0
    },
    get writableLength() {
      return length
    },
    on: (_event, run) => troubled.add(run),
    off: (_event, run) => troubled.delete(run),
  }
}

/** As many whole lines as fit into a write each; a longer line is a piece of its own. */
const piecesOf = (bytes: Buffer): Buffer[] => {
  const pieces: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const fits = bytes.length - from <= ATOMIC_WRITE_BYTES
    const last = fits ? bytes.length - 1 : bytes.subarray(from, from + ATOMIC_WRITE_BYTES).lastIndexOf(NEWLINE)
    const end = fits ? bytes.length : last >= 0 ? from + last + 1 : bytes.indexOf(NEWLINE, from) + 1 || bytes.length
    pieces.push(bytes.subarray(from, end))
    from = end
  }
  return pieces
}
