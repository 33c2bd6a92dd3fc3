/** Values as Postgres can store them. */

/** A list is an array of Postgres, such as `unnest` takes. */
export type PostgresValue = null | boolean | number | bigint | string | Uint8Array | readonly PostgresValue[]

/**
 * Postgres has no texts with a NUL, which clients can send in names, and reads no JSON with one, or with half of a surrogate
 * pair: each is replaced, also in conditions and lists.
 */
export const storable = (value: PostgresValue): PostgresValue =>
  typeof value === 'string' ? storableText(value) : Array.isArray(value) ? value.map(storable) : value

const storableText = (value: string): string => {
  const text = value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value
  return text.includes('\\u') ? withoutBadEscapes(text) : text
}

/** An escape that is not itself escaped. */
const ESCAPE = /(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|d[89a-f][0-9a-f]{2}|0000)/gi
const PAIR = 'd83d\\ude00'.length

const withoutBadEscapes = (text: string): string =>
  text.replace(ESCAPE, (found: string, before: string, code: string) =>
    code.length === PAIR ? found : `${before}\\ufffd`,
  )

/** The text of an array, which is faster to make and to send than a list of values. */
export const arrayText = (values: readonly (null | number | bigint | string)[]): string => {
  let text = '{'
  let comma = ''
  for (const value of values) {
    text += comma
    comma = ','
    if (value === null) text += 'NULL'
    else if (typeof value !== 'string') text += value
    else text += `"${quoted(storableText(value))}"`
  }
  return `${text}}`
}

const quoted = (value: string): string =>
  value.includes('"') || value.includes('\\') ? value.replace(/["\\]/g, '\\$&') : value
