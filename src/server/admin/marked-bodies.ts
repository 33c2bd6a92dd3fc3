/** Lists of requests with what `bodies.db` has of them: a mark for each row, and the filter `bodies=kept`. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { encodeCursor } from '../../usage/reading/cursor.ts'
import type { RequestEntry, RequestsPage, RequestsQuery } from '../../usage/reading/queries.ts'
import type { AdminDeps } from './deps.ts'

/** Requests with bodies that one page searches. */
const MOST = 2_000
/** ms by which the two clocks of a request, of its row and of its bodies, may differ: both are read in the same turn. */
const APART = 1_000

type Deps = Pick<AdminDeps, 'bodies' | 'usage'>

/** The failure of a read of `bodies.db`. `problem` contains no path. */
export const unreadable = (problem: string) =>
  fail(
    'storage',
    `The kept bodies cannot be read now: ${problem}. Check bodies.db in the data folder of the gateway (DATA_DIR).`,
    { retryAfter: 2_000 },
  )

/** Marks the requests whose bodies are kept, with one read for all of them. Without a mark it is unknown. */
export const withMarks = async <Entry extends RequestEntry>(
  { bodies }: Pick<AdminDeps, 'bodies'>,
  entries: readonly Entry[],
): Promise<readonly Entry[]> => {
  const found = entries.length === 0 ? null : await bodies.kept({ ids: entries.map(({ id }) => id) })
  if (!found || 'problem' in found) return entries
  const kept = new Set(found.value.ids)
  return entries.map((entry) => ({ ...entry, bodies: kept.has(entry.id) }))
}

/** A page of the list, whose rows are marked. */
export const markedPage = async (deps: Deps, query: RequestsQuery): Promise<Outcome<RequestsPage>> => {
  const found = query.bodies === 'kept' ? await keptPage(deps, query) : await deps.usage.requests(query)
  return found.ok ? good({ ...found.value, data: [...(await withMarks(deps, found.value.data))] }) : found
}

/**
 * Requests whose bodies are kept: the newest `MOST` of the range. If there may be more, the page states how far it
 * searched, and the next one of a list in the order of time begins there.
 */
const keptPage = async (deps: Deps, query: RequestsQuery): Promise<Outcome<RequestsPage>> => {
  const { after, sort = '-received_at', from } = query
  const isNewestFirst = sort === '-received_at'
  const [received] = isNewestFirst ? (after ?? []) : []
  const to = typeof received === 'number' ? Math.min(query.to, received + 1) : query.to
  const kept = await deps.bodies.kept({ from, to: to + APART, limit: MOST })
  if ('problem' in kept) return bad(unreadable(kept.problem))
  const { ids, oldest } = kept.value
  const isCut = oldest !== null && ids.length >= MOST && oldest > from && oldest < to
  const found = await deps.usage.requests({
    ...query,
    from: isCut ? oldest : from,
    filter: { ...query.filter, own_id: ids },
  })
  if (!found.ok || !isCut) return found
  const page = found.value
  const searched_until = page.searched_until ?? new Date(oldest).toISOString()
  if (!isNewestFirst || page.next !== null) return good({ ...page, searched_until })
  return good({ ...page, searched_until, has_more: true, next: encodeCursor([oldest, '']) })
}
