/**
 * Writes log lines, batched: at the end of a turn of the event loop, or every few ms while lines keep coming. If the reader
 * is too slow, lines are dropped and counted, so memory stays bounded. Buffered lines are written when the process ends.
 */
import { writeSync } from 'node:fs'
import { maskOwnKeys } from '../core/own-keys.ts'
import type { GatewayEvent } from '../core/trace.ts'
import { isFull, MAX_WAITS, waitMillisecond } from './blocking-wait.ts'
import { noPaint, type Paint } from './colour.ts'
import { logEntryOf } from './event-log.ts'
import { type Fields, jsonLine, jsonLineWithin, LEVELS, type Level, type Line } from './line.ts'
import { prettyLine } from './pretty.ts'

export type Log = {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
  record(event: GatewayEvent): void
  /** Passes all buffered lines to the stream now. */
  flush(): void
  /** Writes buffered lines synchronously, waiting for a full pipe, and detaches from the stream. */
  close(): void
}

/** The members of a stream that the log uses. */
export type Out = {
  write(text: string): boolean
  readonly writableLength: number
  readonly fd?: number
  on(event: 'error', run: (error: Error) => void): unknown
  off(event: 'error', run: (error: Error) => void): unknown
}

export type LogOptions = {
  readonly out: Out
  readonly level: Level
  readonly format: 'json' | 'pretty'
  readonly paint?: Paint
  readonly date?: () => number
  /** Set if several worker processes share the output: adds `worker` to each line and limits lines to `whole` bytes. */
  readonly shared?: { readonly worker: number; readonly whole: number } | undefined
  /** Lines are dropped while more characters than this are buffered here and in the stream. */
  readonly most?: number
  /** Minimum ms between two writes. */
  readonly pace?: number
}

const MOST = 4_194_304

/** A write costs as much as formatting the few lines of one turn. */
const PACE = 5

/** Characters after which the buffer is flushed at the end of the turn; a pipe takes 64 KiB at once. */
const MANY = 16_384

/** Writes to a file descriptor, waiting while the pipe is full. */
const writeOut = (fd: number, text: string): void => {
  let bytes = Buffer.from(text)
  for (let turn = 0; bytes.length > 0 && turn < MAX_WAITS; turn++)
    try {
      bytes = bytes.subarray(writeSync(fd, bytes))
    } catch (error) {
      if (!isFull(error)) return
      waitMillisecond()
    }
}

/** Opens the log. Call `close` when the process ends. */
export const openLog = ({
  out,
  level,
  format,
  paint = noPaint,
  date = Date.now,
  shared,
  most = MOST,
  pace = PACE,
}: LogOptions): Log => {
  const minLevel = LEVELS.indexOf(level)
  let buffered: string[] = []
  let length = 0
  let scheduled: 'no' | 'soon' | 'now' = 'no'
  let flushed = Number.NEGATIVE_INFINITY
  let dropped = 0
  let broken = false
  let closed = false

  // A closed reader must not end the gateway: further lines are discarded.
  const onError = () => {
    broken = true
  }
  out.on('error', onError)

  const json = shared ? (line: Line) => jsonLineWithin({ ...line, worker: shared.worker }, shared.whole - 1) : jsonLine
  const pretty = (line: Line) => prettyLine(shared ? { ...line, worker: shared.worker } : line, paint)
  const textOf = (line: Line): string => `${maskOwnKeys(format === 'json' ? json(line) : pretty(line))}\n`

  const take = (): string => {
    if (dropped > 0) {
      const fields = { lines: dropped, message: 'Log lines were dropped: the reader of the log is too slow.' }
      buffered.push(textOf({ level: 'warn', event: 'log_dropped', at: date(), fields }))
      dropped = 0
    }
    const text = buffered.join('')
    buffered = []
    length = 0
    return text
  }

  const flush = () => {
    scheduled = 'no'
    flushed = performance.now()
    if (closed || broken || (buffered.length === 0 && dropped === 0)) return
    out.write(take())
  }

  const write = (line: Line) => {
    if (closed || broken || LEVELS.indexOf(line.level) < minLevel) return
    if (length + out.writableLength > most) {
      dropped++
      return
    }
    const text = textOf(line)
    buffered.push(text)
    length += text.length
    if (length > MANY && scheduled !== 'now') {
      scheduled = 'now'
      setImmediate(flush)
    } else if (scheduled === 'no') {
      scheduled = 'soon'
      const left = flushed + pace - performance.now()
      if (left > 0) setTimeout(flush, left)
      else setImmediate(flush)
    }
  }

  const writer =
    (level: Level) =>
    (event: string, fields: Fields = {}) =>
      write({ level, event, at: date(), fields })

  return {
    debug: writer('debug'),
    info: writer('info'),
    warn: writer('warn'),
    error: writer('error'),
    record: (event) => write({ ...logEntryOf(event), at: date() }),
    flush,
    close() {
      if (closed) return
      if (!broken && (buffered.length > 0 || dropped > 0)) {
        const text = take()
        if (out.fd === undefined || out.writableLength > 0) out.write(text)
        else writeOut(out.fd, text)
      }
      closed = true
      out.off('error', onError)
    },
  }
}
