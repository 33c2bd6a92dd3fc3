/** What requests cost, by whom, and what the month will cost. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { EndUserReport } from '../../../src/usage/reading/queries.ts'
import { placePath, toPage, valuesOf, withParam } from '../address.ts'
import { apiPath, read, useResource } from '../api.ts'
import { compact, count, csvOf, date, minute, moment, money, shareOf } from '../format.ts'
import { useBands } from '../incidents.ts'
import type { Listed } from '../key-records.ts'
import { useMarks } from '../marks.ts'
import { findKeys, findTeams, useOwnerNames } from '../owner-names.ts'
import { Bars, type ChartSeries } from '../parts/chart.tsx'
import { Figure } from '../parts/figure.tsx'
import { Filters } from '../parts/filters.tsx'
import { Menu } from '../parts/menu.tsx'
import { rangeText } from '../parts/range.tsx'
import { Amount, copyText, Empty, Failed, Loading, PageHead, Time, Unknown } from '../parts/states.tsx'
import { current, currentRange, go, isNarrow, now, pageHref } from '../store.ts'
import {
  BUCKETS,
  csvRows,
  DAY,
  type DayCost,
  distinctNames,
  groupParam,
  monthForecast,
  USAGE_GROUPS,
  type UsageGroup,
  type UsageLine,
  type UsageRow,
  type UsageTotals,
  usageLines,
  withEveryStart,
  withOther,
} from '../usage-figures.ts'
import { type ReportOfUsage, readReport } from '../usage-report.ts'
import { en } from '../words/en.ts'
import { usageWords } from '../words/usage.ts'
import { CostTable, endsNow, Failures } from './usage/cost-table.tsx'

type Names = ReportOfUsage['names']

const EVERY = 30_000
const ROWS = 10_000
/** Series of the chart, with the one of all others. */
const SERIES = 11
/** Days that the forecast looks at. */
const PAST = 50
/** ms of a range that is shown by five minutes, and by the hour. */
const [BY_MINUTES, BY_HOUR] = [DAY / 12, 2 * DAY]
type Bucket = keyof typeof BUCKETS
const TONES = ['series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6'] as const
const PATTERNS = ['plain', 'lines', 'dots', 'cross', 'empty'] as const
const FILTERS = ['team', 'key', 'model', 'route', 'client', 'provider', 'tag', 'style'] as const

const groupOf = (): UsageGroup => USAGE_GROUPS.find((group) => group === valuesOf(current.value, 'group')[0]) ?? 'key'

/** The group in words; of tags with the name of the tag, which the configuration has. */
const useGroupName = (group: UsageGroup): string => {
  const { value } = useResource(group === 'tag' ? 'config' : null, () => read<ShownSettings>('/config'))
  const tag = value?.settings.find(({ name }) => name === 'usage.rollupTag')
  if (group !== 'tag' || !tag) return usageWords.groups[group]
  return typeof tag.value === 'string' ? usageWords.groupTag(tag.value) : usageWords.groups.tag
}
type ShownSettings = { readonly settings: readonly { readonly name: string; readonly value: unknown }[] }

const filterOf = () => Object.fromEntries(FILTERS.map((name) => [name, valuesOf(current.value, name)]))

const rangeOf = () => {
  const { from, to } = currentRange()
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
}

/** What is added up of the report that is read; null: it is complete. `goesOn`: while the page shows the report of this name. */
const usePart = (name: string) => {
  const part = useSignal<ReportOfUsage | null>(null)
  const shown = useRef('')
  shown.current = name
  useEffect(() => {
    part.value = null
    return () => {
      shown.current = ''
    }
  }, [name])
  const goesOn = (found: ReportOfUsage): boolean => {
    const isShown = shown.current === name
    if (isShown) part.value = found
    return isShown
  }
  const whole = (report: ReportOfUsage): ReportOfUsage => {
    if (shown.current === name) part.value = null
    return report
  }
  return { part, goesOn, whole }
}

/** The reports of the page: of the range, of the one before, and of the last weeks. */
const useReports = (group: UsageGroup) => {
  const place = current.value
  const filter = filterOf()
  const { from, to } = currentRange()
  const bucket: Bucket = to - from <= BY_MINUTES ? '5m' : to - from <= BY_HOUR ? 'hour' : 'day'
  const iso = (at: number) => new Date(at).toISOString()
  const name = JSON.stringify([place.from, place.to, filter, group])
  const range = rangeOf()
  const { part, goesOn, whole } = usePart(name)
  const report = useResource(
    `usage ${name}`,
    () => {
      const query = { ...filter, ...range, by: [group], bucket, limit: ROWS }
      return readReport(query, goesOn).then(whole)
    },
    { every: EVERY },
  )
  const before = useResource(`usage before ${name}`, () =>
    readReport({
      ...filter,
      from: iso(2 * from - to),
      to: iso(from),
      by: [group],
      bucket: 'none',
      limit: ROWS,
    }),
  )
  const past = useResource(`usage past ${JSON.stringify(filter)}`, () =>
    readReport({ ...filter, from: iso(now.value - PAST * DAY), bucket: 'day' }),
  )
  const priced = useResource(`usage unpriced ${name}`, () =>
    readReport({ ...filter, ...range, by: ['provider', 'model'], bucket: 'none', limit: ROWS }),
  )
  return { report, part: part.value, before, past, priced, bucket }
}

