/** The list of requests with its histogram and filters; the details of one are a sheet beside it. */

import { type Signal, useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useCallback, useEffect, useRef } from 'preact/hooks'
import { RELAY_NAMES } from '../../../src/core/relay-names.ts'
import { REQUEST_STYLES } from '../../../src/core/request-styles.ts'
import type { Facets, RequestsPage } from '../../../src/usage/reading/queries.ts'
import { boundsOf, isCurrent, type Place, placePath, rangeAt, valuesOf, withParam } from '../address.ts'
import { apiPath, hasRole, read, session, useResource } from '../api.ts'
import { age, duration } from '../format.ts'
import { isHeld, moreIn, useLive } from '../live.ts'
import { findKeys, findTeams, type OwnerNames, useOwnerNames, useTeamNames } from '../owner-names.ts'
import { type Filter, Filters } from '../parts/filters.tsx'
import { late } from '../parts/late.tsx'
import { Menu } from '../parts/menu.tsx'
import { rangeText } from '../parts/range.tsx'
import { ageOf, RunningList } from '../parts/running-list.tsx'
import { SavedViews } from '../parts/saved-views.tsx'
import { Code, Empty, Failed, Loading, PageHead, Time } from '../parts/states.tsx'
import { NewRows, Table } from '../parts/table.tsx'
import {
  appended,
  type ListedRequest,
  merged,
  NEWEST_FIRST,
  queryOf,
  REQUEST_FILTERS,
  sortOf,
  sortParameter,
} from '../request-row.ts'
import { PREFIX } from '../root.ts'
import { useRunning } from '../running.ts'
import { current, gatewayNow, go, isNarrow, store, stored } from '../store.ts'
import { en } from '../words/en.ts'
import { requests as w } from '../words/requests.ts'
import { Card, COLUMNS, DEFAULT_COLUMNS } from './requests/cells.tsx'
import type { HistogramProps } from './requests/histogram.tsx'
import type { SheetProps } from './requests/sheet.tsx'

/** px of a row; a card has four lines. */
const HEIGHTS = { comfortable: 44, compact: 32, card: 100 }
/** Rows of a page of the API. */
const PAGE = 200
/** IDs of one question. */
const MOST_ASKED = 100
/** ms between two readings of the figures. */
const FIGURES = 10_000

const RESULTS = Object.entries(w.results).map(([value, label]) => ({ value, label }))
const STYLES = [...REQUEST_STYLES, ...RELAY_NAMES].map((value) => ({ value, label: value }))

/** The range and the filters as parameters of the API. */
const fullQuery = (place: Place) => {
  const { from, to } = rangeAt(place, gatewayNow())
  return {
    ...queryOf(place),
    from: new Date(from).toISOString(),
    // Without an end, so that a request that ends now is in it.
    ...(isCurrent(place) ? {} : { to: new Date(to).toISOString() }),
  }
}

/** Whether the kept bodies are searched: the newest come first, and nothing is counted. */
const isSearch = (place: Place): boolean => valuesOf(place, 'text').length > 0

/** A page of the list. */
const readPage = (place: Place, after?: string) => {
  if (isSearch(place)) {
    const query = { ...fullQuery(place), bodies: undefined, limit: PAGE, after }
    return read<RequestsPage>('/requests/search', query)
  }
  return read<RequestsPage>('/requests', {
    ...fullQuery(place),
    sort: sortParameter(sortOf(place)),
    limit: PAGE,
    after,
  })
}

/** Changes with the range and the filters, not with columns or the open request. */
const keyOf = (place: Place): string => JSON.stringify([queryOf(place), boundsOf(place)])

const hasFilter = (place: Place): boolean =>
  Object.keys(REQUEST_FILTERS).some((name) => valuesOf(place, name).length > 0)

