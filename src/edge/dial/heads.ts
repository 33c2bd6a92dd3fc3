/**
 * Heads of requests and answers, as text. They repeat: with the same key all of a request's is the same but for its
 * length, of an answer's all but a line or two. What was made of the last one at a place is kept there and used again
 * where the text is the same.
 */
import { NAME, VALUE, valueIn } from '../header-line.ts'
import type { Message } from './line.ts'

/** So many lines of a head are kept: each is a slice, which keeps all of the head it came in (16 KiB at most). */
const MOST_KEPT = 64

/** What the connections of one place know of its last heads. */
export type Heads = {
  /** The first lines of the last answer's head, in their order. */
  readonly fields: Field[]
  request: RequestHead | null
}

export const noHeads = (): Heads => ({ fields: [], request: null })

/** One line of a head; the name in lower case. */
export type Field = { readonly line: string; readonly name: string; readonly value: string }

/** All of a request's head but its length and the blank line. */
export type RequestHead = Pick<Message, 'method' | 'path' | 'headers'> & {
  readonly text: string
  readonly isAscii: boolean
}

/** The head of this request, or why it cannot be written; never a header's value. */
export const requestHead = (heads: Heads, authority: string, message: Message): RequestHead | string => {
  const { method, path, headers } = message
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

/** One line of an answer's head, its `at`-th; undefined for what is none (a folded line, a blank before the colon). */
export const answerField = (heads: Heads, at: number, line: string): Field | undefined => {
  const last = heads.fields[at]
  if (last?.line === line) return last
  const field = fieldOf(line)
  if (field && at < MOST_KEPT) heads.fields[at] = field
  return field
}

export const fieldOf = (line: string): Field | undefined => {
  const colon = line.indexOf(':')
  if (colon === -1) return undefined
  const name = line.slice(0, colon)
  if (!NAME.test(name) || CONTROL.test(line)) return undefined
  return { line, name: name.toLowerCase(), value: valueIn(line, colon + 1, line.length) }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
export const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const ASCII = /^[\x00-\x7f]*$/
const TARGET = /^\/[\x21-\x7e]*$/
