/** Values written as text, as in environment variables. */
import type { Schema } from './definition.ts'

const WHOLE = /^[0-9]{1,15}$/
const DECIMAL = /^[0-9]{1,15}(?:\.[0-9]{1,15})?$/

/** Converts a text to the type of a setting; invalid text stays text, which the schema refuses. */
export const fromText = (schema: Schema | undefined, text: string): unknown => {
  switch (schema?.type) {
    case 'integer':
      return WHOLE.test(text) ? Number(text) : text
    case 'number':
      return DECIMAL.test(text) ? Number(text) : text
    case 'array':
      return listFrom(text)
    default: {
      const alternatives = schema?.anyOf?.filter(({ type }) => type !== 'null') ?? []
      if (alternatives.length === 1) return fromText(alternatives[0], text)
      const isTruth = schema?.type === 'boolean' || alternatives.some(({ type }) => type === 'boolean')
      return isTruth && (text === 'true' || text === 'false') ? text === 'true' : text
    }
  }
}

/** Splits a list: `a, b,,c` is a, b and c. */
export const commaList = (value: string): readonly string[] => [
  ...new Set(
    value
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== ''),
  ),
]

/**
 * Splits a text into a list. A text of commas only is returned unchanged and then refused: "$A,$B" with two unset
 * variables would otherwise disable client keys.
 */
export const listFrom = (value: string): readonly string[] | string => {
  const list = commaList(value)
  return list.length > 0 ? list : value
}
