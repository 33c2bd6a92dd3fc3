/** One team: its figures, its cost by day, who and what spends it, its budgets, limits and routes, and what failed last. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { placePath } from '../../address.ts'
import { hasRole, offlineSince, read, useResource } from '../../api.ts'
import { count, date, money, percent } from '../../format.ts'
import { ConflictDialog, changeBlocked } from '../../parts/changing.tsx'
import { Bars } from '../../parts/chart.tsx'
import { Figure } from '../../parts/figure.tsx'
import { rangeText } from '../../parts/range.tsx'
import { Copy, Failed, Loading, PageHead, Unknown } from '../../parts/states.tsx'
import { current, currentRange } from '../../store.ts'
import { failingShare, type ListedTeam, refusedShare } from '../../team-rows.ts'
import { DAY, type UsageTotals, usageLines, withEveryStart } from '../../usage-figures.ts'
import { readReport } from '../../usage-report.ts'
import { teamsWords as words } from '../../words/teams.ts'
import { usageWords } from '../../words/usage.ts'
import { actionsOf, Cost, ofTeam, TeamState } from './cells.tsx'
import { beforeQuery, rangeName, rangeQuery } from './data.ts'
import { LimitsDialog } from './limits-dialog.tsx'
import { Recent, Routes, Rules, TeamBudgets } from './rules.tsx'
import { Tops } from './tops.tsx'

type ShownTeam = Omit<ListedTeam, 'keys'>

const EVERY = 30_000

export const TeamPage = ({ id }: { readonly id: string }) => {
  const team = useResource(`team ${id}`, () => read<ShownTeam>(`/teams/${id}`), { every: EVERY })
  useEffect(() => window.scrollTo(0, 0), [])
  return (
    <div class="stack teams">
      <p>
        <a href={placePath({ ...current.value, id: null })}>← {words.back}</a>
      </p>
      <PageHead title={team.value?.name ?? id}>
        {team.value && <Actions team={team.value} reload={team.reload} />}
      </PageHead>
      {team.problem && <Failed problem={team.problem} retry={team.reload} />}
      {!team.value && team.isLoading && <Loading />}
      {team.value && (
        <>
          <Facts team={team.value} />
          <Use id={id} />
          <Tops id={id} />
          <div class="teams-panels">
            <TeamBudgets id={id} />
            <Rules team={team.value} />
            <Routes id={id} />
            <Recent id={id} />
          </div>
        </>
      )}
      <ConflictDialog />
    </div>
  )
}

const Facts = ({ team }: { readonly team: ShownTeam }) => (
  <p class="row">
    <TeamState status={team.status} />
    <span class="mono small">{team.id}</span> <Copy text={team.id} />
    {team.managed === 'file' && <span class="dim">{words.inFile}</span>}
    {!hasRole('operator', 'all') && <span class="dim">{words.readOnly}</span>}
  </p>
)

const Actions = ({ team, reload }: { readonly team: ShownTeam; readonly reload: () => void }) => {
  const isEdited = useSignal(false)
  const isOffline = offlineSince.value !== null
  return (
    <div class="row">
      {(['requests', 'usage', 'keys'] as const).map((page) => (
        <a key={page} class="button quiet" href={ofTeam(page, team.id)}>
          {words.actions[page]}
        </a>
      ))}
      {actionsOf(team).map((action) => (
        <button
          key={action}
          type="button"
          class={action === 'block' ? 'button danger' : 'button'}
          disabled={isOffline}
          onClick={() => {
            if (action === 'limits') isEdited.value = true
            else void changeBlocked({ path: `/teams/${team.id}`, name: team.name }, action === 'block', reload)
          }}
        >
          {words.actions[action]}
        </button>
      ))}
      {isEdited.value && <LimitsDialog team={team} close={() => (isEdited.value = false)} reload={reload} />}
    </div>
  )
}

/** Figures and cost by day of the range. */
const Use = ({ id }: { readonly id: string }) => {
  const query = { team: [id], by: ['model'], limit: 10_000 }
  const report = useResource(
    `team use ${id} ${rangeName()}`,
    () => readReport({ ...rangeQuery(), ...query, bucket: 'day' }),
    { every: EVERY },
  )
  const total = useResource(
    `team total ${id} ${rangeName()}`,
    () => readReport({ ...rangeQuery(), team: [id], by: [], bucket: 'none' }),
    { every: EVERY },
  )
  const before = useResource(`team before ${id} ${rangeName()}`, () =>
    readReport({ ...beforeQuery(), team: [id], by: [], bucket: 'none' }),
  )
  if (total.problem) return <Failed problem={total.problem} retry={total.reload} shownSince={total.at} />
  if (!total.value) return <Loading rows={3} />
  return (
    <>
      <Figures id={id} totals={total.value.total} before={before.value?.total.cost ?? null} />
      {report.value && <CostByDay rows={report.value.data} />}
    </>
  )
}

type TeamFiguresProps = { readonly id: string; readonly totals: UsageTotals; readonly before: string | null }

const Figures = ({ id, totals, before }: TeamFiguresProps) => {
  const shares = [
    {
      label: words.head.failing,
      about: words.failingAbout,
      share: failingShare(totals),
      result: ['failed', 'broke_off'],
    },
    { label: words.head.refused, about: words.refusedAbout, share: refusedShare(totals), result: ['refused'] },
  ]
  const why = totals.requests === 0 ? words.noRequests : words.notCounted
  return (
    <div class="figures">
      <Figure label={`${usageWords.total}, ${rangeText()}`} value={<Cost totals={totals} before={before} />}>
        <p class="dim small">{before !== null && words.before(money(before))}</p>
      </Figure>
      <Figure label={words.head.requests} value={count(totals.requests)} href={ofTeam('requests', id)} />
      {shares.map(({ label, about, share, result }) => (
        <Figure
          key={label}
          label={label}
          value={share === null ? <Unknown why={why} /> : percent(share)}
          href={ofTeam('requests', id, { result })}
        >
          <p class="dim small">{about}</p>
        </Figure>
      ))}
      <Figure label={usageWords.saved} value={money(totals.saved)} />
      <Figure label={usageWords.lost} value={money(totals.lost)} />
    </div>
  )
}

const CostByDay = ({ rows }: { readonly rows: Parameters<typeof usageLines>[0] }) => {
  const { starts, lines } = withEveryStart(usageLines(rows, 'model'), DAY, currentRange())
  const costs = starts.map((_, at) => lines.reduce((sum, line) => sum + Number(line.costs[at] ?? 0), 0))
  const format = (value: number) => money(value.toFixed(9))
  const most = Math.max(0, ...costs)
  const times = starts.map((start) => Date.parse(start))
  const summary =
    most > 0
      ? words.summary(
          format(costs.reduce((sum, one) => sum + one, 0)),
          format(most),
          date(times[costs.indexOf(most)] ?? 0),
        )
      : words.noCost
  return (
    <div class="panel">
      <Bars
        title={words.chart}
        summary={summary}
        times={times}
        interval={DAY}
        series={[{ id: 'cost', label: usageWords.total, tone: 'series-1', pattern: 'plain', values: costs }]}
        format={format}
        areDays
        height={140}
      />
    </div>
  )
}
