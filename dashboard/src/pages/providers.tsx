/** One row for each provider; the details have swim lanes, transitions, errors and what an operator can do. */
import { useEffect, useRef } from 'preact/hooks'
import type { Lanes as LanesAnswer, ProviderActivity } from '../../../src/usage/reading/queries.ts'
import { valuesOf, withParam } from '../address.ts'
import { read, useResource } from '../api.ts'
import { isProbe } from '../change-text.ts'
import { clock, count, duration, fullTime, percent } from '../format.ts'
import { everyUnlessHeld } from '../live.ts'
import { ChangeLine } from '../parts/change-line.tsx'
import { IncidentList } from '../parts/incident-list.tsx'
import { Lanes, type ShownLane } from '../parts/lanes.tsx'
import { ProviderActions } from '../parts/provider-actions.tsx'
import {
  errorsText,
  nextText,
  ProviderState,
  Strip,
  StripLegend,
  waitingTexts,
  whyText,
} from '../parts/provider-parts.tsx'
import { rangeText } from '../parts/range.tsx'
import { Empty, Failed, Loading, PageHead, Time, Unknown } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { EVERY, type ProviderData, rangeKey, rangeQuery, useProviders, whyNoActivity } from '../provider-data.ts'
import { changesOf, type ListedChange, type ProviderRow, sortedRows, spansOf } from '../provider-row.ts'
import { bind } from '../shortcuts.ts'
import { announce, current, go, goToPage, isNarrow, pageHref } from '../store.ts'
import { en } from '../words/en.ts'
import { kindText, providerWords as words } from '../words/providers.ts'

/** A time or the reason why there is none. */
const Latency = ({ ms, why }: { readonly ms: number | null | undefined; readonly why: string }) =>
  ms === null || ms === undefined ? <Unknown why={why} /> : <span class="num">{duration(ms)}</span>

const FailedShare = ({ row, why }: { readonly row: ProviderRow; readonly why: string }) =>
  row.failedShare === null ? (
    <Unknown why={why} />
  ) : (
    <span class={row.failedShare >= 0.05 ? 'num bad' : 'num'} title={errorsText(row, 6)}>
      {percent(row.failedShare)}
    </span>
  )

const Keys = ({ row }: { readonly row: ProviderRow }) => (
  <span class={row.keys.active < row.keys.of ? 'num warn' : 'num'}>{words.keysOf(row.keys.active, row.keys.of)}</span>
)

const columnsOf = (data: ProviderData, why: string): readonly Column<ProviderRow>[] => [
  {
    id: 'provider',
    head: words.name,
    width: '9rem',
    sort: 'provider',
    cell: ({ id }) => (
      <a class="provider-name" href={pageHref('providers', id)}>
        {id}
      </a>
    ),
  },
  { id: 'state', head: words.state, width: '9.5rem', cell: (row) => <ProviderState row={row} /> },
  { id: 'strip', head: words.strip, cell: ({ id }) => <Strip cells={data.strip(id)} /> },
  { id: 'now', head: words.now, width: '5rem', align: 'end', sort: 'now', cell: ({ inFlight }) => count(inFlight) },
  {
    id: 'p50',
    head: words.p50,
    width: '4.5rem',
    align: 'end',
    sort: 'p50',
    cell: ({ activity }) => <Latency ms={activity?.p50_ms} why={why} />,
  },
  {
    id: 'p95',
    head: words.p95,
    width: '4.5rem',
    align: 'end',
    sort: 'p95',
    cell: ({ activity }) => <Latency ms={activity?.p95_ms} why={why} />,
  },
  {
    id: 'first',
    head: words.first,
    width: '6rem',
    align: 'end',
    sort: 'first',
    cell: ({ activity }) => <Latency ms={activity?.first_content_p50_ms} why={activity ? words.firstWhy : why} />,
  },
  {
    id: 'failed',
    head: words.failed,
    width: '4.5rem',
    align: 'end',
    sort: 'failed',
    cell: (row) => <FailedShare row={row} why={why} />,
  },
  { id: 'keys', head: words.keys, width: '4.5rem', align: 'end', cell: (row) => <Keys row={row} /> },
  {
    id: 'next',
    head: words.next,
    width: '15rem',
    cell: (row) => (
      <span class="dim" title={[nextText(row), whyText(row)].filter((text) => text !== '').join(' · ')}>
        {nextText(row) || '–'}
      </span>
    ),
  },
]

