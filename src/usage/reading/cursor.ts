/** Cursors of lists: the sort key of the last row, as base64url of a JSON array. */
import type { CursorValues } from './queries.ts'

export const encodeCursor = (values: CursorValues): string => Buffer.from(JSON.stringify(values)).toString('base64url')

/** Undefined if the text is not a cursor. Its values may still not fit the list. */
export const decodeCursor = (text: string): CursorValues | undefined => {
  try {
    const values: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isValue = (value: unknown): value is string | number =>
      typeof value === 'string' || Number.isSafeInteger(value)
    return Array.isArray(values) && values.every(isValue) ? values : undefined
  } catch {
    return undefined
  }
}
