/** Server-sent events (WHATWG HTML, section 9.2) as text, both directions, without I/O. */
import type { Frame, FrameReader, Framing, StreamStep } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { Utf8 } from './utf8.ts'

const NONE = Number.POSITIVE_INFINITY

/** Index of `mark` at or after `from`; beyond every index when there is none. */
const find = (text: string, mark: string, from: number): number => {
  const at = text.indexOf(mark, from)
  return at === -1 ? NONE : at
}

/**
 * Text in, events out. The same events come whatever the slices are.
 *
 * A block with comments only, or without any `data` line, gives a frame with empty `data`: a sign of life, not an event.
 * An event longer than `limit` characters gives one frame with `oversized` and empty `data`; after it the stage is deaf,
 * since where the next event begins could only be found by reading on without bound. At the end, an event whose lines
 * are whole is given out even if its blank line is missing (a last `data: [DONE]`); half a line is dropped.
 */
export const sseFrames = (limit = 1_048_576): Stage<string, Frame> => new SseReader(limit)

class SseReader implements Stage<string, Frame> {
  readonly #limit: number
  #fresh = true
  #deaf = false
  /** A lone \r at the very end of a slice may be half of \r\n; it waits for the next slice. */
  #waitingReturn = false
  /** Pieces of a line that has not ended. Joined once, when it ends: one long line in small slices stays linear. */
  #pieces: string[] = []
  #piecesLength = 0
  /** What the open block has said so far. */
  #raw = ''
  #name: string | undefined
  #data: string | undefined

  constructor(limit: number) {
    this.#limit = limit
  }

  get between(): boolean {
    return this.#raw === '' && this.#pieces.length === 0 && !this.#waitingReturn && !this.#deaf
  }

