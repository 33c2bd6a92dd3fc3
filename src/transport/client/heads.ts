/**
 * Encodes request header blocks and parses response header blocks. Both repeat per destination: requests with the same key
 * differ only in their length, responses in a line or two. The last one of each is cached and reused where the text is equal.
 */
import { copied, NAME, VALUE, valueIn } from '../net/header-line.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** Header blocks with more lines are not cached. */
const MAX_CACHED_LINES = 64

/** The cached header blocks of one destination. */
export type HeadCache = {
  answer: CachedHead | null
  request: OutgoingHead | null
}

/** A cache for a new destination. */
export const emptyHeadCache = (): HeadCache => ({ answer: null, request: null })

/** One header line; the name in lower case. */
type HeaderField = { readonly line: string; readonly name: string; readonly value: string }

/** The headers of a response. */
export type AnswerHead = {
  readonly values: readonly string[]
  /** The index in `values` of each name. */
  readonly places: ReadonlyMap<string, number>
}

/** A response's header block to compare the next with. Each of its names occurs once. */
type CachedHead = AnswerHead & { readonly lines: readonly string[] }

/** A request's header block without its content-length and the blank line. */
export type OutgoingHead = Pick<OutgoingCall['call'], 'method' | 'headers'> & {
  readonly path: string
  readonly text: string
  readonly isAscii: boolean
}

/** The header block of a request, or an error message if it is invalid. The message never contains a header's value. */
export const requestHead = (
  heads: HeadCache,
  authority: string,
  { call, path }: OutgoingCall,
): OutgoingHead | string => {
  const { method, headers } = call
  const last = heads.request
  // Compared by identity: calls with the same key share one headers object.
  if (last && last.headers === headers && last.path === path && last.method === method) return last
  if (!TARGET.test(path)) return 'Cannot send the request: its path is not valid.'
  const connection = call.upgrade ? `upgrade\r\nupgrade: ${call.upgrade}` : 'keep-alive'
  let text = `${method} ${path} HTTP/1.1\r\nhost: ${authority}\r\nconnection: ${connection}\r\n`
  for (const [name, value] of Object.entries(headers)) {
    if (!NAME.test(name) || !VALUE.test(value))
      return `Cannot send the request: the header ${JSON.stringify(name)} is not valid.`
    text += `${name}: ${value}\r\n`
  }
  heads.request = { method, path, headers, text, isAscii: ASCII.test(text) }
  return heads.request
}

/** Parses the header lines of a response between `from` and `end`, each with its CR LF. Returns a reason if they are invalid. */
export const answerHead = (heads: HeadCache, text: string, from: number, end: number): AnswerHead | string => {
  const similar = heads.answer && matchCached(heads.answer, text, from, end)
  if (similar) return similar
  const head = parseHead(text, from, end)
  if (typeof head === 'string') return head
  const { lines, values, places } = head
  if (lines.length === places.size && lines.length <= MAX_CACHED_LINES)
    heads.answer = {
      lines: lines.map(copied),
      values: values.map(copied),
      places: new Map([...places.keys()].map((name, place) => [copied(name), place])),
    }
  return head
}

/** Parses lines with the same names in the same order as the cached block; null if they differ. */
const matchCached = (cached: CachedHead, text: string, from: number, end: number): AnswerHead | null => {
  const { lines, places } = cached
  let { values } = cached
  let at = from
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? ''
    // Slower with `startsWith`, which compares by characters (2 µs a block).
    if (text.slice(at, at + line.length) === line) {
      at += line.length
      continue
    }
    const field = fieldAt(text, at)
    if (!field || places.get(field.name) !== index) return null
    values = values.with(index, field.value)
    at += field.line.length
  }
  if (at !== end) return null
  return values === cached.values ? cached : { values, places }
}

const parseHead = (text: string, from: number, end: number): CachedHead | string => {
  const lines: string[] = []
  const values: string[] = []
  const places = new Map<string, number>()
  let at = from
  while (at < end) {
    const field = fieldAt(text, at)
    if (!field) return 'a header line is not valid'
    const { line, name, value } = field
    const known = places.get(name)
    if (known === undefined) {
      places.set(name, values.length)
      values.push(value)
    } else if (name === 'content-length' || name === 'transfer-encoding') return `it has more than one ${name} header`
    else values[known] += `, ${value}`
    lines.push(line)
    at += line.length
  }
  return { lines, values, places }
}

/** The header line at `at`, with its CR LF; undefined if invalid (a folded line, a blank before the colon). */
const fieldAt = (text: string, at: number): HeaderField | undefined => {
  const end = text.indexOf('\r\n', at)
  const colon = text.indexOf(':', at)
  if (colon === -1 || colon > end) return undefined
  const line = text.slice(at, end + 2)
  const name = text.slice(at, colon)
  if (!NAME.test(name) || CONTROL.test(line.slice(0, -2))) return undefined
  return { line, name: name.toLowerCase(), value: valueIn(text, colon + 1, end) }
}

/** Control characters that header lines must not contain. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches exactly these
export const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const ASCII = /^[\x00-\x7f]*$/
/** A path with its query; an http URL in a request to a proxy. */
const TARGET = /^(?:http:\/)?\/[\x21-\x7e]*$/
