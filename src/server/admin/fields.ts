/** Parameters that several rows have, and pages of lists in memory. */
import { z } from 'zod'

export const id = z.strictObject({ id: z.string().min(1).max(200) })

/** Parameters of every list. */
export const page = {
  limit: z.int().min(1).max(200).default(50).describe('Entries of a page'),
  after: z.string().min(1).max(500).optional().describe('`next` of the page before'),
}

type MemoryPageOptions = {
  readonly limit: number
  readonly after?: string | undefined
  /** The last keys are first. */
  readonly isDescending?: boolean
}

/** A page of a list in memory, sorted by its unique key. */
export const pageOf = <T>(
  entries: readonly T[],
  { limit, after, isDescending = false }: MemoryPageOptions,
  keyOf: (entry: T) => string,
) => {
  const isBefore = (one: string, other: string) => (isDescending ? one > other : one < other)
  const sorted = entries.toSorted((a, b) => (isBefore(keyOf(a), keyOf(b)) ? -1 : 1))
  const rest = after === undefined ? sorted : sorted.filter((entry) => isBefore(after, keyOf(entry)))
  const data = rest.slice(0, limit)
  const last = data.at(-1)
  const has_more = rest.length > data.length
  return { object: 'list' as const, data, has_more, next: has_more && last !== undefined ? keyOf(last) : null }
}
