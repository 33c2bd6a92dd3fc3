/** A log line: what happened, in named fields. Fields come from outside too, so everything is escaped and cut. */

export type Level = 'debug' | 'info' | 'warn' | 'error'
export const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly Level[]

export type Field = string | number | boolean | null | undefined | readonly (string | number)[]
export type Fields = { readonly [name: string]: Field }

export type Line = {
  readonly level: Level
  readonly event: string
  /** ms since 1970. */
  readonly at: number
  readonly fields: Fields
  /** Which of several processes says so. */
  readonly worker?: number | undefined
}

/** Longest field, in bytes of UTF-8. */
const LONGEST = 2048
const MOST_ITEMS = 64
// Beyond what JSON escapes: what a terminal obeys (C1 controls, DEL) or what breaks or turns round a line for its reader.
const HARMFUL = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g
// The same for text that is not JSON: C0 too.
const HARMFUL_AS_TEXT = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

const encoder = new TextEncoder()

/** A text of at most 2 KiB; one that is longer ends in `…`. */
export const cut = (text: string, longest = LONGEST): string => {
  // Three bytes at most for each UTF-16 unit.
  if (text.length * 3 <= longest) return text
  const room = new Uint8Array(longest)
  const { read } = encoder.encodeInto(text, room)
  if (read === text.length) return text
  const { read: less } = encoder.encodeInto(text, room.subarray(0, longest - 3))
  return `${text.slice(0, less)}…`
}

const bounded = (field: Field, longest: number): Field => {
  if (typeof field === 'string') return cut(field, longest)
  if (typeof field === 'number') return Number.isFinite(field) ? field : null
  if (!Array.isArray(field)) return field
  const out: (string | number)[] = []
  let room = longest
  for (const item of field.slice(0, MOST_ITEMS)) {
    const text = typeof item === 'string' ? cut(item, Math.max(4, room)) : item
    room -= typeof text === 'string' ? text.length * 3 : 8
    if (room <= 0) break
    out.push(text)
  }
  return out
}

const WRITTEN_FIRST = new Set(['time', 'level', 'event'])
// Text that JSON writes as it is, which nearly all of it is: looking is a third of the price of escaping.
const SIMPLE = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

const jsonText = (text: string): string =>
  SIMPLE.test(text) ? `"${text}"` : JSON.stringify(text).replace(HARMFUL, escaped)

/** A field's name as JSON with a comma before and a colon behind, and the last short value it had, with its text. */
type Known = { readonly name: string; value: Field; text: string }

/** Names are ours, so they are few; the ceiling is for one who forgets that. */
const names = new Map<string, Known>()
const MOST_NAMES = 1_000

/** Characters of a value that is kept until the next line; a longer one may be a slice, which keeps all of a request in memory. */
const SHORT = 12

/** Most of a line is as in the line before: what is short is written once, and leaves in one piece. */
const jsonMember = (name: string, field: Field, longest: number): string => {
  const known = names.get(name) ?? newName(name)
  if (known.value === field) return known.text
  if (typeof field === 'object' ? field !== null : typeof field === 'string' && field.length > SHORT)
    return known.name + jsonField(field, longest)
  known.value = field
  known.text = known.name + jsonField(field, LONGEST)
  return known.text
}

const newName = (name: string): Known => {
  const known = { name: `,${jsonText(name)}:`, value: undefined, text: '' }
  if (names.size < MOST_NAMES) names.set(name, known)
  return known
}

const jsonField = (field: Field, longest: number): string => {
  if (typeof field === 'number') return Number.isFinite(field) ? String(field) : 'null'
  const value = bounded(field, longest)
  if (typeof value === 'string') return jsonText(value)
  return Array.isArray(value) ? JSON.stringify(value).replace(HARMFUL, escaped) : String(value)
}

/** Lines of one millisecond say the same time: writing it is a twentieth of a line. */
let lastTime = { at: Number.NaN, text: '' }
const timeText = (at: number): string => {
  if (lastTime.at !== at) lastTime = { at, text: new Date(at).toISOString() }
  return lastTime.text
}

/** One line of JSON, without its end. Fields that are undefined are left out; `longest`: bytes of one. */
export const jsonLine = ({ level, event, at, fields, worker }: Line, longest = LONGEST): string => {
  let line = `{"time":"${timeText(at)}","level":"${level}","event":${jsonText(event)}`
  if (worker !== undefined) line += `,"worker":${worker}`
  for (const name in fields) {
    const field = fields[name]
    // A field never takes the place of the three that every line has.
    if (field !== undefined && !WRITTEN_FIRST.has(name)) line += jsonMember(name, field, longest)
  }
  return `${line}}`
}

/** The same in at most so many bytes of UTF-8: where it is longer, its longest fields are cut shorter. */
export const jsonLineWithin = (line: Line, most: number): string => {
  let text = jsonLine(line)
  for (let longest = LONGEST / 2; longest >= 4 && Buffer.byteLength(text) > most; longest /= 2)
    text = jsonLine(line, longest)
  return text
}

/** Text for a terminal: nothing in it moves the cursor, colours, or begins a new line. */
export const plain = (text: string): string => cut(text).replace(HARMFUL_AS_TEXT, escaped)