const useFilters = (): readonly Filter[] => {
  const { value } = useResource('facets', () => read<Facets & { readonly names: OwnerNames }>('/requests/facets'))
  const keys = useOwnerNames({ keys: valuesOf(current.value, 'key'), teams: [] })
  const isKnown = (id: string) => id === '' || value?.names[id] !== undefined
  const teamOf = useTeamNames(value ? valuesOf(current.value, 'team').filter((id) => !isKnown(id)) : [])
  const nameOf = (id: string): string => value?.names[id] ?? keys[id] ?? teamOf(id)?.name ?? id
  const missingTeam = (text: string) => {
    const found = teamOf(text)
    if (found?.name !== null) return null
    return { text: w.noTeam(text), meant: found.near && { value: found.near.id, label: found.near.name } }
  }
  const options = (name: string) => {
    const found = value?.[name]
    return Array.isArray(found) ? found.map((one: string) => ({ value: one, label: nameOf(one) })) : []
  }
  return [
    { name: 'status', label: w.filters.status, options: RESULTS },
    { name: 'provider', label: w.filters.provider, options: options('provider') },
    { name: 'model', label: w.filters.model, options: options('model') },
    { name: 'route', label: w.filters.route, options: options('route') },
    {
      name: 'team',
      label: w.filters.team,
      options: options('team'),
      find: findTeams,
      show: nameOf,
      missing: missingTeam,
    },
    { name: 'key', label: w.filters.key, options: options('key'), find: findKeys, show: nameOf },
    { name: 'client', rare: true, label: w.filters.client, options: options('client') },
    { name: 'style', rare: true, label: w.filters.style, options: STYLES },
    { name: 'end_user', rare: true, label: w.filters.end_user, placeholder: w.endUserPlaceholder },
    { name: 'code', rare: true, label: w.filters.code, placeholder: w.codePlaceholder },
    {
      name: 'bodies',
      rare: true,
      single: true,
      label: w.filters.bodies,
      options: [{ value: 'kept', label: w.bodiesFilter }],
    },
    ...(hasRole('operator')
      ? [{ name: 'text', rare: true, single: true, label: w.filters.text, placeholder: w.textPlaceholder }]
      : []),
    { name: 'session', rare: true, label: w.filters.session, placeholder: w.sessionPlaceholder },
    { name: 'tag', rare: true, label: w.filters.tag, placeholder: w.tagPlaceholder },
    {
      name: 'min_ms',
      rare: true,
      label: w.filters.min_ms,
      single: true,
      placeholder: w.msPlaceholder,
      show: (ms) => duration(Number(ms)),
    },
    { name: 'http', rare: true, label: w.filters.http, placeholder: w.httpPlaceholder },
    {
      name: 'cost_over',
      rare: true,
      label: w.filters.cost_over,
      single: true,
      placeholder: w.costPlaceholder,
      show: (text) => `$${text}`,
    },
    ...(valuesOf(current.value, 'asked').length === 0
      ? []
      : [{ name: 'asked', label: w.filters.asked, options: [], rare: true }]),
  ]
}

type Figures = Pick<RequestsPage, 'count' | 'histogram'>

const countText = ({ count: found }: Figures): string =>
  found === undefined ? '' : found.exact ? w.count(found.value) : w.countAbout(found.value)

/** The columns of the list. Those that a user chose are all shown. */
const chosenColumns = (place: Place) => {
  const chosen = valuesOf(place, 'cols')
  if (chosen.length === 0) return COLUMNS.filter(({ id }) => DEFAULT_COLUMNS.some((one) => one === id))
  return COLUMNS.flatMap(({ drop: _never, ...column }) => (chosen.includes(column.id) ? [column] : []))
}

type ColumnsMenuProps = { readonly hidden: readonly string[] }

/** `hidden`: heads of the columns that have no room. */
const ColumnsMenu = ({ hidden }: ColumnsMenuProps) => {
  const all = chosenColumns(current.value)
  const ids = all.filter(({ head }) => !hidden.includes(head)).map(({ id }) => id)
  const choose = (next: readonly string[]) => go(withParam(current.value, 'cols', next), 'replace')
  return (
    <Menu className="button quiet" label={hidden.length > 0 ? en.table.hidden(hidden.length) : w.columnsMenu}>
      {() => (
        <div class="options">
          {hidden.length > 0 && (
            <button type="button" class="button quiet" onClick={() => choose(all.map(({ id }) => id))}>
              {en.table.showHidden}
            </button>
          )}
          {valuesOf(current.value, 'cols').length > 0 && (
            <button type="button" class="button quiet" onClick={() => choose([])}>
              {w.usualColumns}
            </button>
          )}
          {COLUMNS.map(({ id, head }) => (
            <label key={id} class="check">
              <input
                type="checkbox"
                checked={ids.includes(id)}
                disabled={ids.length === 1 && ids.includes(id)}
                onChange={() => choose(ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id])}
              />
              {head}
            </label>
          ))}
        </div>
      )}
    </Menu>
  )
}

const EXPORTS = [
  ['csv', w.exportCsv],
  ['jsonl', w.exportJson],
] as const

