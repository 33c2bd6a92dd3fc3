/** Log lines as JSON or text. Fields may contain client data, so all of it is escaped and truncated. */

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
  /** The worker process that wrote the line. */
  readonly worker?: number | undefined
}

/** Maximum length of a field in bytes of UTF-8. */
const MAX_FIELD = 2048
const MAX_ITEMS = 64
// Characters that JSON does not escape but terminals interpret (C1 controls, DEL), or that break or reverse a line.
const HARMFUL = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g
// The same for plain text, with the C0 controls.
const HARMFUL_AS_TEXT = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

const encoder = new TextEncoder()

/** Truncates a text to `longest` bytes of UTF-8 (2 KiB); truncated texts end in `…`. */
export const truncate = (text: string, longest = MAX_FIELD): string => {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= longest) return text
  const room = new Uint8Array(longest)
  const { read } = encoder.encodeInto(text, room)
  if (read === text.length) return text
  const { read: less } = encoder.encodeInto(text, room.subarray(0, longest - 3))
  return `${text.slice(0, less)}…`
}

const bounded = (field: Field, longest: number): Field => {
  if (typeof field === 'string') return truncate(field, longest)
  if (typeof field === 'number') return Number.isFinite(field) ? field : null
  if (!Array.isArray(field)) return field
  const out: (string | number)[] = []
  let room = longest
  for (const item of field.slice(0, MAX_ITEMS)) {
    const text = typeof item === 'string' ? truncate(item, Math.max(4, room)) : item
    room -= typeof text === 'string' ? text.length * 3 : 8
    if (room <= 0) break
    out.push(text)
  }
  return out
}

const RESERVED = new Set(['time', 'level', 'event'])
// Text that needs no escaping, which is nearly all of it. This test takes a third of the time of escaping.
const SIMPLE = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

const jsonText = (text: string): string =>
  SIMPLE.test(text) ? `"${text}"` : JSON.stringify(text).replace(HARMFUL, escaped)

/** A field name as JSON (`,"name":`), with its last short value and the text of both. */
type CachedMember = { readonly name: string; value: Field; text: string }

/** Field names are fixed in the code; the limit is a safeguard. */
const members = new Map<string, CachedMember>()
const MAX_NAMES = 1_000

/** Maximum characters of a cached value. A longer one may be a slice that keeps a whole request body in memory. */
const MAX_CACHED = 12

/** Formats one field. Short values repeat from line to line, so their text is cached. */
const jsonMember = (name: string, field: Field, longest: number): string => {
  const known = members.get(name) ?? newName(name)
  if (known.value === field) return known.text
  if (typeof field === 'object' ? field !== null : typeof field === 'string' && field.length > MAX_CACHED)
    return known.name + jsonField(field, longest)
  known.value = field
  known.text = known.name + jsonField(field, MAX_FIELD)
  return known.text
}

const newName = (name: string): CachedMember => {
  const known = { name: `,${jsonText(name)}:`, value: undefined, text: '' }
  if (members.size < MAX_NAMES) members.set(name, known)
  return known
}

const jsonField = (field: Field, longest: number): string => {
  if (typeof field === 'number') return Number.isFinite(field) ? String(field) : 'null'
  const value = bounded(field, longest)
  if (typeof value === 'string') return jsonText(value)
  return Array.isArray(value) ? JSON.stringify(value).replace(HARMFUL, escaped) : String(value)
}

/** The second of the last line: formatting a date costs as much as all else of a line. */
let lastSecond = { number: Number.NaN, text: '' }
const timeText = (at: number): string => {
  const number = Math.floor(at / 1000)
  if (lastSecond.number !== number)
    lastSecond = { number, text: new Date(number * 1000).toISOString().slice(0, -'000Z'.length) }
  return `${lastSecond.text}${String(Math.floor(at) - number * 1000).padStart(3, '0')}Z`
}

/** One line of JSON, without its newline. Undefined fields are omitted. `longest`: maximum bytes of a field. */
export const jsonLine = ({ level, event, at, fields, worker }: Line, longest = MAX_FIELD): string => {
  let line = `{"time":"${timeText(at)}","level":"${level}","event":${jsonText(event)}`
  if (worker !== undefined) line += `,"worker":${worker}`
  for (const name in fields) {
    const field = fields[name]
    // Fields cannot replace the reserved ones.
    if (field !== undefined && !RESERVED.has(name)) line += jsonMember(name, field, longest)
  }
  return `${line}}`
}

/** One line of JSON of at most `most` bytes of UTF-8: fields are truncated further until it fits. */
export const jsonLineWithin = (line: Line, most: number): string => {
  let text = jsonLine(line)
  for (let longest = MAX_FIELD / 2; longest >= 4 && Buffer.byteLength(text) > most; longest /= 2)
    text = jsonLine(line, longest)
  return text
}

/** Text for a terminal, with all characters escaped that move the cursor, change colours or break the line. */
export const plain = (text: string): string => truncate(text).replace(HARMFUL_AS_TEXT, escaped)
