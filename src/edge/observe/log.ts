/**
 * The one writer of log lines. Lines leave at the end of a turn of the event loop, and where they keep coming a few ms later,
 * many in one write; a reader that does not keep up costs lines (counted, and said), never memory; what is held is written
 * out when the process ends.
 */
import { writeSync } from 'node:fs'
import type { News } from '../../core/exchange.ts'
import { noPaint, type Paint } from './colour.ts'
import { isFull, PATIENCE, waitTurn } from './full-pipe.ts'
import { type Fields, jsonLine, jsonLineWithin, LEVELS, type Level, type Line } from './line.ts'
import { type CostOf, toldBy } from './news-lines.ts'
import { prettyLine } from './pretty.ts'

export type Log = {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
  news(news: News): void
  /** Hands everything held to the stream now. */
  flush(): void
  /** Writes what is held, waiting for the system if need be, and stops listening to the stream. For the very end. */
  close(): void
}

/** The part of a stream that is used: standard output, or a test's. */
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
  readonly costOf?: CostOf
  /** Which of several processes this is, that all write here: said in each line, and no line is longer than `whole`. */
  readonly shared?: { readonly worker: number; readonly whole: number } | undefined
  /** Characters held, by us and by the stream, beyond which lines are dropped. */
  readonly most?: number
  /** ms between two writes while lines keep coming. */
  readonly pace?: number
}

const MOST = 4_194_304

/** A turn of a busy event loop has few lines, and a write for them costs as much as making them. */
const PACE = 5

/** So many characters leave at the end of the turn whatever the pace: a pipe takes 64 KiB at once. */
const MANY = 16_384

/** Writes to a file descriptor although it may be a pipe that is full at the moment. */
const writeOut = (fd: number, text: string): void => {
  let bytes = Buffer.from(text)
  for (let turn = 0; bytes.length > 0 && turn < PATIENCE; turn++)
    try {
      bytes = bytes.subarray(writeSync(fd, bytes))
    } catch (error) {
      if (!isFull(error)) return
      waitTurn()
    }
}

export const openLog = ({
  out,
  level,
  format,
  paint = noPaint,
  date = Date.now,
  costOf = () => undefined,
  shared,
  most = MOST,
  pace = PACE,
}: LogOptions): Log => {
  const least = LEVELS.indexOf(level)
  let held: string[] = []
  let length = 0
  let scheduled: 'no' | 'soon' | 'now' = 'no'
  let flushed = Number.NEGATIVE_INFINITY
  let dropped = 0
  let broken = false
  let closed = false

  // A reader that went away must not end the gateway; its lines have nowhere to go.
  const onError = () => {
    broken = true
  }
  out.on('error', onError)

  const json = shared ? (line: Line) => jsonLineWithin({ ...line, worker: shared.worker }, shared.whole - 1) : jsonLine
  const pretty = (line: Line) => prettyLine(shared ? { ...line, worker: shared.worker } : line, paint)
  const textOf = (line: Line): string => `${format === 'json' ? json(line) : pretty(line)}\n`

  const take = (): string => {
    if (dropped > 0) {
      const fields = { lines: dropped, message: 'log lines were dropped: the reader of the log does not keep up' }
      held.push(textOf({ level: 'warn', event: 'log_dropped', at: date(), fields }))
      dropped = 0
    }
    const text = held.join('')
    held = []
    length = 0
    return text
  }

  const flush = () => {
    scheduled = 'no'
    flushed = performance.now()
    if (closed || broken || (held.length === 0 && dropped === 0)) return
    out.write(take())
  }

  const write = (line: Line) => {
    if (closed || broken || LEVELS.indexOf(line.level) < least) return
    if (length + out.writableLength > most) {
      dropped++
      return
    }
    const text = textOf(line)
    held.push(text)
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

  const say =
    (level: Level) =>
    (event: string, fields: Fields = {}) =>
      write({ level, event, at: date(), fields })

  return {
    debug: say('debug'),
    info: say('info'),
    warn: say('warn'),
    error: say('error'),
    news(news) {
      const told = toldBy(news, costOf)
      write({ ...told, at: date() })
    },
    flush,
    close() {
      if (closed) return
      if (!broken && (held.length > 0 || dropped > 0)) {
        const text = take()
        if (out.fd === undefined || out.writableLength > 0) out.write(text)
        else writeOut(out.fd, text)
      }
      closed = true
      out.off('error', onError)
    },
  }
}
