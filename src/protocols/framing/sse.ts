/** Server-sent events (WHATWG HTML, section 9.2): reading and writing, without I/O. */
import type { TextOrBytes } from '../../core/encoded-text.ts'
import { parseObject } from '../../core/json.ts'
import type { Frame, Framing } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { Utf8 } from './utf8.ts'

const NONE = Number.POSITIVE_INFINITY

/** Index of `mark` at or after `from`; infinity if there is none. */
const find = (text: string, mark: string, from: number): number => {
  const at = text.indexOf(mark, from)
  return at === -1 ? NONE : at
}

/**
 * Reads events from text, sliced in any way.
 *
 * A block without a `data` line gives a frame with empty `data`: a keep-alive, not an event. An event longer than `limit`
 * characters gives one `oversized` frame with empty `data`; further input is ignored, since finding the next event would
 * be unbounded. At the end, complete lines without their blank line (a last `data: [DONE]`) are emitted. A line without its
 * end is dropped, unless its data is whole: an object, or `[DONE]` (openai/openai-node#2725).
 */
export const sseFrames = (limit = 1_048_576): Stage<string, Frame> => new SseReader(limit)

class SseReader implements Stage<string, Frame> {
  readonly #limit: number
  #isFirst = true
  #stopped = false
  /** A \r at the end of a slice may be half of \r\n: it is kept until the next slice. */
  #waitingReturn = false
  /** Parts of an unterminated line, joined once at its end: a long line in small slices stays linear. */
  #pieces: string[] = []
  #piecesLength = 0
  /** The open block so far: its raw lines, event name and data. */
  #raw = ''
  #name: string | undefined
  #data: string | undefined

  constructor(limit: number) {
    this.#limit = limit
  }

