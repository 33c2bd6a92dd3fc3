/** Six figures, two charts, providers, what needs attention, what is under way, and what has changed. */
import type { ComponentChildren } from 'preact'
import type { ListedGateway } from '../../../src/core/fleet.ts'
import type { SeenClient } from '../../../src/observe/clients-seen.ts'
import type { Summary } from '../../../src/usage/reading/queries.ts'
import { placePath, toPage, withParam } from '../address.ts'
import { type ApiList, type ApiProblem, hasRole, type Resource, read, readAll, useResource } from '../api.ts'
import { type Attention, attentionOf, isForAll, type ListedBudget, type SystemProblem } from '../attention.ts'
import { changeTitle, isMarked, isProbe } from '../change-text.ts'
import { useFirstRun } from '../first-run-facts.ts'
import { count, duration, money, percent } from '../format.ts'
import { bandsOf, type ChartBand, type ListedIncident, useIncidents } from '../incidents.ts'
import { everyUnlessHeld, useReloadOn } from '../live.ts'
import type { ChartMark } from '../marks.ts'
import { notAnswered, outcomeSeries } from '../outcome-series.ts'
import { useEnds } from '../own-budgets.ts'
import { ChangeLine } from '../parts/change-line.tsx'
import { Bars, Lines } from '../parts/chart.tsx'
import { Figure, type FigureChange } from '../parts/figure.tsx'
import { GatewayList } from '../parts/gateway-list.tsx'
import { IncidentLines } from '../parts/incident-list.tsx'
import { late } from '../parts/late.tsx'
import { nextText, ProviderState, Strip } from '../parts/provider-parts.tsx'
import { rangeText } from '../parts/range.tsx'
import { RunningList } from '../parts/running-list.tsx'
import { Sparkline } from '../parts/sparkline.tsx'
import { Failed, Loading, PageHead, Unknown } from '../parts/states.tsx'
import { EVERY, type ProviderData, rangeKey, rangeQuery, useProviders, whyNoActivity } from '../provider-data.ts'
import type { ListedChange, ProviderRow } from '../provider-row.ts'
import { useRunning } from '../running.ts'
import { current, gatewayNow, now, pageHref } from '../store.ts'
import { DAY, type DayForecast, dayForecast, recentCost } from '../usage-figures.ts'
import { readReport } from '../usage-report.ts'
import { en } from '../words/en.ts'
import { overviewWords as w } from '../words/overview.ts'
import { providerWords } from '../words/providers.ts'
import { requests as requestWords } from '../words/requests.ts'
import { AttentionList } from './overview/attention-list.tsx'

/** ms between two reads of what changes slowly, and of hourly costs. */
const TIMES = { slow: 30_000, hours: 600_000 }
/** Lines of the lists. */
const MOST = { providers: 8, changes: 6, outages: 3 }
/** Those that are read. An outage has many changes by probes, which the list leaves out. */
const READ = { changes: 200, budgets: 1_000 }
type BudgetList = Awaited<ReturnType<typeof readAll<ListedBudget>>>

/** Few visits show the first steps, and the most spent are below the first screen. */
const FirstRun = late(() => import('../parts/first-run.tsx').then((module) => module.FirstRun))
const TopSpend = late(() => import('./overview/top-spend.tsx').then((module) => module.TopSpend))

// ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────────

type FigureName = 'p95_ms' | 'first_content_p95_ms' | 'overhead_p95_us'

const changeOf = (
  value: number | null,
  before: number | null | undefined,
  good: FigureChange['good'],
): FigureChange | null =>
  value === null || before === null || before === undefined || before === 0 ? null : { ratio: value / before - 1, good }

const requestsHref = (status: readonly string[] = []): string =>
  placePath(withParam(toPage(current.value, 'requests'), 'status', status))

/** Results of requests that the gateway failed to answer. */
const FAILED = ['failed', 'broke_off'] as const

const Course = ({
  summary,
  name,
  of,
}: {
  readonly summary: Summary
  readonly name: string
  readonly of: FigureName
}) => <Sparkline values={summary.series.map((point) => point[of])} text={w.figures.course(name)} />

type LatencyFigureProps = {
  readonly summary: Summary
  readonly name: string
  readonly of: FigureName
  readonly why: string
  /** Units of a millisecond. */
  readonly scale?: number
}