export const Page = () => {
  const group = groupOf()
  const groupName = useGroupName(group)
  const chosen = useOwnerNames({ keys: valuesOf(current.value, 'key'), teams: valuesOf(current.value, 'team') })
  const { report, part, before, past, priced, bucket } = useReports(group)
  const { value } = report
  const shown = value ?? part
  const names = distinctNames({ ...chosen, ...value?.names })
  const { starts, lines } = withEveryStart(usageLines(value?.data ?? [], group), BUCKETS[bucket], currentRange())
  const nameOf = (id: string) => (id === '' ? usageWords.without[group] : (names[id] ?? id))
  const unpriced = (priced.value?.data ?? []).filter((row) => row.unpriced > 0)
  const isFiltered = FILTERS.some((name) => valuesOf(current.value, name).length > 0)
  return (
    <div class="stack usage">
      <PageHead title={en.pages.usage}>
        <div class="row">
          <ExportMenu lines={lines} nameOf={nameOf} />
          <button type="button" class="button quiet" onClick={() => window.print()}>
            {usageWords.print}
          </button>
        </div>
      </PageHead>
      <p class="printed">{printedText(group, nameOf)}</p>
      <Controls group={group} names={names} />
      {report.problem && <Failed problem={report.problem} retry={report.reload} shownSince={report.at} />}
      {!value && !part && report.isLoading && <Loading />}
      <AddedUp part={part} />
      {shown && <Figures total={shown.total} before={before.value?.total ?? null} past={past.value?.data ?? []} />}
      {value && value.data.length === 0 && (
        <Empty title={isFiltered ? usageWords.emptyFiltered : usageWords.empty}>
          <p>{usageWords.emptyText}</p>
          {!isFiltered && (
            <a class="button" href={pageHref('connect')}>
              {usageWords.connect}
            </a>
          )}
        </Empty>
      )}
      {value && lines.length > 0 && (
        <>
          <CostChart starts={starts} lines={lines} nameOf={nameOf} bucket={bucket} groupName={groupName} />
          <CostTable
            key={group}
            group={group}
            groupName={groupName}
            lines={lines}
            total={value.total}
            before={before.value?.data ?? []}
            nameOf={nameOf}
          />
        </>
      )}
      {unpriced.length > 0 && <Unpriced rows={unpriced} />}
      <EndUsers />
      <Prices />
    </div>
  )
}

/** How far a report came that is not complete: its figures are of what is added up. */
const AddedUp = ({ part }: { readonly part: ReportOfUsage | null }) =>
  part?.searched_until ? (
    <p class="dim small" role="status">
      {usageWords.addedUp} <Time at={part.searched_until}>{new Date(part.searched_until).toLocaleString()}</Time>
    </p>
  ) : null

/** What is printed above the figures: the range, the group and the filters in words. */
const printedText = (group: UsageGroup, nameOf: (id: string) => string): string =>
  [
    rangeText(),
    `${usageWords.groupBy} ${usageWords.groups[group]}`,
    ...FILTERS.flatMap((name) => {
      const values = valuesOf(current.value, name)
      return values.length === 0 ? [] : [`${usageWords.groups[name]}: ${values.map(nameOf).join(', ')}`]
    }),
  ].join(' · ')

/** The table as text to paste, and its days as a file of the API. */
const ExportMenu = ({ lines, nameOf }: LinesProps) => {
  const group = groupOf()
  const copy = () => copyText(csvOf(csvRows(group, lines, nameOf)))
  return (
    <Menu className="button quiet" label={usageWords.export}>
      {(close) => (
        <>
          <button
            type="button"
            class="button"
            disabled={lines.length === 0}
            onClick={() => {
              close()
              void copy()
            }}
          >
            {usageWords.copyTable}
          </button>
          <a
            class="button"
            href={apiPath('/usage/export', { ...filterOf(), ...rangeOf(), level: 'day', format: 'csv' })}
            download="usage.csv"
          >
            {usageWords.exportDays}
          </a>
        </>
      )}
    </Menu>
  )
}