  push(slice: string): readonly Frame[] {
    const out: Frame[] = []
    if (this.#stopped || slice === '') return out
    let text = slice
    if (this.#isFirst) {
      this.#isFirst = false
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    if (this.#waitingReturn) text = `\r${text}`
    this.#waitingReturn = text.endsWith('\r')
    this.#take(this.#waitingReturn ? text.slice(0, -1) : text, out)
    return out
  }

  end(): readonly Frame[] {
    const out: Frame[] = []
    if (this.#stopped) return out
    if (this.#waitingReturn) this.#take('\r', out)
    else if (isWholeData(this.#pieces.join(''))) this.#take('\n', out)
    this.#stopped = true
    if (this.#data !== undefined) this.#close(out, '\n')
    return out
  }

  #take(text: string, out: Frame[]): void {
    const limit = this.#limit
    let lineFeed = find(text, '\n', 0)
    let carriageReturn = find(text, '\r', 0)
    let at = 0
    while (at < text.length) {
      if (lineFeed < at) lineFeed = find(text, '\n', at)
      if (carriageReturn === NONE && this.#raw === '' && this.#pieces.length === 0) {
        const frame = standardFrame(text, at, lineFeed)
        if (frame && frame.raw.length <= limit) {
          out.push(frame)
          at += frame.raw.length
          continue
        }
      }
      if (carriageReturn < at) carriageReturn = find(text, '\r', at)
      const end = Math.min(lineFeed, carriageReturn)
      if (end === NONE) break
      const next = carriageReturn === end && lineFeed === end + 1 ? end + 2 : end + 1
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
    // Only `data` and `event` matter; comments and other fields are ignored.
    if (line.startsWith('data')) {
      const value = fieldValue(line, 4)
      if (value !== undefined) this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    } else if (line.startsWith('event')) {
      const value = fieldValue(line, 5)
      if (value !== undefined) this.#name = value
    }
  }

  #close(out: Frame[], blank: string): void {
    // Extra blank lines are ignored.
    if (this.#raw !== '')
      out.push({ ...(this.#name && { event: this.#name }), data: this.#data ?? '', raw: this.#raw + blank })
    this.#raw = ''
    this.#name = undefined
    this.#data = undefined
  }

  #overflow(out: Frame[]): void {
    this.#stopped = true
    this.#pieces = []
    this.#raw = ''
    out.push({ data: '', oversized: true })
  }
}

const DATA = 'data: '
const EVENT = 'event: '
const FEED = 10

/** Fast path for the common form: an optional `event` line, one `data` line, a blank line. `lineFeed` ends line one. */
const standardFrame = (text: string, at: number, lineFeed: number): (Frame & { raw: string }) | undefined => {
  if (lineFeed === NONE) return undefined
  if (text.startsWith(DATA, at))
    return text.charCodeAt(lineFeed + 1) === FEED
      ? { data: text.slice(at + DATA.length, lineFeed), raw: text.slice(at, lineFeed + 2) }
      : undefined
  const name = at + EVENT.length
  if (lineFeed === name || !text.startsWith(DATA, lineFeed + 1) || !text.startsWith(EVENT, at)) return undefined
  const end = text.indexOf('\n', lineFeed + 1)
  if (end === -1 || text.charCodeAt(end + 1) !== FEED) return undefined
  return {
    event: text.slice(name, lineFeed),
    data: text.slice(lineFeed + 1 + DATA.length, end),
    raw: text.slice(at, end + 2),
  }
}

/** The value of a field whose name has `length` characters; undefined if the line has a longer field name. */
const fieldValue = (line: string, length: number): string | undefined => {
  if (line.length === length) return ''
  if (line.charCodeAt(length) !== 58) return undefined
  return line.slice(line.charCodeAt(length + 1) === 32 ? length + 2 : length + 1)
}

/** Whether a line without its end is a `data` line that nothing can follow. */
const isWholeData = (line: string): boolean => {
  const value = line.startsWith('data') ? fieldValue(line, 4) : undefined
  return value !== undefined && (value === '[DONE]' || (value.endsWith('}') && parseObject(value) !== undefined))
}

/** Writes one event. `data` must be one line: JSON, or `[DONE]`. */
export const writeFrame = (event: string | undefined, data: string): string =>
  event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`

const ID_LINE = /(^|[\r\n])id(?::[^\r\n]*)?(?:\r\n|\r|\n)/g

/**
 * A frame for pass-through: unchanged except for `id` lines. With an ID, a browser's EventSource would reconnect and
 * request the rest of a stream that is not stored.
 */
export const passFrame = ({ event, data, raw }: Frame): TextOrBytes => {
  if (raw === undefined) return writeFrame(event, data)
  // Repeated events were recognised by their whole text, and it has no ID.
  if (typeof raw !== 'string') return raw
  // The length leaves no room for an `id` line, which takes at least three characters.
  if (data !== '' && raw.length === data.length + (event === undefined ? 8 : event.length + 16)) return raw
  return mayHaveId(raw) ? raw.replace(ID_LINE, '$1') : raw
}

/** A cheap check first: the regular expression costs more than the rest of the pass-through. */
const mayHaveId = (raw: string): boolean => raw.startsWith('id') || raw.includes('\nid') || raw.includes('\rid')

/** The frame itself, or each of the repeated frames that it combines. */
export const singleFrames = (frame: Frame): readonly Frame[] =>
  frame.raw instanceof Uint8Array ? sse.frames(frame.raw.length).push(frame.raw) : [frame]

/** Index after the next frame that ends with two line feeds; the length of the bytes if there is none. */
export const frameEnd = (bytes: Uint8Array, from: number): number => {
  for (let at = bytes.indexOf(FEED, from); at !== -1; at = bytes.indexOf(FEED, at + 1))
    if (bytes[at + 1] === FEED) return at + 2
  return bytes.length
}

/** The bytes end with two line feeds, so a reader of them is at the beginning of a frame. */
export const endsFrame = (bytes: Uint8Array): boolean => bytes.at(-1) === FEED && bytes.at(-2) === FEED

/** Reads events from bytes: the default framing of streams. */
export const sse: Framing = {
  mediaType: 'text/event-stream',
  frames: (limit) => new SseBytes(limit),
}

class SseBytes implements Stage<Uint8Array, Frame> {
  readonly #text = new Utf8()
  readonly #events: SseReader

  constructor(limit: number) {
    this.#events = new SseReader(limit)
  }

  push(bytes: Uint8Array): readonly Frame[] {
    return this.#events.push(this.#text.read(bytes))
  }

  end(): readonly Frame[] {
    return [...this.#events.push(this.#text.flush()), ...this.#events.end()]
  }
}