const LatencyFigure = ({ summary, name, of, why, scale = 1 }: LatencyFigureProps) => {
  const value = summary.figures[of]
  return (
    <Figure
      label={name}
      href={requestsHref()}
      value={value === null ? <Unknown why={why} /> : duration(value / scale)}
      change={changeOf(value, summary.before?.[of], 'down')}
    >
      <Course summary={summary} name={name} of={of} />
    </Figure>
  )
}

type CostToday = {
  readonly cost: string
  readonly budget: ListedBudget | undefined
  /** At the end of the day; null: too few days are known. */
  readonly forecast: DayForecast | null
}

const CostFigure = ({ summary, today }: { readonly summary: Summary; readonly today: CostToday | undefined }) => (
  <Figure
    label={w.figures.cost}
    href={pageHref('usage')}
    value={today ? money(today.cost) : <Unknown why={w.figures.noCost} />}
    {...(today?.budget && { unit: w.figures.ofBudget(money(today.budget.amount)) })}
  >
    <Sparkline
      kind="bars"
      values={summary.series.map(({ cost }) => Number(cost))}
      text={w.figures.course(w.figures.cost)}
    />
    {today?.forecast != null && (
      <p class="dim small">
        {w.figures.byMidnight(
          money(today.forecast.total),
          today.forecast.basis === 'present' ? w.figures.bases.present : w.figures.bases.days(today.forecast.days),
        )}
      </p>
    )}
  </Figure>
)

const Figures = ({ summary, today }: { readonly summary: Summary; readonly today: CostToday | undefined }) => {
  const { figures, before, series } = summary
  const share = figures.answered_share
  return (
    <div class="figures overview-figures">
      <Figure
        label={w.figures.requests}
        href={requestsHref()}
        value={
          figures.per_minute < 10
            ? figures.per_minute.toLocaleString(undefined, { maximumFractionDigits: 1 })
            : count(figures.per_minute)
        }
        unit={w.figures.perMinute}
        change={changeOf(figures.per_minute, before?.per_minute, 'neither')}
      >
        <Sparkline
          kind="bars"
          values={series.map(({ requests }) => requests)}
          text={w.figures.inRange(figures.requests)}
        />
      </Figure>
      <Figure
        label={w.figures.answered}
        href={requestsHref([...FAILED, 'unknown'])}
        value={share === null ? <Unknown why={w.figures.noRequests} /> : percent(share)}
        change={
          share === null || before?.answered_share == null ? null : { ratio: share - before.answered_share, good: 'up' }
        }
      >
        <Sparkline
          values={series.map(({ answered_share }) => answered_share)}
          text={w.figures.course(w.figures.answered)}
        />
      </Figure>
      <LatencyFigure summary={summary} name={w.figures.total} of="p95_ms" why={w.figures.noRequests} />
      <LatencyFigure summary={summary} name={w.figures.first} of="first_content_p95_ms" why={w.figures.noFirst} />
      <LatencyFigure
        summary={summary}
        name={w.figures.ours}
        of="overhead_p95_us"
        why={w.figures.noRequests}
        scale={1_000}
      />
      <CostFigure summary={summary} today={today} />
    </div>
  )
}

// ── Charts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

type TimedProps = {
  readonly summary: Summary
  readonly marks: readonly ChartMark[]
  readonly bands: readonly ChartBand[]
}

/** Links to the requests of each outcome. */
const OutcomeLinks = ({ summary }: { readonly summary: Summary }) => {
  const { outcomes } = summary.figures
  const { failed, refused, left, unknown } = notAnswered(outcomes)
  const links = [
    ['failed', failed, 'failed', FAILED],
    ['refused', refused, 'refused', ['refused']],
    ['client_left', left, 'left', ['client_left']],
    ['unknown', unknown, 'series-2', ['unknown']],
    ['fell_back', outcomes.fell_back ?? 0, 'accent', ['fell_back']],
    ['cached', outcomes.cached ?? 0, 'accent', ['cached']],
  ] as const
  return (
    <p class="overview-outcomes small">
      {links
        .filter(([, n]) => n > 0)
        .map(([name, n, tone, status]) => (
          <a key={name} class={`tone-${tone}`} href={requestsHref(status)}>
            {w.showOutcome(count(n), requestWords.results[name])}
          </a>
        ))}
    </p>
  )
}

