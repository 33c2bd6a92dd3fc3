/**
 * Reads a form with files (`multipart/form-data`, RFC 7578) that is forwarded: its fields, and the places of its parts. Strict,
 * because the provider reads the form again: where two parsers could find different fields, it is refused.
 */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { FormPart } from '../../core/form.ts'

const MAX_PARTS = 64
/** Bytes of the headers of a part. */
const MAX_HEAD = 8 * 1024
/** Bytes of a field: none hides a text from guards. Files have no limit of their own. */
const MAX_FIELD = 64 * 1024

const [CR, LF, DASH] = [13, 10, 45]
const CRLF = new Uint8Array([CR, LF])
const utf8 = new TextEncoder()

const malformed = (problem: string): Failure =>
  fail('invalid_value', `The form cannot be read: ${problem}. Send multipart/form-data as RFC 7578 defines it.`)

// ── The boundary ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Characters of a boundary (RFC 2046, section 5.1.1). It does not end in a space. */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/
const TYPE = /^\s*multipart\/form-data\s*/i
const PARAMETER = /;\s*([A-Za-z0-9_*-]{1,40})=(?:"([^"\\\r\n]{0,200})"|([^\s;"]{1,200}))\s*/y

/** The boundary in a content type. */
export const boundaryIn = (type: string): Outcome<string> => {
  const read = parametersFrom(type, TYPE.exec(type)?.[0].length ?? type.length)
  const boundary = read?.get('boundary')
  return boundary !== undefined && BOUNDARY.test(boundary)
    ? good(boundary)
    : bad(malformed('the Content-Type has no valid boundary'))
}

/** A content type with this boundary, as every parser reads it. */
export const formType = (boundary: string): string =>
  `multipart/form-data; boundary=${/^[0-9A-Za-z'+_.-]+$/.test(boundary) ? boundary : `"${boundary}"`}`

/** The parameters from this place to the end, by name in lower case. Null: they are malformed, or one occurs twice. */
const parametersFrom = (text: string, start: number): ReadonlyMap<string, string> | null => {
  const found = new Map<string, string>()
  let at = start
  while (at < text.length) {
    PARAMETER.lastIndex = at
    const match = PARAMETER.exec(text)
    if (!match) return null
    const [all, name = '', quoted, token] = match
    const key = name.toLowerCase()
    if (found.has(key)) return null
    found.set(key, quoted ?? token ?? '')
    at += all.length
  }
  return found
}

// ── The parts ────────────────────────────────────────────────────────────────────────────────────────────────────

const EMPTY: Uint8Array = new Uint8Array(0)
const BLANK = utf8.encode('\r\n\r\n')

/** Where the scanner is: at the first boundary, in the line of a boundary, in the headers or in the content of a part, at the end. */
type ScanPlace = 'first' | 'line' | 'head' | 'content' | 'end'

/** Finds the parts of a form that arrives in pieces. It keeps the fields, and of files nothing; the pieces are copied. */
export class FormScanner {
  readonly #delimiter: Uint8Array
  readonly #shifts: Uint8Array
  readonly #parts: FormPart[] = []
  readonly #names = new Set<string>()
  #place: ScanPlace = 'first'
  /** Bytes that are not read, and the offset of the first one. */
  #bytes = EMPTY
  #offset = 0
  /** The memory of these bytes, which is used again for the next ones. */
  #memory = EMPTY
  #head: PartHead = { name: '', isFile: false }
  /** Where the content of the part begins. */
  #start = 0
  /** The content of a field so far. */
  #value = EMPTY

  /** Bytes of fields that are kept. */
  fieldBytes = 0

  /** `boundary`: of `boundaryIn`. */
  constructor(boundary: string) {
    this.#delimiter = utf8.encode(`\r\n--${boundary}`)
    this.#shifts = shiftsOf(this.#delimiter)
  }

  /** Reads on. Returns why the form is refused; nothing may follow. */
  push(bytes: Uint8Array): Failure | null {
    this.#take(bytes)
    for (;;) {
      const read = this.#step()
      if (read !== 'on') return read
    }
  }

  /** The parts in their order. */
  end(): Outcome<readonly FormPart[]> {
    const isEnd = this.#bytes.length === 0 || this.#bytes.length === 2
    if (this.#place === 'end' && isEnd) return good(this.#parts)
    return bad(
      malformed(
        this.#place === 'first' ? 'it does not begin with its boundary' : 'its last boundary is missing or incomplete',
      ),
    )
  }

  #take(bytes: Uint8Array): void {
    const kept = this.#bytes
    const length = kept.length + bytes.length
    const memory = this.#memory.length >= length ? this.#memory : new Uint8Array(length + MAX_HEAD)
    memory.set(kept)
    memory.set(bytes, kept.length)
    this.#memory = memory
    this.#bytes = memory.subarray(0, length)
  }

  /** Null: more bytes are needed. */
  #step(): Failure | 'on' | null {
    switch (this.#place) {
      case 'first':
        return this.#readFirst()
      case 'line':
        return this.#readLine()
      case 'head':
        return this.#readHead()
      case 'content':
        return this.#readContent()
      case 'end':
        return isAt(CRLF, this.#bytes, 0) ? null : malformed('text follows its last boundary')
      default:
        throw new Error(`unknown place ${JSON.stringify(this.#place satisfies never)}`)
    }
  }

