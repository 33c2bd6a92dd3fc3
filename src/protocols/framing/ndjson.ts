/** JSON texts, one a line (application/x-ndjson), as a framing without I/O. */
import type { Frame, Framing } from '../../core/protocol.ts'
import { chain, type Stage } from '../../core/stage.ts'
import { utf8 } from './utf8.ts'

/**
 * Text in, lines out. The same lines come whatever the slices are; empty ones say nothing.
 *
 * A line longer than `limit` characters gives one frame with `oversized` and empty `data`; after it the stage is deaf. At
 * the end a line without its line feed is given out if it is whole: half a line is half a text, and is dropped.
 */
export const ndjsonFrames = (limit: number): Stage<string, Frame> => {
  let deaf = false
  /** Pieces of a line that has not ended. Joined once, when it ends: one long line in small slices stays linear. */
  let pieces: string[] = []
  let length = 0

  const hold = (piece: string) => {
    pieces.push(piece)
    length += piece.length
  }
  const take = (): string => {
    const line = pieces.join('').trim()
    pieces = []
    length = 0
    return line
  }
  return {
    push(slice) {
      const out: Frame[] = []
      let at = 0
      while (!deaf && at < slice.length) {
        const end = slice.indexOf('\n', at)
        hold(slice.slice(at, end === -1 ? slice.length : end))
        at = end === -1 ? slice.length : end + 1
        if (length > limit) {
          deaf = true
          pieces = []
          out.push({ data: '', oversized: true })
        } else if (end !== -1) {
          const data = take()
          if (data !== '') out.push({ data })
        }
      }
      return out
    },
    end() {
      if (deaf) return []
      deaf = true
      const data = take()
      return isJson(data) ? [{ data }] : []
    },
  }
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    // Cut off in the middle; that the answer is not complete shows by what it lacks.
    return false
  }
}

/** Bytes in, lines out. */
export const ndjson: Framing = {
  mediaType: 'application/x-ndjson',
  frames: (most) => chain(utf8(), ndjsonFrames(most)),
}