const OutcomesChart = ({ summary, marks, bands }: TimedProps) => {
  const all = outcomeSeries(summary.series.map(({ outcomes }) => outcomes))
  const series = all.filter(({ values }, at) => at === 0 || values.some((value) => (value ?? 0) > 0))
  const { requests, outcomes } = summary.figures
  return (
    <section class="panel">
      <Bars
        title={w.outcomes}
        summary={
          requests === 0
            ? w.figures.noRequests
            : requestWords.histogramSummary(requestWords.count(requests), notAnswered(outcomes))
        }
        times={summary.series.map(({ start }) => Date.parse(start))}
        interval={summary.seconds * 1_000}
        series={series}
        format={count}
        marks={marks}
        bands={bands}
        height={104}
      />
      <OutcomeLinks summary={summary} />
    </section>
  )
}

const latencySummary = (values: readonly (number | null)[]): string => {
  const known = values.filter((value) => value !== null)
  const [first] = known
  const last = known.at(-1)
  if (first === undefined || last === undefined) return w.latencyNone
  return Math.abs(last / Math.max(first, 1) - 1) < 0.1
    ? w.latencySteady(duration(last))
    : w.latencySummary(duration(first), duration(last))
}

const LatencyChart = ({ summary, marks, bands }: TimedProps) => {
  const { series } = summary
  const p95 = series.map(({ p95_ms }) => p95_ms)
  return (
    <section class="panel">
      <Lines
        title={w.latency}
        summary={latencySummary(p95)}
        times={series.map(({ start }) => Date.parse(start))}
        interval={summary.seconds * 1_000}
        series={[
          { id: 'p50', label: w.p50, tone: 'series-3', pattern: 'plain', values: series.map(({ p50_ms }) => p50_ms) },
          { id: 'p95', label: w.p95, tone: 'series-1', pattern: 'lines', values: p95 },
          {
            id: 'first',
            label: w.first,
            tone: 'series-2',
            pattern: 'dots',
            values: series.map(({ first_content_p95_ms }) => first_content_p95_ms),
          },
        ]}
        format={duration}
        marks={marks}
        bands={bands}
        height={104}
      />
    </section>
  )
}

// ── Lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────

type PanelProps = { readonly title: string; readonly children: ComponentChildren; readonly aside?: ComponentChildren }

const Panel = ({ title, children, aside }: PanelProps) => (
  <section class="panel" aria-label={title}>
    <div class="overview-panel-head">
      <h2>{title}</h2>
      {aside}
    </div>
    {children}
  </section>
)

/** A list that could not be read, in the place of its lines. */
const NotRead = ({ problem }: { readonly problem: ApiProblem }) => (
  <p class={problem.status === 403 ? 'dim' : 'bad'}>{problem.message}</p>
)

const ProviderLine = ({ row, data }: { readonly row: ProviderRow; readonly data: ProviderData }) => {
  const { id, activity } = row
  const share = activity && activity.attempts > 0 ? 1 - (activity.failed + activity.limited) / activity.attempts : null
  return (
    <li class="overview-provider">
      <a class="provider-name" href={pageHref('providers', id)}>
        {id}
      </a>
      <ProviderState row={row} />
      <span class="num end">{share === null ? <Unknown why={whyNoActivity(data)} /> : percent(share)}</span>
      <span class="num end overview-p95">
        {activity?.p95_ms == null ? <Unknown why={whyNoActivity(data)} /> : duration(activity.p95_ms)}
      </span>
      <Strip cells={data.strip(id)} />
      {row.state !== 'closed' && nextText(row) !== '' && <span class="overview-next small dim">{nextText(row)}</span>}
    </li>
  )
}

