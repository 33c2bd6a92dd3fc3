/**
 * Standard output shared by several processes, without lines inside other lines. A write of at most PIPE_BUF bytes to a
 * pipe is atomic (pipe(7)), as is any write to a file or terminal. So output is written in pieces of whole lines within
 * that limit, one write each.
 */
import { writeSync } from 'node:fs'
import { isFull, MAX_WAITS, waitMillisecond } from '../../observe/blocking-wait.ts'
import type { Out } from '../../observe/log.ts'

/** PIPE_BUF of Linux, in bytes. */
export const ATOMIC_WRITE_BYTES = 4096

/** ms until a write to a full pipe is retried. */
const RETRY = 5
const NEWLINE = 0x0a

type WritePiece = (fd: number, piece: Buffer) => number

export const atomicLines = (fd: number, write: WritePiece = writeSync): Out => {
  const held: Buffer[] = []
  let length = 0
  let timer: NodeJS.Timeout | undefined
  /** Whether the exit listener is installed. */
  let listensForExit = false
  const errorListeners = new Set<(error: Error) => void>()

  /** Writes until everything is out or the pipe is full. */
  const flush = (): void => {
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
        for (const listener of errorListeners) listener(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }
  const flushAtExit = () => {
    for (let turn = 0; held.length > 0 && turn < MAX_WAITS; turn++) {
      flush()
      if (held.length > 0) waitMillisecond()
    }
  }
  const flushOrRetry = (): void => {
    timer = undefined
    flush()
    if (held.length === 0) return
    timer = setTimeout(flushOrRetry, RETRY)
    if (listensForExit) return
    listensForExit = true
    process.once('exit', flushAtExit)
  }

  return {
    write(text) {
      const bytes = Buffer.from(text)
      held.push(...piecesOf(bytes))
      length += bytes.length
      if (timer === undefined) flushOrRetry()
      return held.length === 0
    },
    get writableLength() {
      return length
    },
    on: (_event, run) => errorListeners.add(run),
    off: (_event, run) => errorListeners.delete(run),
  }
}

/** Groups whole lines into pieces that fit into one write; a longer line is a separate piece. */
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
