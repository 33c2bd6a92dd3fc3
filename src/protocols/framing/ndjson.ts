/** Newline-delimited JSON (application/x-ndjson) as a framing without I/O. */
import type { Frame, Framing } from '../../core/protocol.ts'
import { chain, type Stage } from '../../core/stage.ts'
import { utf8 } from './utf8.ts'

/**
 * Reads lines from text, sliced in any way. Empty lines are skipped. A line longer than `limit` characters gives one
 * `oversized` frame with empty `data`; further input is ignored. At the end, an unterminated line is emitted only if it
 * is complete JSON.
 */
export const ndjsonFrames = (limit: number): Stage<string, Frame> => {
  let stopped = false
  /** Parts of an unterminated line, joined once at its end: a long line in small slices stays linear. */
  let pieces: string[] = []
  let length = 0

  const buffer = (piece: string) => {
    pieces.push(piece)
    length += piece.length
  }
  const takeLine = (): string => {
    const line = pieces.join('').trim()
    pieces = []
    length = 0
    return line
  }
  return {
    push(slice) {
      const out: Frame[] = []
      let at = 0
      while (!stopped && at < slice.length) {
        const end = slice.indexOf('\n', at)
        buffer(slice.slice(at, end === -1 ? slice.length : end))
        at = end === -1 ? slice.length : end + 1
        if (length > limit) {
          stopped = true
          pieces = []
          out.push({ data: '', oversized: true })
        } else if (end !== -1) {
          const data = takeLine()
          if (data !== '') out.push({ data })
        }
      }
      return out
    },
    end() {
      if (stopped) return []
      stopped = true
      const data = takeLine()
      return isJson(data) ? [{ data }] : []
    },
  }
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    // Truncated; the codec detects the incomplete answer.
    return false
  }
}

/** Reads lines from bytes. */
export const ndjson: Framing = {
  mediaType: 'application/x-ndjson',
  frames: (limit) => chain(utf8(), ndjsonFrames(limit)),
}
