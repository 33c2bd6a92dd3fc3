/** Serializes JSON of many megabytes in bounded pieces. */
import type { EncodedText } from './encoded-text.ts'
import { isList, isObject, type Json, type JsonObject } from './json.ts'
import { type Span, type WrittenMember, writtenMembers } from './json-text.ts'
import { PIECE, type Steps } from './steps.ts'

type Parts = Generator<string, void, undefined>

/** The same text as `JSON.stringify`, and its bytes. */
export const writeLarge = (value: Json, piece = PIECE): Steps<EncodedText> => encoded(valueParts(value, piece), piece)

/** An object's text and the place of each member in it. */
type ObjectText = { readonly text: string; readonly members: readonly Span[] }

/** The same text as `rewrite`, and its bytes. */
export const rewriteLarge = (
  { text, members }: ObjectText,
  before: JsonObject,
  after: JsonObject,
  piece = PIECE,
): Steps<EncodedText> => encoded(memberParts(writtenMembers(text, members, before, after), piece), piece)

/** Whether writing the value takes more than one piece. */
export const isLarge = (value: Json | undefined, piece = PIECE): boolean => sizeUpTo(value, piece) > piece

/** Joins and encodes the parts, about `piece` characters in a step. */
function* encoded(parts: Parts, piece: number): Steps<EncodedText> {
  const texts: string[] = []
  const chunks: Uint8Array[] = []
  let pending = ''
  const encodePending = () => {
    texts.push(pending)
    chunks.push(utf8.encode(pending))
    pending = ''
  }
  for (const part of parts) {
    pending += part
    if (pending.length < piece) continue
    encodePending()
    yield
  }
  encodePending()
  const bytes = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0))
  let place = 0
  for (const chunk of chunks) {
    bytes.set(chunk, place)
    place += chunk.length
    yield
  }
  return { text: texts.join(''), bytes }
}

const utf8 = new TextEncoder()

/** The JSON of a value, in parts of about `piece` characters at most. */
function* valueParts(value: Json, piece: number): Parts {
  if (!isLarge(value, piece)) yield JSON.stringify(value)
  else if (typeof value === 'string') {
    yield '"'
    for (const part of textParts(value, piece)) yield JSON.stringify(part).slice(1, -1)
    yield '"'
  } else if (isList(value)) yield* listParts(value, piece)
  else if (isObject(value)) yield* memberParts(membersOf(value), piece)
  else yield JSON.stringify(value)
}

/** Small elements are written together: there may be a million numbers. */
function* listParts(list: readonly Json[], piece: number): Parts {
  for (let from = 0; from < list.length; ) {
    yield from === 0 ? '[' : ','
    const to = pieceEnd(list, from, piece)
    if (to === from + 1) yield* valueParts(list[from] ?? null, piece)
    else yield JSON.stringify(list.slice(from, to)).slice(1, -1)
    from = to
  }
  yield list.length === 0 ? '[]' : ']'
}

/** Index after the last element of the piece that starts at `from`, which has at least one element. */
const pieceEnd = (list: readonly Json[], from: number, piece: number): number => {
  let size = 0
  for (let to = from; to < list.length; to++) {
    size += sizeUpTo(list[to], piece)
    if (size > piece) return Math.max(to, from + 1)
  }
  return list.length
}

function* membersOf(object: JsonObject): Generator<WrittenMember, void, undefined> {
  for (const [key, value] of Object.entries(object))
    if (value !== undefined) yield { text: `${JSON.stringify(key)}:`, value, kept: null }
}

function* memberParts(members: Iterable<WrittenMember>, piece: number): Parts {
  let separator = '{'
  for (const { text, value } of members) {
    yield separator
    separator = ','
    yield* textParts(text, piece)
    if (value !== undefined) yield* valueParts(value, piece)
  }
  yield separator === '{' ? '{}' : '}'
}

/** Splits the text without splitting a character. */
function* textParts(text: string, piece: number): Generator<string, void, undefined> {
  for (let from = 0; from < text.length; ) {
    const to = from + piece
    // A high surrogate stays together with the low surrogate after it.
    const isHalf = to < text.length && (text.charCodeAt(to - 1) & 0xfc00) === 0xd800 && piece > 1
    const end = isHalf ? to - 1 : to
    yield text.slice(from, end)
    from = end
  }
}

/** Estimated length of the serialized value. Above `most`, counting stops and the result is any larger number. */
export const sizeUpTo = (value: Json | undefined, most: number): number => {
  if (typeof value === 'string') return value.length + 2
  if (typeof value !== 'object' || value === null) return 8
  let size = 2
  if (isList(value))
    for (let at = 0; at < value.length && size <= most; at++) size += 1 + sizeUpTo(value[at], most - size)
  else
    for (const key in value) {
      if (size > most) break
      size += key.length + 4 + sizeUpTo((value as JsonObject)[key], most - size)
    }
  return size
}