const Providers = ({ data }: { readonly data: ProviderData }) => {
  const { rows, problem } = data
  return (
    <Panel title={w.providers} aside={<a href={pageHref('providers')}>{w.allProviders}</a>}>
      {!rows ? (
        problem ? (
          <NotRead problem={problem} />
        ) : (
          <Loading rows={3} />
        )
      ) : (
        <ul class="overview-providers">
          <li class="overview-provider overview-heads">
            <span>{providerWords.name}</span>
            <span>{providerWords.state}</span>
            <span class="end">{w.answered}</span>
            <span class="end overview-p95">{providerWords.p95}</span>
            <span class="strip-head">{rangeText()}</span>
          </li>
          {rows.slice(0, MOST.providers).map((row) => (
            <ProviderLine key={row.id} row={row} data={data} />
          ))}
        </ul>
      )}
      {rows && rows.length > MOST.providers && (
        <a href={pageHref('providers')}>{w.moreProviders(rows.length - MOST.providers)}</a>
      )}
    </Panel>
  )
}

type SystemState = { readonly problems: readonly SystemProblem[]; readonly gateways?: readonly ListedGateway[] }

const problemsOf = ({ node, problems }: ListedGateway): readonly SystemProblem[] =>
  problems.map((component) => ({ component: w.gateways.problem(component, node), reason: '', since: null }))

type AttentionData = {
  /** Empty: this one shares no store. */
  readonly gateways: readonly ListedGateway[]
  readonly lines: readonly Attention[]
  readonly isRead: boolean
  readonly problems: readonly { readonly what: string; readonly problem: ApiProblem }[]
}

const useAttention = (data: ProviderData, budgets: Resource<BudgetList>): AttentionData => {
  const every = everyUnlessHeld(TIMES.slow)
  const isWhole = hasRole('viewer', 'all')
  const clients = useResource(isWhole ? 'clients' : null, () => read<ApiList<SeenClient>>('/clients/seen'), { every })
  const system = useResource('system', () => read<SystemState>('/system'), { every })
  const gateways = system.value?.gateways ?? []
  const listed = budgets.value?.data ?? []
  const ends = useEnds('budget')
  const lines = attentionOf({
    rows: data.rows ?? [],
    budgets: listed,
    ends,
    names: budgets.value?.names ?? {},
    clients: clients.value?.data ?? [],
    problems: [...(system.value?.problems ?? []), ...gateways.slice(1).flatMap(problemsOf)],
    now: now.value,
  })
  const problems = [
    { what: w.budgets, problem: budgets.problem },
    { what: w.clients, problem: clients.problem },
  ].flatMap(({ what, problem }) =>
    problem && problem.status !== 0 && problem.status !== 403 ? [{ what, problem }] : [],
  )
  return { lines, isRead: data.rows !== undefined && budgets.value !== undefined, problems, gateways }
}

const AttentionPanel = ({ lines, isRead, problems }: AttentionData) => (
  <Panel title={lines.length === 0 ? w.attention : `${w.attention} (${count(lines.length)})`}>
    {lines.length === 0 && problems.length === 0 && (isRead ? <p class="dim">{w.nothing}</p> : <Loading rows={2} />)}
    <AttentionList lines={lines} />
    {problems.map(({ what, problem }) => (
      <p key={what} class="bad">
        {w.unreadable(what, problem.message)}
      </p>
    ))}
  </Panel>
)

/** One line if nothing is under way. */
const UnderWay = () => {
  const { running, total, problem } = useRunning()
  if (running?.length === 0) return <p class="dim small overview-idle">{requestWords.running.none}</p>
  return (
    <Panel title={requestWords.running.title(total)}>
      {!running && (problem ? <NotRead problem={problem} /> : <Loading rows={1} />)}
      {running && <RunningList running={running} total={total} />}
    </Panel>
  )
}

const Changes = () => {
  const { value, problem, reload } = useResource(
    'changes',
    () => read<ApiList<ListedChange>>('/changes', { limit: READ.changes }),
    { every: everyUnlessHeld(EVERY) },
  )
  useReloadOn(['circuits', 'keys'], reload, 1_000)
  const shown = (value?.data ?? []).filter((change) => !isProbe(change)).slice(0, MOST.changes)
  return (
    <Panel title={w.changes}>
      {!value ? (
        problem ? (
          <NotRead problem={problem} />
        ) : (
          <Loading rows={3} />
        )
      ) : shown.length === 0 ? (
        <p class="dim">{w.noChanges}</p>
      ) : (
        <ul class="change-list">
          {shown.map((change) => (
            <ChangeLine key={change.id} change={change} isLong />
          ))}
        </ul>
      )}
    </Panel>
  )
}

