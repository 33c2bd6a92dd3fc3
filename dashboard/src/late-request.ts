/** Reading a request that has just ended: it is in the ledger a moment later. */
import type { RequestEntry } from '../../src/edge/ledger/reading/queries.ts'
import { read } from './api.ts'

/** ms between two readings, and how long they go on: a busy gateway stores its records later. */
const LOOK = { first: 250, most: 2_000, within: 30_000 }

/** The request; null: it is not in the ledger after 30 seconds. */
export const lateRequest = async (id: string): Promise<RequestEntry | null> => {
  const end = Date.now() + LOOK.within
  for (let wait = LOOK.first; ; wait = Math.min(LOOK.most, 2 * wait)) {
    // The list, since the console of the browser would show a 404 as an error.
    const { data } = await read<{ readonly data: readonly RequestEntry[] }>('/requests', { q: id, limit: 1 })
    const [entry] = data
    if (entry?.id === id) return entry
    if (Date.now() + wait > end) return null
    await new Promise((resolve) => setTimeout(resolve, wait))
  }
}
