/**
 * Reads a form with files (`multipart/form-data`, RFC 7578) that is forwarded: the places of its parts, not their contents. Strict,
 * because the provider reads the form again: where two parsers could find different fields, it is refused.
 */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { PIECE, type Steps } from '../../core/steps.ts'

/** A part: its name, and the place of its content. */
export type FormPart = {
  readonly name: string
  readonly isFile: boolean
  readonly start: number
  readonly end: number
}

const MAX_PARTS = 64
/** Bytes of the headers of a part. */
const MAX_HEAD = 8 * 1024

const [CR, LF, DASH] = [13, 10, 45]
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

/** The parts of a form in their order. Yields between pieces of a large file. */
export function* readForm(bytes: Uint8Array, boundary: string): Steps<Outcome<readonly FormPart[]>> {
  const delimiter = utf8.encode(`\r\n--${boundary}`)
  const shifts = shiftsOf(delimiter)
  const parts: FormPart[] = []
  const names = new Set<string>()
  if (!isAt(bytes, delimiter.subarray(2), 0)) return bad(malformed('it does not begin with its boundary'))
  for (let at = delimiter.length - 2; ; ) {
    if (bytes[at] === DASH && bytes[at + 1] === DASH)
      return isEnd(bytes, at + 2) ? good(parts) : bad(malformed('text follows its last boundary'))
    if (bytes[at] !== CR || bytes[at + 1] !== LF) return bad(malformed('text follows a boundary in its line'))
    if (parts.length === MAX_PARTS) return bad(malformed(`it has more than ${MAX_PARTS} parts`))
    const head = headAt(bytes, at)
    if (!head.ok) return head
    const { name, isFile, start } = head.value
    // Of two fields of one name some parsers read the first and others the last.
    if (names.has(name) && !name.endsWith('[]')) return bad(malformed(`"${name}" occurs more than once`))
    names.add(name)
    const end = yield* find(bytes, delimiter, shifts, start)
    if (end < 0) return bad(malformed('its last boundary is missing'))
    parts.push({ name, isFile, start, end })
    at = end + delimiter.length
  }
}

const isEnd = (bytes: Uint8Array, at: number): boolean =>
  at === bytes.length || (at + 2 === bytes.length && bytes[at] === CR && bytes[at + 1] === LF)

type PartHead = Pick<FormPart, 'name' | 'isFile' | 'start'>

/** The headers of a part, from the line break after its boundary. */
const headAt = (bytes: Uint8Array, from: number): Outcome<PartHead> => {
  const last = Math.min(bytes.length, from + MAX_HEAD) - 4
  let end = bytes.indexOf(CR, from)
  while (end !== -1 && end <= last && !isAt(bytes, BLANK, end)) end = bytes.indexOf(CR, end + 1)
  if (end === -1 || end > last) return bad(malformed(`the headers of a part do not end within ${MAX_HEAD} bytes`))
  const head = readHead(new TextDecoder().decode(bytes.subarray(from + 2, end)))
  return head.ok ? good({ ...head.value, start: end + BLANK.length }) : head
}

const BLANK = utf8.encode('\r\n\r\n')
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([^\r\n]*)$/
/** Names that parsers neither decode nor split. */
const NAME = /^[A-Za-z0-9_.[\]-]{1,128}$/
const PLAIN = new Set(['7bit', '8bit', 'binary'])

const readHead = (text: string): Outcome<Omit<PartHead, 'start'>> => {
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
function* find(bytes: Uint8Array, needle: Uint8Array, shifts: Uint8Array, from: number): Steps<number> {
  const last = bytes.length - needle.length
  let pause = from + PIECE
  for (let at = from; at <= last; at += shifts[bytes[at + needle.length - 1] ?? 0] ?? 1) {
    if (isAt(bytes, needle, at)) return at
    if (at < pause) continue
    yield
    pause = at + PIECE
  }
  return -1
}

const isAt = (bytes: Uint8Array, needle: Uint8Array, at: number): boolean => {
  for (let index = 0; index < needle.length; index++) if (bytes[at + index] !== needle[index]) return false
  return true
}
