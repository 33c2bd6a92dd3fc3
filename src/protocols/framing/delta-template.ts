/**
 * Most events of a stream differ from the one before in their text alone, and reading JSON is the dearest thing done to
 * them. So of an event that was read in full it is remembered what stood around its text; the next one that begins and
 * ends so, with a JSON string in between, says the same with another text and is not read again.
 *
 * Such events are recognised by their bytes, as many as a read brings in a row, and no frame is looked for in them.
 *
 * Nothing is taken on trust. Where the text stands is proved when it is learnt: with marks in its place the event still
 * is JSON in which the codec finds that mark. Then any string there gives the same JSON with another text: what could end
 * a string (a quote, a control character, an escape that is none) is refused, and the event is read in full.
 */

import type { ChatEvent } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'
import type { Frame, RepeatMatch } from '../../core/protocol.ts'
import { writeFrame } from './sse.ts'
import { decodeSlice } from './utf8.ts'

/** Where the codec finds an event's text; undefined: nowhere. */
export type TextOf = (event: Json) => Json | undefined

/** What stands before a hole, and what may be in it. */
type Gap = { readonly before: string; readonly holds: 'text' | 'padding' | 'number' }

/** Texts in a row that could not be learnt from: then this stream has events that are all unlike, and no more is tried. */
const MOST_MISSES = 8
/** Longer events are rare, and reading them is not what costs. */
const LONGEST = 16_384

/** Members that differ in every event and mean nothing for the text: padding against eavesdroppers on lengths, and the place in the stream. */
const PADDING = '"obfuscation":"'
const NUMBER = '"sequence_number":'
const TEXT_MARK = 'headgate mark'
const PADDING_MARK = 'padding mark'
const NUMBER_MARK = 86_420_135

const QUOTE = 34
const BACKSLASH = 92

/** What a decoder says in place of what is no UTF-8; and its bytes, where somebody said it himself. */
const FAULT = '\ufffd'
const FAULT_BYTES = '\xef\xbf\xbd'

const asDelta = (text: string): readonly ChatEvent[] => [{ type: 'delta', text }]

/** What stands around the holes of an event, from end to end. */
type Mould = { readonly gaps: readonly Gap[]; readonly after: string }

export class DeltaTemplate {
  readonly #textOf: TextOf
  #event: string | undefined
  #mould: Mould | null = null
  /** What the mould is of: the event's data; all of it, as it stands on the wire; and that in letters of one byte each. */
  #of: 'data' | 'wire' | 'bytes' = 'data'
  #misses = 0

  constructor(textOf: TextOf) {
    this.#textOf = textOf
  }