  push(slice: string): readonly Frame[] {
    const out: Frame[] = []
    if (this.#deaf || slice === '') return out
    let text = slice
    if (this.#fresh) {
      this.#fresh = false
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    if (this.#waitingReturn) text = `\r${text}`
    this.#waitingReturn = text.endsWith('\r')
    this.#take(this.#waitingReturn ? text.slice(0, -1) : text, out)
    return out
  }

  end(): readonly Frame[] {
    const out: Frame[] = []
    if (this.#deaf) return out
    if (this.#waitingReturn) this.#take('\r', out)
    this.#deaf = true
    if (this.#data !== undefined) this.#close(out, '\n')
    return out
  }

  #take(text: string, out: Frame[]): void {
    const limit = this.#limit
    let feed = find(text, '\n', 0)
    let back = find(text, '\r', 0)
    let at = 0
    while (at < text.length) {
      if (feed < at) feed = find(text, '\n', at)
      if (back === NONE && this.#raw === '' && this.#pieces.length === 0) {
        const frame = usual(text, at, feed)
        if (frame?.raw !== undefined && frame.raw.length <= limit) {
          out.push(frame)
          at += frame.raw.length
          continue
        }
      }
      if (back < at) back = find(text, '\r', at)
      const end = Math.min(feed, back)
      if (end === NONE) break
      const next = back === end && feed === end + 1 ? end + 2 : end + 1
      const before = this.#pieces.join('')
      if (this.#pieces.length > 0) {
        this.#pieces = []
        this.#piecesLength = 0
      }
      const line = before + text.slice(at, end)
      const ending = text.slice(end, next)
      at = next
      if (line === '') this.#close(out, ending)
      else if (this.#raw.length + line.length > limit) return this.#overflow(out)
      else {
        this.#read(line)
        this.#raw += line + ending
      }
    }
    if (at < text.length) {
      this.#pieces.push(at === 0 ? text : text.slice(at))
      this.#piecesLength += text.length - at
      if (this.#raw.length + this.#piecesLength > limit) this.#overflow(out)
    }
  }

  #read(line: string): void {
    // A comment begins with a colon, a line without one is a field without a value; of the fields two matter here.
    if (line.startsWith('data')) {
      const value = fieldValue(line, 4)
      if (value !== undefined) this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    } else if (line.startsWith('event')) {
      const value = fieldValue(line, 5)
      if (value !== undefined) this.#name = value
    }
  }

  #close(out: Frame[], blank: string): void {
    // Blank lines between events say nothing.
    if (this.#raw !== '')
      out.push({ ...(this.#name && { event: this.#name }), data: this.#data ?? '', raw: this.#raw + blank })
    this.#raw = ''
    this.#name = undefined
    this.#data = undefined
  }

  #overflow(out: Frame[]): void {
    this.#deaf = true
    this.#pieces = []
    this.#raw = ''
    out.push({ data: '', oversized: true })
  }
}

const DATA = 'data: '
const EVENT = 'event: '
const FEED = 10

/** What nearly every event looks like, at `at`: one line of data, perhaps its name before it, a blank line. `feed`: where the first line ends. */
const usual = (text: string, at: number, feed: number): Frame | undefined => {
  if (feed === NONE) return undefined
  if (text.startsWith(DATA, at))
    return text.charCodeAt(feed + 1) === FEED
      ? { data: text.slice(at + DATA.length, feed), raw: text.slice(at, feed + 2) }
      : undefined
  const name = at + EVENT.length
  if (feed === name || !text.startsWith(DATA, feed + 1) || !text.startsWith(EVENT, at)) return undefined
  const end = text.indexOf('\n', feed + 1)
  if (end === -1 || text.charCodeAt(end + 1) !== FEED) return undefined
  return { event: text.slice(name, feed), data: text.slice(feed + 1 + DATA.length, end), raw: text.slice(at, end + 2) }
}

/** The value behind a field's name of that length; undefined when the line only begins like the field. */
const fieldValue = (line: string, length: number): string | undefined => {
  if (line.length === length) return ''
  if (line.charCodeAt(length) !== 58) return undefined
  return line.slice(line.charCodeAt(length + 1) === 32 ? length + 2 : length + 1)
}

/** One event of the wire, whole. `data` is one line: JSON, or `[DONE]`. */
export const writeFrame = (event: string | undefined, data: string): string =>
  event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`

const ID_LINE = /(^|[\r\n])id(?::[^\r\n]*)?(?:\r\n|\r|\n)/g

/**
 * A frame as it is passed on: byte for byte, save `id` lines. With an id a browser's EventSource would reconnect by
 * itself and ask the gateway for the rest of a stream nobody keeps.
 */
export const passFrame = (frame: Frame): string => {
  const { event, data, raw } = frame
  if (raw === undefined) return writeFrame(event, data)
  // Nothing else has room in it but the lines of its name and its data: an `id` line takes three characters.
  if (data !== '' && raw.length === data.length + (event === undefined ? 8 : event.length + 16)) return raw
  return mayHaveId(raw) ? raw.replace(ID_LINE, '$1') : raw
}

/** Looked at first: the expression alone costs more than all the rest of passing a chunk on. */
const mayHaveId = (raw: string): boolean => raw.startsWith('id') || raw.includes('\nid') || raw.includes('\rid')

/** How a frame that has a name begins, on the wire. */
export const EVENT_FIELD_BYTE = 'e'.charCodeAt(0)

/** The frames of a step, and each frame's step by itself. */
export const framesOf = ({ frame, bytes }: StreamStep): readonly Frame[] =>
  bytes ? sse.frames(bytes.length).push(bytes) : frame ? [frame] : []

export const splitStep = (step: StreamStep): readonly StreamStep[] => {
  if (!step.bytes) return [step]
  const frames = framesOf(step)
  const last = frames.length - 1
  return frames.map((frame, at) => ({ frame, events: step.events.slice(at, at === last ? undefined : at + 1) }))
}

/** Behind the next frame that ends as nearly all do, with two line feeds; the bytes' end if there is none. */
export const frameEnd = (bytes: Uint8Array, from: number): number => {
  for (let at = bytes.indexOf(FEED, from); at !== -1; at = bytes.indexOf(FEED, at + 1))
    if (bytes[at + 1] === FEED) return at + 2
  return bytes.length
}

/** Bytes in, events out: how a stream comes unless its format says otherwise. */
export const sse: Framing = {
  mediaType: 'text/event-stream',
  frames: (most) => new SseBytes(most),
}

class SseBytes implements FrameReader {
  readonly #text = new Utf8()
  readonly #events: SseReader

  constructor(most: number) {
    this.#events = new SseReader(most)
  }

  get between(): boolean {
    return this.#text.between && this.#events.between
  }

  push(bytes: Uint8Array): readonly Frame[] {
    return this.#events.push(this.#text.read(bytes))
  }

  end(): readonly Frame[] {
    return [...this.#events.push(this.#text.flush()), ...this.#events.end()]
  }
}