const GroupChoice = ({ group }: { readonly group: UsageGroup }) => {
  const choose = (next: UsageGroup) => go(withParam(current.value, 'group', groupParam(next)))
  // Eight buttons take three lines of a narrow window.
  if (isNarrow.value)
    return (
      <label class="row">
        {usageWords.groupBy}
        <select
          value={group}
          onChange={({ currentTarget: { value } }) => choose(USAGE_GROUPS.find((one) => one === value) ?? group)}
        >
          {USAGE_GROUPS.map((one) => (
            <option key={one} value={one}>
              {usageWords.groups[one]}
            </option>
          ))}
        </select>
      </label>
    )
  return (
    <fieldset class="segments">
      <legend>{usageWords.groupBy}</legend>
      {USAGE_GROUPS.map((one) => (
        <button key={one} type="button" aria-pressed={one === group} onClick={() => choose(one)}>
          {usageWords.groups[one]}
        </button>
      ))}
    </fieldset>
  )
}

const Controls = ({ group, names }: { readonly group: UsageGroup; readonly names: Names }) => {
  const isCompared = valuesOf(current.value, 'compare')[0] === 'previous'
  const filters = FILTERS.map((name) => ({
    name,
    label: usageWords.groups[name],
    rare: true,
    show: (value: string) => names[value] ?? value,
    // Those with usage in the range are not all.
    ...(name === 'key' && { options: [], find: findKeys }),
    ...(name === 'team' && { options: [], find: findTeams }),
  }))
  return (
    <div class="usage-controls">
      <GroupChoice group={group} />
      <Filters filters={filters} others={['group', 'compare']} />
      <label class="check">
        <input
          type="checkbox"
          checked={isCompared}
          onChange={() => go(withParam(current.value, 'compare', isCompared ? [] : ['previous']))}
        />
        {usageWords.compare}
      </label>
    </div>
  )
}

type CostFiguresProps = {
  readonly total: UsageTotals
  readonly before: UsageTotals | null
  readonly past: readonly UsageRow[]
}

const Figures = ({ total, before, past }: CostFiguresProps) => {
  const hasBefore = before !== null && before.cost !== '0.000000000'
  const change = hasBefore ? { ratio: shareOf(total.cost, before.cost) - 1, good: 'down' as const } : null
  const cost = (
    <>
      {total.unpriced > 0 && <span class="figure-unit">{usageWords.atLeast}</span>}
      {money(total.cost)}
    </>
  )
  return (
    <div class="figures">
      <Figure label={`${usageWords.total}, ${rangeText()}`} value={cost} change={change}>
        {hasBefore && <p class="dim small">{usageWords.before(money(before.cost))}</p>}
      </Figure>
      {endsNow() && <MonthFigure past={past} />}
      <Figure label={usageWords.saved} value={money(total.saved)} />
      <Figure label={usageWords.lost} value={money(total.lost)} />
      <Figure label={usageWords.requests} value={count(total.requests)}>
        <p class="dim small">
          <Failures totals={total} />
        </p>
      </Figure>
    </div>
  )
}

/** What the month will cost. Of a past range it says nothing. */
const MonthFigure = ({ past }: Pick<CostFiguresProps, 'past'>) => {
  const days: readonly DayCost[] = past.map(({ start = '', cost }) => ({ day: start, cost }))
  const forecast = monthForecast(days, new Date(now.value).toISOString().slice(0, 10), (now.value % DAY) / DAY)
  return (
    <Figure
      label={usageWords.forecast}
      value={forecast ? money(forecast.total) : <Unknown why={usageWords.noForecast} />}
      {...(forecast && { unit: usageWords.by(date(Date.parse(forecast.end))) })}
    >
      <p class="dim small">
        {forecast
          ? `${usageWords.range(money(forecast.low), money(forecast.high))}, ${usageWords.forecastBasis(forecast.days)}`
          : usageWords.noForecast}
      </p>
    </Figure>
  )
}

type LinesProps = { readonly lines: readonly UsageLine[]; readonly nameOf: (id: string) => string }
type CostChartProps = LinesProps & {
  readonly starts: readonly string[]
  readonly bucket: Bucket
  readonly groupName: string
}

