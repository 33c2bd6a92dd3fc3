/** Reading what a request leaves: its record and its bodies are stored a moment after its end. */
import type { RequestEntry } from '../../src/usage/reading/queries.ts'
import { ApiError, read } from './api.ts'

/** ms between two readings, and how long they go on: a busy gateway stores its records later. */
const LOOK = { first: 250, most: 2_000, within: 30_000 }

/** Reads until there is a value; null: there was none within that time in ms, or it is not needed any more. */
export const readLate = async <Value>(
  reader: () => Promise<Value | null>,
  { within = LOOK.within, isOver = () => false }: { readonly within?: number; readonly isOver?: () => boolean } = {},
): Promise<Value | null> => {
  const end = Date.now() + within
  for (let wait = LOOK.first; !isOver(); wait = Math.min(LOOK.most, 2 * wait)) {
    const value = await reader()
    if (value !== null || Date.now() + wait > end) return value
    await new Promise((resolve) => setTimeout(resolve, wait))
  }
  return null
}

/** The request; null: it is not in the ledger. */
export const requestById = async (id: string): Promise<RequestEntry | null> => {
  try {
    return await read<RequestEntry>(`/requests/${encodeURIComponent(id)}`)
  } catch (error) {
    if (error instanceof ApiError && error.problem.status === 404) return null
    throw error
  }
}

/** A request of the last minutes; null: it is not in the ledger after 30 seconds. */
export const lateRequest = (id: string): Promise<RequestEntry | null> =>
  readLate(async () => {
    // The list, since the console of the browser would show a 404 as an error.
    const { data } = await read<{ readonly data: readonly RequestEntry[] }>('/requests', { q: id, limit: 1 })
    return data.find((entry) => entry.id === id) ?? null
  })
