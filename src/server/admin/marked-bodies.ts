/** Lists of requests with what `bodies.db` has of them: a mark for each row, and the filter `bodies=kept`. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { encodeCursor } from '../../usage/reading/cursor.ts'
import type { ExportQuery, RequestEntry, RequestsPage, RequestsQuery } from '../../usage/reading/queries.ts'
import type { UsageExport } from '../../usage/reading/usage-reader.ts'
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
  const { from } = query
  const to = endOf(query)
  const kept = await deps.bodies.kept({ from, to: to + APART, limit: MOST })
  if ('problem' in kept) return bad(unreadable(kept.problem))
  const { ids, last } = kept.value
  const isCut = last !== null && ids.length >= MOST && last > from && last < to
  return pageAmong(deps, query, { ids, until: isCut ? last : null })
}

const isNewestFirst = ({ sort = '-received_at' }: RequestsQuery): boolean => sort === '-received_at'

/** The end of what is left of the range after the page before. */
const endOf = (query: RequestsQuery): number => {
  const [received] = isNewestFirst(query) ? (query.after ?? []) : []
  return typeof received === 'number' ? Math.min(query.to, received + 1) : query.to
}

/** The requests among these. `until`: how far back they were looked for; null: through all of the range. */
const pageAmong = async (
  { usage }: Pick<Deps, 'usage'>,
  query: RequestsQuery,
  { ids, until }: { readonly ids: readonly string[]; readonly until: number | null },
): Promise<Outcome<RequestsPage>> => {
  const filter = { ...query.filter, own_id: ids }
  const found = await usage.requests({ ...query, from: until ?? query.from, filter })
  if (!found.ok || until === null) return found
  const page = found.value
  const searched_until = page.searched_until ?? new Date(until).toISOString()
  if (!isNewestFirst(query) || page.next !== null) return good({ ...page, searched_until })
  return good({ ...page, searched_until, has_more: true, next: encodeCursor([until, '']) })
}

/** ms for which bodies are searched for a page, and of those of the page before that are searched again: it must get further. */
const SEARCH = { most: 1_000, again: 20 }

/**
 * Requests with a text in their kept bodies, newest first. `teams`: those whose bodies the actor may read; null: all. It ends after
 * a second, states how far it came, and the next page continues.
 */
export const searchedPage = async (
  { bodies, usage, gateway: { world } }: Deps & Pick<AdminDeps, 'gateway'>,
  query: RequestsQuery,
  { text, teams }: { readonly text: string; readonly teams: readonly string[] | null },
): Promise<Outcome<RequestsPage & { readonly searched_bodies: number }>> => {
  const { from, limit } = query
  const ids: string[] = []
  let searched_bodies = 0
  let until: number | null = endOf(query) + SEARCH.again
  for (const end = world.now() + SEARCH.most; until !== null && ids.length < limit && world.now() < end; ) {
    const found = await bodies.search({ text, from, to: until, teams, limit })
    if ('problem' in found) return bad(unreadable(found.problem))
    ids.push(...found.value.ids)
    searched_bodies += found.value.searched
    until = found.value.until
  }
  const page = await pageAmong({ usage }, query, { ids, until })
  if (!page.ok) return page
  const data = page.value.data.map((entry) => ({ ...entry, bodies: true }))
  return good({ ...page.value, data, searched_bodies })
}

type RequestExport = Omit<ExportQuery, 'after'>

/** An export of the requests whose bodies are kept, oldest first, by as many at a time as a page searches. */
export const keptExport = ({ bodies, usage }: Deps, query: RequestExport): UsageExport => {
  let part: UsageExport | null = null
  let from: number | null = query.from
  let exported: ReadonlySet<string> | null = null
  const nextPart = async (start: number): Promise<Outcome<UsageExport>> => {
    const kept = await bodies.kept({ from: start, to: query.to + APART, limit: MOST, isOldestFirst: true })
    if ('problem' in kept) return bad(unreadable(kept.problem))
    const { ids, last } = kept.value
    // Others may have been received in the same millisecond as the last one.
    from = last === null || ids.length < MOST ? null : Math.max(last, start + 1)
    const own_id = ids.filter((id) => !exported?.has(id))
    const range = { from: Math.max(query.from, start - APART), to: Math.min(query.to, (last ?? start) + APART) }
    // The head is that of the first part: a later one begins with the first request of its range.
    const after = exported === null ? null : [range.from, '']
    exported = new Set(ids)
    return good(usage.export({ ...query, ...range, filter: { ...query.filter, own_id } }, after))
  }
  const readText = async (): Promise<Outcome<string | null>> => {
    for (;;) {
      const text: Outcome<string | null> = part ? await part.read() : good(null)
      if (!text.ok || text.value !== null || from === null) return text
      const next: Outcome<UsageExport> = await nextPart(from)
      if (!next.ok) return next
      part = next.value
    }
  }
  return { read: readText }
}