/** Above the number up to which the API counts, it asks first. */
const ExportMenu = ({ text, isMany }: { readonly text: string; readonly isMany: boolean }) => {
  const isWanted = useSignal(false)
  const isFound = isSearch(current.value)
  const isOff = isFound || (isMany && !isWanted.value)
  const href = (format: string) => apiPath('/usage/export', { ...fullQuery(current.value), level: 'request', format })
  return (
    <Menu className="button quiet" label={w.exportMenu}>
      {() => (
        <>
          <p class="dim">{isFound ? w.noExport : w.exportAbout(text)}</p>
          {isMany && !isFound && (
            <label class="check">
              <input
                type="checkbox"
                checked={isWanted.value}
                onChange={({ currentTarget }) => {
                  isWanted.value = currentTarget.checked
                }}
              />
              {w.exportMany}
            </label>
          )}
          {EXPORTS.map(([format, label]) =>
            isOff ? (
              <button key={format} type="button" class="button" disabled>
                {label}
              </button>
            ) : (
              <a key={format} class="button" href={href(format)} download={`requests.${format}`}>
                {label}
              </a>
            ),
          )}
        </>
      )}
    </Menu>
  )
}

/** Rows of the list: those that were read, and those of events on top. */
const useRows = (key: string) => {
  const sort = sortOf(current.value)
  const first = useResource(`${key} ${sort}`, () => readPage(current.value))
  const rows = useSignal<readonly ListedRequest[]>([])
  const next = useSignal<string | null>(null)
  const waiting = useSignal<readonly ListedRequest[]>([])
  /** Requests that ended without an event since the list was read. */
  const missing = useSignal(0)
  /** How far the search came; null: to the end of the page or of the range. */
  const searched = useSignal<string | null>(null)
  const isReading = useRef(false)
  const isGone = useRef(false)
  const page = first.value
  const readMore = async () => {
    if (isReading.current) return
    isReading.current = true
    try {
      let isEmpty = true
      // A page ends after a second of searching, also without rows.
      for (let after = next.value; after !== null && isEmpty && !isGone.current; after = next.value) {
        const more = await readPage(current.value, after)
        // The list may have been read again meanwhile.
        if (next.value === after) {
          rows.value = appended(rows.value, more.data)
          next.value = more.next
          searched.value = more.searched_until
        }
        isEmpty = rows.value.length === 0 || more.data.length === 0
      }
    } catch {
      // The end of the list stays where it is; scrolling tries again.
    }
    isReading.current = false
  }
  useEffect(() => {
    isGone.current = false
    return () => {
      isGone.current = true
    }
  }, [])
  useEffect(() => {
    if (!page) return
    rows.value = page.data
    next.value = page.next
    searched.value = page.searched_until
    waiting.value = []
    missing.value = 0
    if (page.data.length === 0) void readMore()
  }, [page])
  const showWaiting = () => {
    if (missing.value > 0 || sort !== NEWEST_FIRST) first.reload()
    else rows.value = merged(waiting.value, rows.value)
    waiting.value = []
    window.scrollTo({ top: 0 })
  }
  return { first, rows, next, searched, waiting, missing, readMore, showWaiting }
}

/** The requests in progress, folded: opened, it stays open on the next visit. */
const UnderWay = () => {
  const isOpen = useSignal(stored('running') === 'open')
  const { running = [], total } = useRunning(isOpen.value)
  const [longest] = running
  return (
    <details
      class="requests-running"
      open={isOpen.value}
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open
        store('running', currentTarget.open ? 'open' : null)
      }}
    >
      <summary>
        <span class="num">
          {w.running.title(total)}
          {longest && <span class="dim">, {w.running.longest(ageOf(longest))}</span>}
        </span>
      </summary>
      {isOpen.value &&
        (running.length === 0 ? (
          <p class="dim small">{w.running.none}</p>
        ) : (
          <RunningList running={running} total={total} />
        ))}
    </details>
  )
}

/** Whether a row under the pointer or with the focus would move. */
const isInUse = (list: HTMLElement | null): boolean =>
  list !== null && (list.matches(':hover') || list.contains(document.activeElement))

/** Parameters of the address that are no filters. */
const OTHERS = ['cols', 'sort']

