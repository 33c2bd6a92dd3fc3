/** Header lines (RFC 9110, section 5): the same strict, Latin-1 rules for the server and the HTTP client. */

/** A field name: a token. */
export const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Characters allowed in a field value. */
export const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Content-Length: up to 15 digits, which a double holds exactly. */
export const LENGTH = /^\d{1,15}$/

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