const Card = ({ row, data, why }: { readonly row: ProviderRow; readonly data: ProviderData; readonly why: string }) => (
  <div class="provider-card">
    <div class="card-title">
      <a class="provider-name" href={pageHref('providers', row.id)}>
        {row.id}
      </a>
      <ProviderState row={row} />
    </div>
    <Strip cells={data.strip(row.id)} />
    <div class="provider-card-line small">
      <span>
        <FailedShare row={row} why={why} /> {row.failedShare === null ? '' : words.failed.toLowerCase()}
      </span>
      <span>
        {words.keys.toLowerCase()} <Keys row={row} />
      </span>
      <span>
        {words.p95} <Latency ms={row.activity?.p95_ms} why={why} />
      </span>
    </div>
    {nextText(row) !== '' && <p class="provider-card-next small dim">{nextText(row)}</p>}
  </div>
)

// ── Details ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const lanesOf = (id: string, answer: LanesAnswer | undefined, data: ProviderData): readonly ShownLane[] => {
  const { range, changes } = data
  const shared = changesOf(changes, { provider: id, credential: null, model: null })
  const own = (answer?.data ?? []).map(
    ({ credential, model, cells }): ShownLane => ({
      id: `${credential} ${model}`,
      label: words.detail.laneOf(credential, model),
      dots: cells.map(({ start, attempts, failed, limited }) => ({ at: Date.parse(start), attempts, failed, limited })),
      spans: spansOf(changesOf(changes, { provider: id, credential, model }), range),
      failures: (answer?.failures ?? [])
        .filter((failure) => failure.credential === credential && failure.model === model)
        .map(({ at, kind, status, request }) => ({ at: Date.parse(at), kind, status, request })),
    }),
  )
  const endpoint: ShownLane = {
    id: '',
    label: words.detail.endpoint,
    dots: [],
    spans: spansOf(shared, range),
    failures: [],
  }
  return [endpoint, ...own]
}

const Transitions = ({ changes }: { readonly changes: readonly ListedChange[] }) =>
  changes.length === 0 ? (
    <p class="dim">{words.detail.noTransitions}</p>
  ) : (
    <ul class="change-list">
      {changes.map((change) => (
        <ChangeLine key={change.id} change={change} />
      ))}
    </ul>
  )

