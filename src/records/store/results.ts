/** Results of operations, and the parameters that all lists have. */
import type { z } from 'zod'
import type { JsonObject } from '../../core/json.ts'
import type { ControlError, ControlResult } from './record-operations.ts'

export const done = (value: JsonObject, status = 200): ControlResult => ({ ok: true, status, value })

export const refused = (status: number, code: string, message: string, path: string | null = null): ControlResult => ({
  ok: false,
  error: { code, message, path, status },
})

export const badValue = (path: string, message: string): ControlResult => refused(400, 'invalid_value', message, path)

/** All problems that zod found in a body. */
export const badBody = ({ issues }: z.ZodError): ControlResult => {
  const errors = issues.map(({ path, message }) => ({ path: path.join('.'), message }))
  const [first] = errors
  const error: ControlError = {
    code: 'invalid_value',
    message: first ? (first.path === '' ? first.message : `${first.path}: ${first.message}`) : 'The body is invalid.',
    path: first?.path ?? null,
    status: 400,
    errors,
  }
  return { ok: false, error }
}

const PAGE = { usual: 50, largest: 200 }

/** The rows of a page; null: invalid. */
export const limitOf = (limit: number = PAGE.usual): number | null =>
  Number.isInteger(limit) && limit >= 1 && limit <= PAGE.largest ? limit : null

/** A time in ms since 1970; undefined: none; null: invalid. */
export const timeOf = (text: string | undefined): number | undefined | null => {
  if (text === undefined) return undefined
  const time = Date.parse(text)
  return Number.isNaN(time) ? null : time
}

/** The position after a row: what it is sorted by, and its ID. */
export type Cursor = { readonly value: string | number; readonly id: string }

export const cursorOf = (value: string | number, id: string): string =>
  Buffer.from(JSON.stringify([value, id])).toString('base64url')

export const parseCursor = (text: string): Cursor | null => {
  try {
    const [value, id]: unknown[] = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isValue = typeof value === 'string' || typeof value === 'number'
    return isValue && typeof id === 'string' ? { value, id } : null
  } catch {
    return null
  }
}

/** A duration such as `0s`, `90m`, `24h` or `7d`, in ms; null: invalid. */
export const durationOf = (text: string): number | null => {
  const [, digits, unit = ''] = /^([0-9]{1,6})([smhd])$/.exec(text) ?? []
  const size = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit]
  return digits === undefined || size === undefined ? null : Number(digits) * size
}

type ListQuery = { readonly limit?: number | undefined; readonly after?: string | undefined }
/** The rows of a page, and the position after which they are; null: from the beginning. */
type AskedPage = { readonly limit: number; readonly after: Cursor | null }

/** The page of a list that the query names, or why there is none. */
export const pageOf = (query: ListQuery): AskedPage | { readonly wrong: ControlResult } => {
  const limit = limitOf(query.limit)
  if (limit === null) return { wrong: badValue('limit', 'Write a whole number from 1 to 200.') }
  if (query.after === undefined) return { limit, after: null }
  const after = parseCursor(query.after)
  return after ? { limit, after } : { wrong: badValue('after', 'Send `next` of the page before.') }
}