/** Adds requests as they end. `newest`: of the figures, which are read again and again. */
const useEnded = (
  list: RefObject<HTMLDivElement | null>,
  { first, rows, waiting, missing }: ReturnType<typeof useRows>,
  newest: ListedRequest | undefined,
): void => {
  /** Adds rows that have ended: at the top, or to those that wait. */
  const add = (found: readonly ListedRequest[]) => {
    const isFree = window.scrollY < 8 && !isInUse(list.current) && sortOf(current.value) === NEWEST_FIRST
    if (isFree) rows.value = merged([...found, ...waiting.value], rows.value)
    waiting.value = isFree ? [] : merged(found, waiting.value)
  }
  const asked = useRef<string[]>([])
  const isAsking = useRef(false)
  /** Reads those that match the filters: the list decides, since events lack what some filters search. */
  const askFor = async (ids: readonly string[]): Promise<void> => {
    asked.current.push(...ids)
    if (isAsking.current) return
    isAsking.current = true
    const key = keyOf(current.value)
    try {
      while (asked.current.length > 0 && key === keyOf(current.value)) {
        const request_id = asked.current.splice(0, MOST_ASKED)
        const { data } = await read<RequestsPage>('/requests', { ...fullQuery(current.value), request_id, limit: PAGE })
        if (data.length > 0 && key === keyOf(current.value)) add(data)
      }
    } catch {
      // The figures find what is newer than the list.
    }
    asked.current = []
    isAsking.current = false
  }
  const onEvents = useCallback((events: readonly { readonly name: string; readonly data: unknown }[]) => {
    const now = current.value
    if (!isCurrent(now) || isHeld.value || isSearch(now)) return
    // The stream has the rows of the list.
    const ended = events.filter(({ name }) => name === 'request').map(({ data }) => data as ListedRequest)
    if (hasFilter(now)) return void askFor(ended.map(({ id }) => id))
    if (ended.length > 0) add(ended.toReversed())
    missing.value += moreIn(events)
  }, [])
  // A request may end after the list was read and before the events begin.
  useEffect(() => {
    if (!newest || !first.value || isHeld.value || !isCurrent(current.value)) return
    const known = new Set([...waiting.value, ...rows.value].map(({ id }) => id))
    if (known.has(newest.id)) return
    let isOver = false
    read<RequestsPage>('/requests', { ...fullQuery(current.value), limit: PAGE, shared: true }).then(
      ({ data }) => {
        const found = data.filter(({ id }) => !known.has(id))
        if (isOver || found.length === 0) return
        add(found)
        missing.value = Math.max(0, missing.value - found.length)
      },
      // The figures are read again, and this with them.
      () => {},
    )
    return () => {
      isOver = true
    }
  }, [newest?.id])
  useLive(['requests'], onEvents)
}

type RowListProps = {
  readonly state: ReturnType<typeof useRows>
  readonly count: Figures['count']
  readonly hasFailed: boolean
  readonly hidden: Signal<readonly string[]>
}

/** The rows; what there is instead while there are none. */
const RowList = ({ state: { first, rows, next, searched, readMore }, count, hasFailed, hidden }: RowListProps) => {
  const place = current.value
  if (first.value === undefined) return hasFailed ? null : <Loading rows={10} />
  const until = searched.value !== null && (
    <p class="dim small">
      {w.searchedUntil} <Time at={searched.value}>{new Date(searched.value).toLocaleString()}</Time>
    </p>
  )
  if (rows.value.length === 0) return next.value !== null ? until || null : <NoRows isFiltered={hasFilter(place)} />
  return (
    <>
      {until}
      <Table
        label={w.list}
        name="requests"
        hidden={hidden}
        columns={chosenColumns(place)}
        rows={rows.value}
        keyOf={({ id, received_at }) => `${id} ${received_at}`}
        count={count?.exact ? Math.max(count.value, rows.value.length) : null}
        card={Card}
        heights={HEIGHTS}
        open={({ id }) => go({ ...current.value, id })}
        opened={openedKey(rows.value, place.id)}
        onEnd={() => void readMore()}
        sort={{
          by: sortOf(place),
          columns: COLUMNS,
          change: (by) => go(withParam(current.value, 'sort', by === NEWEST_FIRST ? [] : [by])),
        }}
      />
    </>
  )
}

const useFigures = (key: string) =>
  useResource(
    isSearch(current.value) ? null : key,
    () =>
      read<RequestsPage>('/requests', {
        ...fullQuery(current.value),
        limit: 1,
        count: true,
        histogram: 60,
        shared: true,
      }),
    { every: isCurrent(current.value) ? FIGURES : 0 },
  )

