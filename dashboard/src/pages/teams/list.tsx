/** All teams in a table. */
import { useSignal } from '@preact/signals'
import { placePath, valuesOf, withParam } from '../../address.ts'
import { hasRole, session } from '../../api.ts'
import { count, money } from '../../format.ts'
import { ConflictDialog, changeBlocked } from '../../parts/changing.tsx'
import { Filters } from '../../parts/filters.tsx'
import { limitsText } from '../../parts/key-cells.tsx'
import { Middle } from '../../parts/middle.tsx'
import { OfflineNote, RowMenu } from '../../parts/row-menu.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { current, go, goToDetails, isNarrow } from '../../store.ts'
import { type ListedTeam, sortedTeams, type TeamRow, teamRows } from '../../team-rows.ts'
import { en } from '../../words/en.ts'
import { teamsWords as words } from '../../words/teams.ts'
import { actionsOf, BudgetBar, Cost, Ends, Failing, ofTeam, Refused, type TeamAction, TeamState } from './cells.tsx'
import { sourcesOf, TREND, useTeams } from './data.ts'
import { LimitsDialog } from './limits-dialog.tsx'

const { head } = words

const USUAL_SORT = '-spend'
const STATES = ['active', 'blocked', 'deleted'] as const

type TeamRun = (action: TeamAction, team: ListedTeam) => void

/** The rows that the address asks for. */
const shownRows = (rows: readonly TeamRow[]): readonly TeamRow[] => {
  const [q = '', [sort = USUAL_SORT]] = [
    valuesOf(current.value, 'q')[0]?.toLowerCase(),
    valuesOf(current.value, 'sort'),
  ]
  const [states, teams] = [valuesOf(current.value, 'state'), valuesOf(current.value, 'team')]
  const found = rows.filter(
    ({ id, name, team }) =>
      (q === '' || name.toLowerCase().includes(q) || id === q) &&
      (teams.length === 0 || teams.includes(id)) &&
      (states.length === 0 || states.includes(team?.status ?? 'deleted')),
  )
  return sortedTeams(found, sort)
}

/** `left`: the team whose page was shown before. */
export const TeamList = ({ left }: { readonly left: string | null }) => {
  const data = useTeams()
  const edited = useSignal<ListedTeam | null>(null)
  const sources = sourcesOf(data, words.none)
  const all = sources ? teamRows(sources) : []
  const rows = shownRows(all)
  const run: TeamRun = (action, team) => {
    if (action === 'limits') edited.value = team
    else void changeBlocked({ path: `/teams/${team.id}`, name: team.name }, action === 'block', data.reload)
  }
  const problem = data.teams.problem ?? data.report.problem
  const filters = [
    {
      name: 'team',
      label: words.head.name,
      options: all.filter(({ id }) => id !== '').map(({ id, name }) => ({ value: id, label: name })),
    },
    {
      name: 'state',
      label: words.filters.state,
      options: STATES.map((value) => ({ value, label: words.states[value] })),
    },
  ]
  return (
    <>
      {session.value && !hasRole('operator', 'all') && <p class="keys-note">{words.readOnly}</p>}
      <Filters filters={filters} search={{ name: 'q', placeholder: words.search }} others={['show', 'sort']} />
      {problem && <Failed problem={problem} retry={data.reload} shownSince={data.report.at} />}
      {!sources && !problem && <Loading />}
      {sources && rows.length === 0 && <NoTeam />}
      {rows.length > 0 && <TeamTable rows={rows} run={run} left={left} />}
      {data.teams.value?.hasMore && <p class="dim">{words.first(count(data.teams.value.data.length))}</p>}
      {edited.value && (
        <LimitsDialog team={edited.value} close={() => (edited.value = null)} reload={data.teams.reload} />
      )}
      <ConflictDialog />
    </>
  )
}

const NoTeam = () => (
  <Empty title={words.empty}>
    <button type="button" class="button" onClick={() => go({ ...current.value, params: {} })}>
      {en.states.clear}
    </button>
  </Empty>
)

type TeamTableProps = { readonly rows: readonly TeamRow[]; readonly run: TeamRun; readonly left: string | null }

const TeamTable = ({ rows, run, left }: TeamTableProps) => (
  <div class="table-frame">
    <Table
      label={words.list}
      name="teams"
      columns={columnsOf(run)}
      rows={rows}
      keyOf={({ id }) => id}
      card={(row) => <Card row={row} run={run} />}
      heights={{ comfortable: 48, compact: 36, card: isNarrow.value ? 144 : 96 }}
      cardsBelow="tight"
      open={({ id, team }) => team && goToDetails(id)}
      left={left}
      sort={{
        by: valuesOf(current.value, 'sort')[0] ?? USUAL_SORT,
        change: (by) => go(withParam(current.value, 'sort', by === USUAL_SORT ? [] : [by])),
      }}
    />
  </div>
)

