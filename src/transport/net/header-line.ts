/** Header blocks and lines (RFC 9110, section 5): the same strict, Latin-1 rules for the server and the HTTP client. */

/** The end of a header block. */
export const BLANK_LINE = '\r\n\r\n'
const BLANK_BYTES = Buffer.from(BLANK_LINE)

/** A field name: a token. */
export const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Characters allowed in a field value. */
export const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * The header block that begins with `partial` and goes on at `at`. It ends with its blank line if that was received, else
 * with the last byte received; of a block above `max` bytes, `max + 1` are returned.
 */
export const headerBlock = (partial: string, buffer: Buffer, at: number, max: number): string => {
  // The end is searched in the bytes first, so that no body bytes are decoded as text.
  const blank = partial === '' ? buffer.indexOf(BLANK_BYTES, at) : -1
  const end = blank === -1 ? buffer.length : blank + BLANK_LINE.length
  const text = partial + buffer.toString('latin1', at, Math.min(end, at + max + 1 - partial.length))
  const last = partial === '' ? -1 : text.indexOf(BLANK_LINE, Math.max(0, partial.length - 3))
  return last === -1 ? text : text.slice(0, last + BLANK_LINE.length)
}

/** The field value between `from` and `to`, without surrounding blanks. */
export const valueIn = (text: string, from: number, to: number): string => {
  let begin = from
  let end = to
  while (begin < end && isBlank(text.charCodeAt(begin))) begin++
  while (end > begin && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(begin, end)
}

/** A copy with its own memory: a slice keeps the whole head alive, and is slower to compare. */
export const copied = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

const isBlank = (code: number): boolean => code === 32 || code === 9