  /** The text of an event that says the same as the one learnt from, and is not empty; undefined: it has to be read. */
  textOf({ event, data, raw }: Frame): string | undefined {
    const source = this.#of === 'data' ? data : raw
    if (!this.#mould || event !== this.#event || source === undefined) return undefined
    if (!found.by(this.#mould, source, 0) || found.end !== source.length) return undefined
    const said = source.slice(found.from, found.to)
    // What was found is a JSON string without its quotes.
    return said.includes('\\') ? JSON.parse(`"${said}"`) : apart(said)
  }

  /**
   * All such events in a row from there, as more text; undefined: the next has to be read. `letters`: one for each byte.
   * `tell`: what a text says.
   */
  inBytes(bytes: Uint8Array, letters: string, from: number, tell = asDelta): RepeatMatch | undefined {
    const mould = this.#of === 'bytes' ? this.#mould : null
    let events: ChatEvent[] | undefined
    let end = from
    while (mould && end < letters.length && found.by(mould, letters, end)) {
      const after = found.end
      const text = saidIn(bytes, letters)
      if (text === undefined) break
      events ??= []
      for (const event of tell(text)) events.push(event)
      end = after
    }
    return events && { events, end }
  }

  /** The event read last was another one, whatever it said. */
  forget(): void {
    this.#mould = null
  }

  /** This event was read in full and said nothing but more of the text: that. */
  learn({ event, data, raw }: Frame, text: string): void {
    // The mark has to be another text than the one it takes the place of, or it would prove nothing.
    if (this.#misses >= MOST_MISSES || text === '' || text === TEXT_MARK || data.length > LONGEST) return
    const learnt = gapsIn(data, text)
    if (!learnt || !this.#proves(learnt.gaps, learnt.after)) {
      this.#misses++
      return
    }
    this.#misses = 0
    this.#event = event
    const usual = raw === writeFrame(event, data)
    const { gaps, after } = usual ? onTheWire(event, learnt) : learnt
    this.#mould = { gaps: gaps.map(({ before, holds }) => ({ before: apart(before), holds })), after: apart(after) }
    this.#of = !usual ? 'data' : isAscii(this.#mould) ? 'bytes' : 'wire'
  }

  #proves(gaps: readonly Gap[], after: string): boolean {
    let marked = ''
    for (const { before, holds } of gaps) marked += before + MARKS[holds]
    try {
      const event: unknown = JSON.parse(marked + after)
      if (!isObject(event) || this.#textOf(event) !== TEXT_MARK) return false
      return gaps.every(
        ({ holds }) =>
          holds === 'text' ||
          (holds === 'padding' ? event.obfuscation === PADDING_MARK : event.sequence_number === NUMBER_MARK),
      )
    } catch {
      return false
    }
  }
}

const MARKS: { readonly [holds in Gap['holds']]: string } = {
  text: TEXT_MARK,
  padding: PADDING_MARK,
  number: String(NUMBER_MARK),
}

/**
 * The same text in memory of its own: a slice of 13 letters and more keeps all that was read with it (1 KB where the text
 * has 31 letters), and texts are kept until an answer ends. Joining and cutting again makes V8 copy, in 90 ns.
 */
const apart = (text: string): string => (text.length < 13 ? text : ` ${text}`.slice(1))

/** With what a frame has around its data. */
const onTheWire = (event: string | undefined, { gaps, after }: Mould): Mould => {
  const end = '\n\n'
  const head = writeFrame(event, '').slice(0, -end.length)
  return { gaps: gaps.map((gap, at) => (at === 0 ? { ...gap, before: head + gap.before } : gap)), after: after + end }
}

/** Only of ASCII a letter is a byte. */
const isAscii = ({ gaps, after }: Mould): boolean => ASCII.test(after) && gaps.every(({ before }) => ASCII.test(before))
const ASCII = /^[\0-\x7f]*$/

/** What a JSON string has beside plain letters. */
const PLAIN = 0
const WIDE = 1
const ESCAPED = 2

/** Where in a text an event was found, and its text in it, of what kind. One for all: it is looked at before it is used again. */
const found = {
  from: 0,
  to: 0,
  end: 0,
  kind: PLAIN,
  /** Something beside its text is no ASCII. */
  odd: false,
  by({ gaps, after }: Mould, letters: string, start: number): boolean {
    let at = start
    this.from = 0
    this.to = 0
    this.odd = false
    // Pieces are compared as slices: `startsWith` and `endsWith` go from letter to letter (0.9 µs for 250, a slice 0.07).
    for (const { before, holds } of gaps) {
      const hole = at + before.length
      if (letters.slice(at, hole) !== before) return false
      at = holds === 'number' ? numberEnd(letters, hole) : jsonString.end(letters, hole)
      if (at === -1) return false
      if (holds === 'text') {
        this.from = hole
        this.to = at
        this.kind = jsonString.kind
      } else if (holds === 'padding') this.odd = (jsonString.kind & WIDE) !== 0
    }
    this.end = at + after.length
    return this.from !== this.to && letters.slice(at, this.end) === after
  },
}

/** The text found in letters that are bytes. */
const saidIn = (bytes: Uint8Array, letters: string): string | undefined => {
  const { from, to, kind, odd } = found
  if (odd) return undefined
  if (kind === PLAIN) return apart(letters.slice(from, to))
  const raw = letters.slice(from, to)
  const said = (kind & WIDE) === 0 ? raw : decodeSlice(bytes, from, to)
  // What is no UTF-8 does not go on as it came.
  if (said.includes(FAULT) && said.split(FAULT).length !== raw.split(FAULT_BYTES).length) return undefined
  return (kind & ESCAPED) === 0 ? said : JSON.parse(`"${said}"`)
}

type Hole = { readonly start: number; readonly end: number; readonly holds: Gap['holds'] }

/** The event as what stands around its holes. Undefined: its text stands there twice, or in other escapes than usual. */
const gapsIn = (data: string, text: string): Mould | undefined => {
  const quoted = JSON.stringify(text)
  const start = data.indexOf(quoted)
  if (start === -1 || data.indexOf(quoted, start + 1) !== -1) return undefined
  const holes: Hole[] = [{ start: start + 1, end: start + quoted.length - 1, holds: 'text' }]
  const add = (member: string, holds: 'padding' | 'number', endOf: (data: string, at: number) => number) => {
    const at = data.indexOf(member)
    if (at === -1) return
    const from = at + member.length
    const end = endOf(data, from)
    if (end !== -1) holes.push({ start: from, end, holds })
  }
  add(PADDING, 'padding', (data, at) => jsonString.end(data, at))
  add(NUMBER, 'number', numberEnd)
  holes.sort((one, other) => one.start - other.start)
  const gaps: Gap[] = []
  let at = 0
  for (const { start, end, holds } of holes) {
    if (start < at) return undefined
    gaps.push({ before: data.slice(at, start), holds })
    at = end
  }
  return { gaps, after: data.slice(at) }
}

const jsonString = {
  kind: PLAIN,
  /** Index of the quote that ends the JSON string whose inside begins at `at`, and in `kind` what it has; -1: it is none. */
  end(data: string, at: number): number {
    let kind = PLAIN
    for (let end = at; end < data.length; end++) {
      const code = data.charCodeAt(end)
      if (code === QUOTE) {
        this.kind = kind
        return end
      }
      if (code < 32) return -1
      if (code > 127) kind |= WIDE
      if (code !== BACKSLASH) continue
      kind |= ESCAPED
      end++
      const escaped = data.charCodeAt(end)
      if (escaped === 117) {
        for (let digit = 1; digit <= 4; digit++) if (!isHex(data.charCodeAt(end + digit))) return -1
        end += 4
      } else if (!ESCAPES.has(escaped)) return -1
    }
    return -1
  },
}

/** What may follow a backslash, save `u` (RFC 8259, section 7). */
const ESCAPES: ReadonlySet<number> = new Set([...'"\\/bfnrt'].map((char) => char.charCodeAt(0)))

const isHex = (code: number): boolean =>
  (code >= 48 && code <= 57) || (code >= 65 && code <= 70) || (code >= 97 && code <= 102)

/** Index behind the whole number at `at`, which is one that a double holds; -1: there is none. */
const numberEnd = (data: string, at: number): number => {
  let end = at
  for (let code = data.charCodeAt(end); code >= 48 && code <= 57; code = data.charCodeAt(end)) end++
  const length = end - at
  return length === 0 || length > 15 || (length > 1 && data.charCodeAt(at) === 48) ? -1 : end
}