const columnsOf = (run: TeamRun): readonly Column<TeamRow>[] => {
  return [
    { id: 'name', head: head.name, sort: 'name', text: ({ name }) => name, cell: (row) => <Name row={row} /> },
    { id: 'spend', head: head.spend, sort: 'spend', width: '8.75rem', align: 'end', cell: (row) => <Cost {...row} /> },
    {
      id: 'budget',
      head: head.budget,
      sort: 'budget',
      width: '14.25rem',
      cell: ({ budget }) => (budget ? <BudgetBar own={budget} /> : <span class="dim">–</span>),
    },
    {
      id: 'ends',
      head: head.ends,
      sort: 'ends',
      startsUp: true,
      width: '11.75rem',
      drop: 4,
      cell: Ends,
    },
    {
      id: 'requests',
      head: head.requests,
      sort: 'requests',
      width: '6rem',
      align: 'end',
      cell: ({ id, totals }) => <a href={ofTeam('requests', id)}>{count(totals?.requests ?? 0)}</a>,
    },
    { id: 'failing', head: head.failing, sort: 'failing', width: '5rem', align: 'end', cell: Failing },
    { id: 'refused', drop: 3, head: head.refused, sort: 'refused', width: '5.25rem', align: 'end', cell: Refused },
    {
      id: 'keys',
      drop: 2,
      head: head.keys,
      sort: 'keys',
      width: '4rem',
      align: 'end',
      cell: ({ id, team }) => (team ? <a href={ofTeam('keys', id)}>{count(team.keys)}</a> : '–'),
    },
    {
      id: 'limits',
      drop: 6,
      head: head.limits,
      width: '9.75rem',
      cell: ({ team }) => (team && limitsText(team)) ?? '–',
    },
    { id: 'trend', drop: 5, head: head.trend(TREND), width: '6.5rem', cell: (row) => <Trend row={row} /> },
    {
      id: 'state',
      head: head.state,
      sort: 'state',
      width: '5.5rem',
      cell: ({ id, team }) => <State id={id} team={team} />,
    },
    { id: 'actions', head: head.actions, width: '60px', align: 'end', cell: (row) => <Actions row={row} run={run} /> },
  ]
}

const Name = ({ row: { id, name, team } }: { readonly row: TeamRow }) =>
  team ? (
    <a href={placePath({ ...current.value, id })}>
      <Middle text={name} />
    </a>
  ) : (
    <span class="dim" title={id === '' ? words.noneAbout : id}>
      {name}
    </span>
  )

/** Requests without a team have no state. */
const State = ({ id, team }: Pick<TeamRow, 'id' | 'team'>) =>
  id === '' ? <span class="dim">–</span> : <TeamState status={team?.status ?? 'deleted'} />

const Trend = ({ row: { name, days } }: { readonly row: TeamRow }) => {
  const text = (at: number) => money((days.at(at) ?? 0).toFixed(9))
  return days.some((cost) => cost > 0) ? (
    <Sparkline kind="bars" values={days} text={words.trend(name, text(0), text(-1))} />
  ) : (
    <span class="dim">–</span>
  )
}

type TeamRowProps = { readonly row: TeamRow; readonly run: TeamRun }

const Actions = ({ row: { id, name, team }, run }: TeamRowProps) =>
  team && (
    <RowMenu
      id={id}
      name={name}
      actions={actionsOf(team)}
      textOf={(action) => words.actions[action]}
      run={(action) => run(action, team)}
    >
      <OfflineNote />
    </RowMenu>
  )

const Card = ({ row, run }: TeamRowProps) => {
  const { id, team, totals, budget, end } = row
  return (
    <div class="keys-card">
      <div class="card-title">
        <Name row={row} />
        <span class="row">
          <State id={id} team={team} />
          <Actions row={row} run={run} />
        </span>
      </div>
      <p class="teams-figures">
        <strong>
          <Cost {...row} />
        </strong>
        <a href={ofTeam('requests', id)}>
          {count(totals?.requests ?? 0)} {words.head.requests.toLowerCase()}
        </a>
        <span>
          <Failing totals={totals} /> {words.head.failing.toLowerCase()}
        </span>
        {end && <Ends end={end} />}
      </p>
      {budget && <BudgetBar own={budget} />}
    </div>
  )
}
