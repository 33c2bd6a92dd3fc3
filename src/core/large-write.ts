/** Serializes JSON of many megabytes in bounded pieces. */
import type { EncodedText } from './encoded-text.ts'
import { isList, isObject, type Json, type JsonObject } from './json.ts'
import type { Span } from './json-text.ts'
import { PIECE } from './steps.ts'

/** Returns the same text as `JSON.stringify`, with its bytes. */
export function* writeLarge(value: Json, piece = PIECE): Generator<undefined, EncodedText, undefined> {
  const writer = new LargeWriter(piece)
  yield* writer.value(value)
  return yield* encoded(writer.chunks(), piece)
}

/** Returns the same text as `rewrite`, with its bytes. */
export function* rewriteLarge(
  source: string,
  members: readonly Span[],
  before: JsonObject,
  after: JsonObject,
  piece = PIECE,
): Generator<undefined, EncodedText, undefined> {
  const writer = new LargeWriter(piece)
  const written = new Set<string>()
  const separate = () => writer.add(written.size === 0 ? '{' : ',')
  for (const { key, start, value, end } of members) {
    const now = Object.hasOwn(after, key) ? after[key] : undefined
    if (now === undefined) continue
    separate()
    written.add(key)
    if (now === before[key]) yield* writer.text(source.slice(start, end))
    else {
      yield* writer.text(source.slice(start, value))
      yield* writer.value(now)
    }
  }
  for (const [key, value] of Object.entries(after)) {
    if (value === undefined || written.has(key)) continue
    separate()
    written.add(key)
    writer.add(`${JSON.stringify(key)}:`)
    yield* writer.value(value)
  }
  writer.add(written.size === 0 ? '{}' : '}')
  return yield* encoded(writer.chunks(), piece)
}

/** Whether writing the value takes more than one piece. */
export const isLarge = (value: Json | undefined, piece = PIECE): boolean => sizeUpTo(value, piece) > piece

class LargeWriter {
  readonly #piece: number
  readonly #chunks: string[] = []
  #text = ''
  /** Characters handled since the last pause. */
  #spent = 0

  constructor(piece: number) {
    this.#piece = piece
  }

  chunks(): readonly string[] {
    return this.#text === '' ? this.#chunks : [...this.#chunks, this.#text]
  }

  add(text: string): void {
    this.#text += text
    this.#spent += text.length
    if (this.#text.length < this.#piece) return
    this.#chunks.push(this.#text)
    this.#text = ''
  }

  /** Appends text that is already JSON. */
  *text(text: string): Generator<undefined, void, undefined> {
    for (const part of partsOf(text, this.#piece)) {
      this.add(part)
      yield* this.#pause()
    }
  }

  *value(value: Json): Generator<undefined, void, undefined> {
    if (!isLarge(value, this.#piece)) this.add(JSON.stringify(value))
    else if (typeof value === 'string') {
      this.add('"')
      for (const part of partsOf(value, this.#piece)) {
        this.add(JSON.stringify(part).slice(1, -1))
        yield* this.#pause()
      }
      this.add('"')
    } else if (isList(value)) yield* this.#list(value)
    else if (isObject(value)) yield* this.#object(value)
    else this.add(JSON.stringify(value))
    yield* this.#pause()
  }

  *#list(list: readonly Json[]): Generator<undefined, void, undefined> {
    let comma = '['
    /** Small elements are serialized together, because there may be a million numbers. */
    let from = 0
    let size = 0
    for (let at = 0; at <= list.length; at++) {
      const item = list[at]
      const its = at === list.length ? 0 : sizeUpTo(item, this.#piece)
      const isWhole = its <= this.#piece
      if ((at === list.length || !isWhole || size + its > this.#piece) && at > from) {
        this.add(comma + JSON.stringify(list.slice(from, at)).slice(1, -1))
        comma = ','
        yield* this.#pause()
        from = at
        size = 0
      }
      size += its
      if (isWhole || item === undefined) continue
      this.add(comma)
      comma = ','
      yield* this.value(item)
      from = at + 1
      size = 0
    }
    this.add(list.length === 0 ? '[]' : ']')
  }

  *#object(object: JsonObject): Generator<undefined, void, undefined> {
    let comma = '{'
    for (const [key, value] of Object.entries(object)) {
      if (value === undefined) continue
      this.add(`${comma}${JSON.stringify(key)}:`)
      comma = ','
      yield* this.value(value)
    }
    this.add(comma === '{' ? '{}' : '}')
  }

  *#pause(): Generator<undefined, void, undefined> {
    if (this.#spent < this.#piece) return
    this.#spent = 0
    yield
  }
}

const utf8 = new TextEncoder()

function* encoded(chunks: readonly string[], piece: number): Generator<undefined, EncodedText, undefined> {
  const parts: Uint8Array[] = []
  let size = 0
  for (const chunk of chunks)
    for (const part of partsOf(chunk, piece)) {
      const bytes = utf8.encode(part)
      parts.push(bytes)
      size += bytes.length
      yield
    }
  const bytes = new Uint8Array(size)
  let place = 0
  for (const part of parts) {
    bytes.set(part, place)
    place += part.length
    yield
  }
  return { text: chunks.join(''), bytes }
}

/** Splits the text without splitting a character. */
function* partsOf(text: string, piece: number): Generator<string, void, undefined> {
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