// ── Page ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The start of the day in the time zone of the browser, in ms since 1970. */
const midnight = (): number => new Date(gatewayNow()).setHours(0, 0, 0, 0)

/** Days before today of which the forecast takes the cost of the rest of the day. */
const FORECAST_DAYS = 7

/** What today costs, and the only budget of a day for all requests, if there is one. */
const useToday = (budgets: Resource<BudgetList>): CostToday | undefined => {
  const start = midnight()
  const found = useResource(
    `today ${start}`,
    () => read<Summary>('/summary', { from: new Date(start).toISOString(), shared: true }),
    {
      every: everyUnlessHeld(TIMES.slow),
    },
  )
  const hours = useResource(
    `hours ${start}`,
    () =>
      readReport({
        from: new Date(start - FORECAST_DAYS * DAY).toISOString(),
        to: new Date(start).toISOString(),
        bucket: 'hour',
        limit: 24 * FORECAST_DAYS,
      }),
    { every: everyUnlessHeld(TIMES.hours) },
  )
  const daily = (budgets.value?.data ?? []).filter(
    (budget) => budget.period === 'day' && budget.now.remaining !== null && isForAll(budget),
  )
  return (
    found.value && {
      cost: found.value.figures.cost,
      budget: daily.length === 1 ? daily[0] : undefined,
      forecast: dayForecast(hours.value?.data ?? [], found.value.figures.cost, {
        now: now.value,
        midnight: start,
        recent: recentCost(found.value.series, now.value),
      }),
    }
  )
}

type ListsProps = {
  readonly data: ProviderData
  readonly attention: AttentionData
  readonly incidents: readonly ListedIncident[]
}

/** What needs attention beside the providers, then the most spent, then what is under way and what has changed. */
const Lists = ({ data, attention, incidents }: ListsProps) => (
  <>
    <div class="overview-lists">
      <div class="stack overview-column">
        <AttentionPanel {...attention} />
        {incidents.length > 0 && (
          <Panel title={w.outages} aside={<a href={pageHref('providers')}>{w.allProviders}</a>}>
            <IncidentLines incidents={incidents.slice(0, MOST.outages)} isOfAll />
          </Panel>
        )}
      </div>
      <div class="stack overview-column">
        <Providers data={data} />
        {attention.gateways.length > 1 && (
          <Panel title={w.gateways.title}>
            <GatewayList gateways={attention.gateways} />
          </Panel>
        )}
      </div>
    </div>
    <TopSpend />
    <UnderWay />
    <Changes />
  </>
)

const Content = () => {
  const every = everyUnlessHeld(EVERY)
  const summary = useResource(
    rangeKey(),
    () => read<Summary>('/summary', { ...rangeQuery(), compare: true, shared: true }),
    {
      every,
    },
  )
  const budgets = useResource('budgets', () => readAll<ListedBudget>('/budgets', { sort: 'name' }, READ.budgets), {
    every: everyUnlessHeld(TIMES.slow),
  })
  useReloadOn(['budgets'], budgets.reload, 5_000)
  useReloadOn(['requests'], summary.reload, 5_000)
  const data = useProviders()
  const today = useToday(budgets)
  const attention = useAttention(data, budgets)
  const incidents = useIncidents(null)
  const bands = bandsOf(incidents ?? [], now.value)
  const marks = data.changes
    .filter(isMarked)
    .map((change) => ({ at: Date.parse(change.at), text: changeTitle(change) }))
  const { value, problem } = summary
  return (
    <div class="stack">
      {problem && problem.status !== 0 && <Failed problem={problem} retry={summary.reload} shownSince={summary.at} />}
      {value ? (
        <>
          <Figures summary={value} today={today} />
          <div class="overview-lists">
            <OutcomesChart summary={value} marks={marks} bands={bands} />
            <LatencyChart summary={value} marks={marks} bands={bands} />
          </div>
        </>
      ) : (
        !problem && <Loading rows={8} />
      )}
      {(value || problem) && <Lists data={data} attention={attention} incidents={incidents ?? []} />}
    </div>
  )
}

export const Page = () => {
  const first = useFirstRun()
  return (
    <>
      <PageHead title={en.pages.overview}>
        <p class="printed">{rangeText()}</p>
      </PageHead>
      {first?.isFirst ? <FirstRun facts={first} /> : <Content />}
    </>
  )
}