const CostChart = ({ starts, lines, nameOf, bucket, groupName }: CostChartProps) => {
  const marks = useMarks()
  const bands = useBands()
  const { shown, other, hidden } = withOther(lines, SERIES)
  const all = [...shown.map((line) => ({ line, label: nameOf(line.id) }))]
  if (other) all.push({ line: other, label: usageWords.other(hidden) })
  const series = all.map(
    ({ line, label }, at): ChartSeries => ({
      id: `s${at}`,
      label,
      tone: line === other ? 'text-3' : (TONES[at % TONES.length] ?? 'text-3'),
      pattern: PATTERNS[at % PATTERNS.length] ?? 'plain',
      // Drawn only; printed amounts are exact.
      values: line.costs.map(Number),
    }),
  )
  const times = starts.map((start) => Date.parse(start))
  const totals = starts.map((_, at) => lines.reduce((sum, { costs }) => sum + Number(costs[at] ?? 0), 0))
  const format = (value: number) => money(value.toFixed(9))
  const most = totals.indexOf(Math.max(...totals))
  const at = times[most] ?? 0
  const summary =
    Math.max(...totals) > 0
      ? usageWords.summary(
          format(totals[most] ?? 0),
          bucket === 'day'
            ? usageWords.onDay(date(at))
            : usageWords.between((bucket === 'hour' ? moment : minute)(at), minute(at + BUCKETS[bucket])),
          format(totals.reduce((sum, one) => sum + one, 0)),
        )
      : usageWords.none
  return (
    <div class="panel">
      <Bars
        title={usageWords.chart(groupName, usageWords.buckets[bucket])}
        summary={summary}
        times={times}
        interval={BUCKETS[bucket]}
        series={series}
        format={format}
        marks={marks}
        bands={bands}
        areDays={bucket === 'day'}
        height={160}
      />
    </div>
  )
}

/** By the end users that requests name. It is read when it is opened, because no sums are kept of them. */
const EndUsers = () => {
  const isOpen = useSignal(false)
  const query = { ...rangeOf(), team: valuesOf(current.value, 'team'), key: valuesOf(current.value, 'key') }
  const found = useResource(isOpen.value ? `end users ${JSON.stringify(query)}` : null, () =>
    read<EndUserReport>('/usage/end-users', query),
  )
  const { value, problem } = found
  return (
    <details
      class="panel"
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open
      }}
    >
      <summary>{usageWords.endUsers.title}</summary>
      {problem && <Failed problem={problem} retry={found.reload} />}
      {!value && found.isLoading && <Loading />}
      {value?.data.length === 0 && <p class="dim">{usageWords.endUsers.none}</p>}
      {value && !value.is_complete && (
        <p class="dim small">{usageWords.endUsers.since(minute(Date.parse(value.from)))}</p>
      )}
      {value && value.data.length > 0 && (
        <table class="usage-table">
          <caption class="sr-only">{usageWords.endUsers.title}</caption>
          <thead>
            <tr>
              <th scope="col">{usageWords.endUsers.user}</th>
              <th scope="col">{usageWords.head.cost}</th>
              <th scope="col">{usageWords.requests}</th>
              <th scope="col">{usageWords.endUsers.failed}</th>
              <th scope="col">{usageWords.endUsers.tokens}</th>
            </tr>
          </thead>
          <tbody>
            {value.data.map(({ end_user, cost, requests, failed, input, output }) => (
              <tr key={end_user}>
                <th scope="row">
                  <a href={placePath(withParam(toPage(current.value, 'requests'), 'end_user', [end_user]))}>
                    <bdi>{end_user}</bdi>
                  </a>
                </th>
                <td data-label={usageWords.head.cost}>
                  <Amount text={cost} />
                </td>
                <td data-label={usageWords.requests}>{count(requests)}</td>
                <td data-label={usageWords.endUsers.failed}>{count(failed)}</td>
                <td data-label={usageWords.endUsers.tokens}>{[input, output].map(compact).join(' / ')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  )
}

/** Where the prices come from. */
const Prices = () => {
  const { value } = useResource('usage prices', async () => {
    const [{ catalogue }, { data, has_more }] = await Promise.all([
      read<{ readonly catalogue: string | null }>('/system'),
      read<Listed<{ readonly status: string }>>('/prices', { limit: 200 }),
    ])
    const active = data.filter(({ status }) => status === 'active').length
    return { catalogue, overrides: `${count(active)}${has_more ? '+' : ''}`, isOne: active === 1 }
  })
  if (!value) return null
  const { catalogue, overrides, isOne } = value
  return (
    <p class="dim small">
      {[
        ...(catalogue === null ? [] : [usageWords.catalogue(catalogue)]),
        overrides === '0' ? usageWords.noOverrides : usageWords.overrides(overrides, isOne),
      ].join(' · ')}
    </p>
  )
}

const Unpriced = ({ rows }: { readonly rows: readonly UsageRow[] }) => (
  <details class="panel">
    <summary>
      {usageWords.unpriced(
        rows.reduce((sum, row) => sum + row.unpriced, 0),
        rows.length,
      )}
    </summary>
    <ul aria-label={usageWords.unpricedList}>
      {rows.map(({ provider, model, unpriced }) => (
        <li key={`${provider}/${model}`}>
          <span class="mono">
            {provider}/{model}
          </span>{' '}
          · {count(unpriced)}
        </li>
      ))}
    </ul>
  </details>
)
