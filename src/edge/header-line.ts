/** Header lines (RFC 9110, section 5) as both sides of the gateway read and write them: equally strictly, in Latin-1. */

/** A name: a token. */
export const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** What may be written as a value. */
export const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Of Content-Length: what a double holds exactly. */
export const LENGTH = /^\d{1,15}$/

/** The value that lies from `from` to `to`, without the blanks around it. */
export const valueIn = (text: string, from: number, to: number): string => {
  let begin = from
  let end = to
  while (begin < end && isBlank(text.charCodeAt(begin))) begin++
  while (end > begin && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(begin, end)
}

/** The same text in memory of its own: a slice keeps all of the head it came in, and is dearer to compare. */
export const copied = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

const isBlank = (code: number): boolean => code === 32 || code === 9
