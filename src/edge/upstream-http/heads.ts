/**
 * Heads of requests and answers, as text. They repeat: with the same key all of a request's is the same but for its
 * length, of an answer's all but a line or two. What was made of one at a place is kept there and used again where the text
 * is the same.
 */
import { copied, NAME, VALUE, valueIn } from '../net/header-line.ts'
import type { OutgoingCall } from './outgoing-call.ts'

/** Of longer heads nothing is kept. */
const MOST_KEPT = 64

/** What the connections of one place know of the heads there. */
export type Heads = {
  answer: KnownHead | null
  request: RequestHead | null
}

export const noHeads = (): Heads => ({ answer: null, request: null })

/** One line of a head; the name in lower case. */
type Field = { readonly line: string; readonly name: string; readonly value: string }

/** What the lines of an answer's head say. */
export type AnswerHead = {
  readonly values: readonly string[]
  /** Where the value of each name is. */
  readonly places: ReadonlyMap<string, number>
}

/** A head to compare others with: none of its names comes twice. */
type KnownHead = AnswerHead & { readonly lines: readonly string[] }

/** All of a request's head but its length and the blank line. */
export type RequestHead = Pick<OutgoingCall['call'], 'method' | 'headers'> & {
  readonly path: string
  readonly text: string
  readonly isAscii: boolean
}

/** The head of this request, or why it cannot be written; never a header's value. */
export const requestHead = (heads: Heads, authority: string, { call, path }: OutgoingCall): RequestHead | string => {
  const { method, headers } = call
  const last = heads.request
  // By identity: whoever asks with the same key again gives the same headers, and a changed one is another object.
  if (last && last.headers === headers && last.path === path && last.method === method) return last
  if (!TARGET.test(path)) return 'The request could not be written: its path is not one.'
  let text = `${method} ${path} HTTP/1.1\r\nhost: ${authority}\r\nconnection: keep-alive\r\n`
  for (const [name, value] of Object.entries(headers)) {
    if (!NAME.test(name) || !VALUE.test(value))
      return `The request could not be written: the header ${JSON.stringify(name)} is not one.`
    text += `${name}: ${value}\r\n`
  }
  heads.request = { method, path, headers, text, isAscii: ASCII.test(text) }
  return heads.request
}

/** The lines of an answer's head that stand from `from` to `end`, each with its CR LF; or why they are none. */
export const answerHead = (heads: Heads, text: string, from: number, end: number): AnswerHead | string => {
  const like = heads.answer && likeOne(heads.answer, text, from, end)
  if (like) return like
  const head = anyHead(text, from, end)
  if (typeof head === 'string') return head
  const { lines, values, places } = head
  if (lines.length === places.size && lines.length <= MOST_KEPT)
    heads.answer = {
      lines: lines.map(copied),
      values: values.map(copied),
      places: new Map([...places.keys()].map((name, place) => [copied(name), place])),
    }
  return head
}

/** Null: it has other names, or has them in another order. */
const likeOne = (one: KnownHead, text: string, from: number, end: number): AnswerHead | null => {
  const { lines, places } = one
  let { values } = one
  let at = from
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? ''
    // A slice is compared by words, `startsWith` letter by letter (2 µs for a head, in a profile).
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
  return values === one.values ? one : { values, places }
}

const anyHead = (text: string, from: number, end: number): KnownHead | string => {
  const lines: string[] = []
  const values: string[] = []
  const places = new Map<string, number>()
  let at = from
  while (at < end) {
    const field = fieldAt(text, at)
    if (!field) return 'a header is not readable'
    const { line, name, value } = field
    const known = places.get(name)
    if (known === undefined) {
      places.set(name, values.length)
      values.push(value)
    } else if (name === 'content-length' || name === 'transfer-encoding') return 'it states its length twice'
    else values[known] += `, ${value}`
    lines.push(line)
    at += line.length
  }
  return { lines, values, places }
}

/** The line that begins there, with its CR LF; undefined for what is none (a folded line, a blank before the colon). */
const fieldAt = (text: string, at: number): Field | undefined => {
  const end = text.indexOf('\r\n', at)
  const field = fieldOf(text.slice(at, end))
  return field && { line: text.slice(at, end + 2), name: field.name, value: field.value }
}

/** What a header line, without its end, says. */
export const fieldOf = (line: string): Pick<Field, 'name' | 'value'> | undefined => {
  const colon = line.indexOf(':')
  if (colon === -1) return undefined
  const name = line.slice(0, colon)
  if (!NAME.test(name) || CONTROL.test(line)) return undefined
  return { name: name.toLowerCase(), value: valueIn(line, colon + 1, line.length) }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
export const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const ASCII = /^[\x00-\x7f]*$/
const TARGET = /^\/[\x21-\x7e]*$/