const Errors = ({ activity }: { readonly activity: ProviderActivity | null }) =>
  !activity || activity.errors.length === 0 ? (
    <p class="dim">{words.detail.noErrors}</p>
  ) : (
    <table class="data-table full">
      <thead>
        <tr>
          <th scope="col">{words.detail.kind}</th>
          <th scope="col">{words.detail.count}</th>
          <th scope="col">{words.detail.last}</th>
        </tr>
      </thead>
      <tbody>
        {activity.errors.map(({ kind, status, count: times, last_at }) => (
          <tr key={`${kind} ${status}`}>
            <td>
              {kindText(kind, status)}
              {kind !== 'status' && status !== null && <span class="dim"> {status}</span>}
            </td>
            <td>{count(times)}</td>
            <td>
              <Time at={last_at}>{clock(Date.parse(last_at))}</Time>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )

/** Rows of a name, a bar and a number. */
const BarRows = ({
  rows,
}: {
  readonly rows: readonly { readonly name: string; readonly share: number; readonly text: string }[]
}) => (
  <dl class="bar-rows">
    {rows.map(({ name, share, text }) => (
      <div key={name}>
        <dt class="small">{name}</dt>
        <dd>
          <span class="bar-track" aria-hidden="true">
            <span style={{ inlineSize: `${Math.max(share > 0 ? 1 : 0, share * 100)}%` }} />
          </span>
          <span class="num small">{text}</span>
        </dd>
      </div>
    ))}
  </dl>
)

const ShareOfKeys = ({ answer }: { readonly answer: LanesAnswer | undefined }) => {
  const sums = new Map<string, number>()
  for (const { credential, cells } of answer?.data ?? [])
    sums.set(credential, (sums.get(credential) ?? 0) + cells.reduce((sum, { attempts }) => sum + attempts, 0))
  const all = [...sums.values()].reduce((sum, one) => sum + one, 0)
  if (all === 0) return <p class="dim">{words.noAttempt}</p>
  const rows = [...sums].map(([key, attempts]) => ({
    name: words.detail.key(key),
    share: attempts / all,
    text: `${percent(attempts / all)} · ${count(attempts)}`,
  }))
  return <BarRows rows={rows.toSorted((a, b) => b.share - a.share)} />
}

const Histogram = ({ activity }: { readonly activity: ProviderActivity | null }) => {
  const bars = activity?.histogram ?? []
  const first = bars.findIndex(({ attempts }) => attempts > 0)
  const last = bars.findLastIndex(({ attempts }) => attempts > 0)
  if (first < 0) return <p class="dim">{words.detail.noAnswers}</p>
  const most = Math.max(...bars.map(({ attempts }) => attempts))
  const rows = bars.slice(first, last + 1).map(({ most_ms, attempts }) => ({
    name: most_ms === null ? words.detail.longer : words.detail.upTo(duration(most_ms)),
    share: attempts / most,
    text: count(attempts),
  }))
  return (
    <>
      <BarRows rows={rows} />
      <p class="dim small">{words.detail.histogramAbout(bars.reduce((sum, { attempts }) => sum + attempts, 0))}</p>
    </>
  )
}

const Detail = ({ row, data }: { readonly row: ProviderRow; readonly data: ProviderData }) => {
  const { id, activity } = row
  const head = useRef<HTMLHeadingElement>(null)
  const lanes = useResource(
    data.isActivityAllowed ? `${id} ${rangeKey()}` : null,
    () => read<LanesAnswer>(`/providers/${encodeURIComponent(id)}/lanes`, { ...rangeQuery(), cells: 120 }),
    { every: everyUnlessHeld(EVERY), isolated: true },
  )
  useEffect(() => {
    head.current?.focus({ preventScroll: true })
    if (head.current) head.current.scrollIntoView({ block: 'nearest' })
  }, [id])
  const own = data.changes.filter(({ providers }) => providers.includes(id))
  const shown = lanesOf(id, lanes.value, data)
  const why = whyText(row)
  const attempts = shown.reduce((sum, { dots }) => sum + dots.reduce((all, dot) => all + dot.attempts, 0), 0)
  const lost = shown.reduce((sum, { dots }) => sum + dots.reduce((all, dot) => all + dot.failed + dot.limited, 0), 0)
  return (
    <section class="panel provider-detail" aria-label={id}>
      <div class="provider-detail-head">
        <h2 ref={head} tabIndex={-1}>
          {id}
        </h2>
        <ProviderState row={row} />
        {nextText(row) !== '' && <span class="dim">{nextText(row)}</span>}
        <button
          type="button"
          class="icon provider-close"
          aria-label={en.actions.close}
          onClick={() => goToPage('providers')}
        >
          ×
        </button>
      </div>
      {why !== '' && (
        <p>
          {why}
          {row.since !== null && <span class="dim"> · {words.detail.since(clock(row.since))}</span>}
        </p>
      )}
      {waitingTexts(row).length > 0 && row.state === 'closed' && <p class="warn">{waitingTexts(row).join(' · ')}</p>}
      {row.lastError && (
        <p class="small dim" title={fullTime(Date.parse(row.lastError.at))}>
          {words.detail.lastError} {clock(Date.parse(row.lastError.at))}: {row.lastError.message}
        </p>
      )}
      <div class="row provider-detail-tools">
        <ProviderActions row={row} changed={data.reload} />
        <a
          class="button quiet"
          href={`${pageHref('requests')}${pageHref('requests').includes('?') ? '&' : '?'}provider=${encodeURIComponent(id)}`}
        >
          {words.detail.requests}
        </a>
      </div>
      {!data.isActivityAllowed ? (
        <p class="dim">{words.notReadable}</p>
      ) : lanes.problem && !lanes.value ? (
        <Failed problem={lanes.problem} retry={lanes.reload} />
      ) : (
        <Lanes
          title={words.detail.lanes}
          summary={words.detail.lanesSummary(attempts, shown.length - 1, lost)}
          range={data.range}
          width={(lanes.value?.seconds ?? 60) * 1_000}
          lanes={shown}
        />
      )}
      <div class="provider-facts">
        {data.isActivityAllowed && (
          <section>
            <h3>{words.detail.incidents}</h3>
            <IncidentList provider={id} />
          </section>
        )}
        <section>
          <h3>{words.detail.transitions}</h3>
          <Transitions changes={own.filter((change) => !isProbe(change)).slice(0, 30)} />
        </section>
        {data.isActivityAllowed && (
          <>
            <section>
              <h3>{words.detail.errors}</h3>
              <Errors activity={activity} />
            </section>
            <section>
              <h3>{words.detail.share}</h3>
              <ShareOfKeys answer={lanes.value} />
            </section>
            <section>
              <h3>{words.detail.histogram}</h3>
              <Histogram activity={activity} />
            </section>
          </>
        )}
      </div>
    </section>
  )
}

// ── Page ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Announces a provider whose circuit opened or closed while the page is shown. */
const useAnnouncements = (rows: readonly ProviderRow[] | undefined): void => {
  const before = useRef<ReadonlyMap<string, string> | null>(null)
  useEffect(() => {
    if (!rows) return
    const states = new Map(rows.map(({ id, state }) => [id, state]))
    for (const [id, state] of states) {
      const was = before.current?.get(id)
      if (was !== undefined && was !== state) announce(words.changed(id, words.states[state]))
    }
    before.current = states
  }, [rows?.map(({ id, state }) => `${id} ${state}`).join()])
}

const HEIGHTS = { comfortable: 44, compact: 32, card: 116 }

const Rows = ({ data, rows }: { readonly data: ProviderData; readonly rows: readonly ProviderRow[] }) => {
  const { id } = current.value
  const why = whyNoActivity(data)
  const [by = ''] = valuesOf(current.value, 'sort')
  return (
    <>
      <div class="table-frame">
        <Table
          label={en.pages.providers}
          columns={columnsOf(data, why)}
          rows={sortedRows(rows, by)}
          keyOf={(row) => row.id}
          card={(row) => <Card row={row} data={data} why={why} />}
          open={(row) => goToPage('providers', row.id)}
          opened={id}
          heights={HEIGHTS}
          cardsBelow="tight"
          sort={{
            by,
            unsorted: words.unsorted,
            change: (next) => go(withParam(current.value, 'sort', next === '' ? [] : [next])),
          }}
        />
      </div>
      <StripLegend />
    </>
  )
}

const Content = ({ data }: { readonly data: ProviderData }) => {
  const { id } = current.value
  const { rows, problem, activityProblem } = data
  useAnnouncements(rows)
  useEffect(
    () =>
      bind('close', () => {
        if (current.value.id === null) return false
        goToPage('providers')
        return true
      }),
    [],
  )
  if (problem && !rows) return <Failed problem={problem} retry={data.reload} />
  if (!rows) return <Loading />
  if (rows.length === 0)
    return (
      <Empty title={words.none}>
        <p>{words.noneHow}</p>
      </Empty>
    )
  const wanted = valuesOf(current.value, 'provider')
  const listed = wanted.length === 0 ? rows : rows.filter((row) => wanted.includes(row.id))
  const opened = id === null ? undefined : rows.find((row) => row.id === id)
  return (
    <div class="stack">
      {problem && <Failed problem={problem} retry={data.reload} />}
      {activityProblem && activityProblem.status !== 403 && (
        <Failed problem={activityProblem} retry={data.reload} shownSince={data.activityAt} />
      )}
      {wanted.length > 0 && (
        <div class="chips">
          <span class="chip">
            <bdi>{`${words.name}: ${wanted.join(', ')}`}</bdi>
            <button
              type="button"
              aria-label={en.actions.removeFilter(wanted.join(', '))}
              onClick={() => go(withParam(current.value, 'provider', []))}
            >
              ×
            </button>
          </span>
        </div>
      )}
      {(!isNarrow.value || id === null) &&
        (listed.length === 0 ? (
          <Empty title={words.noMatch(wanted.join(', '))}>
            <button type="button" class="button" onClick={() => go(withParam(current.value, 'provider', []))}>
              {en.states.clear}
            </button>
          </Empty>
        ) : (
          <Rows data={data} rows={listed} />
        ))}
      {id === null && data.isActivityAllowed && (
        <section class="panel" aria-label={words.detail.incidents}>
          <h2>{words.detail.incidents}</h2>
          <IncidentList provider={null} />
        </section>
      )}
      {isNarrow.value && id !== null && (
        <a class="provider-back" href={pageHref('providers')}>
          ‹ {words.back}
        </a>
      )}
      {id !== null && (opened ? <Detail key={id} row={opened} data={data} /> : <Empty title={words.unknown(id)} />)}
    </div>
  )
}

export const Page = () => (
  <>
    <PageHead title={en.pages.providers}>
      <p class="printed">{rangeText()}</p>
    </PageHead>
    <Content data={useProviders()} />
  </>
)
