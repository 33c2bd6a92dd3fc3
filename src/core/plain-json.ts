/** Reads JSON of unknown shape as `JSON.parse` gives it. Runs in browsers, of which not all have `JSON.isRawJSON`. */
export type PlainObject = { readonly [name: string]: unknown }

export const isPlainObject = (value: unknown): value is PlainObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** The object, or an empty one. */
export const objectIn = (value: unknown): PlainObject => (isPlainObject(value) ? value : {})
/** The list, or an empty one. */
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
/** The text, or an empty one. */
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')
/** The value of a JSON text; undefined: it is none. */
export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