  #readFirst(): Failure | 'on' | null {
    const first = this.#delimiter.subarray(2)
    if (this.#bytes.length < first.length) return null
    if (!isAt(this.#bytes, first, 0)) return malformed('it does not begin with its boundary')
    return this.#goOn('line', first.length)
  }

  /** The two bytes after a boundary. */
  #readLine(): Failure | 'on' | null {
    const [first, second] = this.#bytes
    if (first === undefined || second === undefined) return null
    if (first === DASH && second === DASH) return this.#goOn('end', 2)
    if (first !== CR || second !== LF) return malformed('text follows a boundary in its line')
    if (this.#parts.length === MAX_PARTS) return malformed(`it has more than ${MAX_PARTS} parts`)
    // The line break is read with the headers: there may be none.
    return this.#goOn('head', 0)
  }

  #readHead(): Failure | 'on' | null {
    const bytes = this.#bytes
    let end = 0
    while (end !== -1 && end <= MAX_HEAD && !isAt(bytes, BLANK, end)) end = bytes.indexOf(CR, end + 1)
    if (end > MAX_HEAD || (end === -1 && bytes.length > MAX_HEAD + BLANK.length))
      return malformed(`the headers of a part do not end within ${MAX_HEAD} bytes`)
    if (end === -1) return null
    const head = readHead(new TextDecoder().decode(bytes.subarray(2, end)))
    if (!head.ok) return head.failure
    const { name } = head.value
    // Of two fields of one name some parsers read the first and others the last.
    if (this.#names.has(name) && !name.endsWith('[]')) return malformed(`"${name}" occurs more than once`)
    this.#names.add(name)
    this.#head = head.value
    this.#goOn('content', end + BLANK.length)
    this.#start = this.#offset
    return 'on'
  }

  #readContent(): Failure | 'on' | null {
    const { name, isFile } = this.#head
    const found = find(this.#bytes, this.#delimiter, this.#shifts)
    // The last bytes may be the beginning of a delimiter.
    const count = found === -1 ? Math.max(0, this.#bytes.length - this.#delimiter.length + 1) : found
    if (!isFile) {
      this.#value = joined(this.#value, this.#bytes.subarray(0, count))
      if (this.#value.length > MAX_FIELD)
        return fail('invalid_value', `The field "${name}" is too long (limit ${MAX_FIELD} bytes).`, { param: name })
    }
    if (found === -1) {
      this.#goOn('content', count)
      return null
    }
    const end = this.#offset + found
    this.#parts.push({ name, isFile, start: this.#start, end, value: isFile ? null : this.#value })
    this.fieldBytes += this.#value.length
    this.#value = EMPTY
    return this.#goOn('line', found + this.#delimiter.length)
  }

  #goOn(place: ScanPlace, read: number): 'on' {
    this.#place = place
    this.#bytes = this.#bytes.subarray(read)
    this.#offset += read
    return 'on'
  }
}

const joined = (first: Uint8Array, second: Uint8Array): Uint8Array => {
  const all = new Uint8Array(first.length + second.length)
  all.set(first)
  all.set(second, first.length)
  return all
}

// ── Headers of a part ────────────────────────────────────────────────────────────────────────────────────────────

type PartHead = Pick<FormPart, 'name' | 'isFile'>

const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([^\r\n]*)$/
/** Names that parsers neither decode nor split. */
const NAME = /^[A-Za-z0-9_.[\]-]{1,128}$/
const PLAIN = new Set(['7bit', '8bit', 'binary'])

const readHead = (text: string): Outcome<PartHead> => {
  const headers = new Map<string, string>()
  for (const line of text.split('\r\n')) {
    const [, name = '', value = ''] = HEADER.exec(line) ?? []
    const key = name.toLowerCase()
    if (key === '' || headers.has(key)) return bad(malformed('a part has malformed or repeated headers'))
    headers.set(key, value)
  }
  const encoding = headers.get('content-transfer-encoding')
  if (encoding !== undefined && !PLAIN.has(encoding.trim().toLowerCase()))
    return bad(malformed('a part is encoded (content-transfer-encoding)'))
  if (/^\s*multipart\//i.test(headers.get('content-type') ?? '')) return bad(malformed('a part is a form itself'))
  const disposition = headers.get('content-disposition') ?? ''
  const parameters = parametersFrom(disposition, /^\s*form-data\s*/i.exec(disposition)?.[0].length ?? 0)
  const name = parameters?.get('name') ?? ''
  if (!parameters || !NAME.test(name) || parameters.has('name*'))
    return bad(malformed('a part has no name, or one with other characters than letters, digits and _ . - [ ]'))
  return good({ name, isFile: parameters.has('filename') || parameters.has('filename*') })
}

// ── Search ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** How far the search may go on after each byte (Horspool): in a file of other bytes it reads one of each delimiter's length. */
const shiftsOf = (needle: Uint8Array): Uint8Array => {
  const shifts = new Uint8Array(256).fill(needle.length)
  for (const [index, byte] of needle.subarray(0, -1).entries()) shifts[byte] = needle.length - 1 - index
  return shifts
}

/**
 * The place of the needle, or -1. Linear in the length of the bytes: the needle has its only line break at its start, so
 * comparisons of more than one byte do not overlap.
 */
const find = (bytes: Uint8Array, needle: Uint8Array, shifts: Uint8Array): number => {
  const last = bytes.length - needle.length
  for (let at = 0; at <= last; at += shifts[bytes[at + needle.length - 1] ?? 0] ?? 1)
    if (isAt(bytes, needle, at)) return at
  return -1
}

const isAt = (bytes: Uint8Array, needle: Uint8Array, at: number): boolean => {
  for (let index = 0; index < needle.length; index++) if (bytes[at + index] !== needle[index]) return false
  return true
}