const List = () => {
  const place = current.value
  const key = keyOf(place)
  const state = useRows(key)
  const { first, rows, waiting, missing, showWaiting } = state
  const list = useRef<HTMLDivElement>(null)
  const hidden = useSignal<readonly string[]>([])
  const figures = useFigures(key)
  useEnded(list, state, figures.value?.data[0])
  const shown: Figures = figures.value ?? {}
  const failed = first.problem ? first : figures
  const filters = useFilters()
  return (
    <>
      <PageHead title={en.pages.requests}>
        <p class="dim num list-count">{countText(shown)}</p>
        <p class="printed">{rangeText()}</p>
        <div class="row">
          <SavedViews />
          {!isNarrow.value && (
            <>
              <ColumnsMenu hidden={hidden.value} />
              <ExportMenu text={countText(shown)} isMany={shown.count?.exact === false} />
            </>
          )}
        </div>
      </PageHead>
      <div class="requests-top">
        <Filters filters={filters} search={{ name: 'q', placeholder: w.search }} others={OTHERS} />
        <LazyHistogram histogram={shown.count?.value === 0 ? undefined : shown.histogram} />
        {(isSearch(place) || valuesOf(place, 'bodies').length > 0) && <p class="dim small">{w.keptHere}</p>}
        {isCurrent(place) && <UnderWay />}
        {failed.problem && (
          <Failed problem={failed.problem} retry={failed.reload} shownSince={first.value ? failed.at : null} />
        )}
      </div>
      <div class="list-frame" ref={list}>
        <NewRows count={waiting.value.length + missing.value} show={showWaiting} />
        <RowList state={state} count={shown.count} hasFailed={failed.problem !== null} hidden={hidden} />
      </div>
      {place.id !== null && <LazySheet id={place.id} rows={rows.value} />}
    </>
  )
}

// The list is usable before its chart, and both are loaded at the same time.
const LazyHistogram = late<HistogramProps>(() => import('./requests/histogram.tsx').then(({ Histogram }) => Histogram))
const LazySheet = late<SheetProps>(() => import('./requests/sheet.tsx').then(({ Sheet }) => Sheet))

const openedKey = (rows: readonly ListedRequest[], id: string | null): string | null => {
  const found = id === null ? undefined : rows.find((row) => row.id === id)
  return found ? `${found.id} ${found.received_at}` : null
}

/** How far back the newest match is looked for, and what is shown around it, in ms. */
const NEWEST = { past: 90 * 86_400_000, around: 900_000 }

/** The newest request that matches the filter, before the range. */
const Newest = () => {
  const place = current.value
  const { value } = useResource(
    `newest ${keyOf(place)}`,
    () =>
      read<RequestsPage>('/requests', {
        ...queryOf(place),
        from: new Date(gatewayNow() - NEWEST.past).toISOString(),
        limit: 1,
      }),
    { isolated: true },
  )
  if (!value) return null
  const [newest] = value.data
  if (!newest) return <p class="dim">{w.noNewest}</p>
  const at = Date.parse(newest.received_at)
  const iso = (time: number) => new Date(time).toISOString()
  return (
    <p>
      <Time at={at}>{w.newest(age(Math.max(0, gatewayNow() - at)))}</Time>{' '}
      <a href={placePath({ ...place, from: iso(at - NEWEST.around), to: iso(at + NEWEST.around) })}>{w.showNewest}</a>
    </p>
  )
}

/** Looks for the text of the search in what was asked and answered instead. */
const SearchBodies = () => {
  const place = current.value
  const q = valuesOf(place, 'q')
  if (q.length === 0 || isSearch(place) || !hasRole('operator')) return null
  return <a href={placePath(withParam(withParam(place, 'q', []), 'text', q))}>{w.searchBodies}</a>
}

const NoRows = ({ isFiltered }: { readonly isFiltered: boolean }) => {
  const place = current.value
  if (isFiltered)
    return (
      <Empty title={w.emptyFiltered(rangeText())}>
        {!isSearch(place) && <Newest />}
        <SearchBodies />
        <div class="row">
          <button
            type="button"
            class="button"
            onClick={() =>
              go(Object.keys(REQUEST_FILTERS).reduce((next, name) => withParam(next, name, []), current.value))
            }
          >
            {en.states.clear}
          </button>
        </div>
      </Empty>
    )
  const line = `curl ${location.origin}${PREFIX}/v1/chat/completions -H 'content-type: application/json' -d '{"model":"demo/echo","messages":[{"role":"user","content":"Hello"}]}'`
  return (
    <Empty title={w.empty}>
      <p>{w.emptyAbout}</p>
      <Code text={line} />
      <a href={placePath({ ...place, from: '-30d', to: null })}>{w.widen}</a>
    </Empty>
  )
}

export const Page = () => {
  // A new sign-in has other rows.
  const { actor } = session.value ?? {}
  const isOpen = current.value.id !== null
  useEffect(() => {
    document.documentElement.toggleAttribute('data-sheet', isOpen)
    return () => document.documentElement.removeAttribute('data-sheet')
  }, [isOpen])
  return <List key={actor?.id ?? ''} />
}
