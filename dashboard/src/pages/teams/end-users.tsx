/** The end users that requests name: what each costs, when it was seen last, and whether it is blocked. */

import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { BLOCKED_END_USERS } from '../../../../src/server/answers/end-users.ts'
import type { EndUserReport } from '../../../../src/usage/reading/queries.ts'
import { placePath, valuesOf, withParam } from '../../address.ts'
import { hasRole, offlineSince, read, useResource } from '../../api.ts'
import { compact, count, moment, nanoOf } from '../../format.ts'
import { findTeams, useOwnerNames } from '../../owner-names.ts'
import { changeUserBlocked } from '../../parts/changing.tsx'
import { Filters } from '../../parts/filters.tsx'
import { Middle } from '../../parts/middle.tsx'
import { Amount, Empty, Failed, Loading, Time } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { current, go, isNarrow } from '../../store.ts'
import { teamsWords } from '../../words/teams.ts'
import { usageWords } from '../../words/usage.ts'
import { withRange } from './cells.tsx'
import { rangeName, rangeQuery } from './data.ts'

const { endUsers: words, head } = teamsWords

const MOST = 1_000
const EVERY = 30_000
const USUAL_SORT = '-cost'

type Use = EndUserReport['data'][number]
type Block = Shown<typeof BLOCKED_END_USERS>['data'][number]
/** An end user with use in the range, or one that is blocked. */
type Row = { readonly name: string; readonly use: Use | null; readonly blocks: readonly Block[] }

const VALUES: { readonly [by: string]: (row: Row) => number | string | bigint } = {
  name: ({ name }) => name,
  cost: ({ use }) => nanoOf(use?.cost ?? '0'),
  requests: ({ use }) => use?.requests ?? 0,
  failed: ({ use }) => use?.failed ?? 0,
  last: ({ use }) => use?.last_at ?? '',
  state: ({ blocks }) => blocks.length,
}

const rowsOf = (uses: readonly Use[], blocked: readonly Block[]): readonly Row[] => {
  const byName = Map.groupBy(blocked, ({ end_user }) => end_user)
  const used = new Set(uses.map(({ end_user }) => end_user))
  return [
    ...uses.map((use) => ({ name: use.end_user, use, blocks: byName.get(use.end_user) ?? [] })),
    ...[...byName].flatMap(([name, blocks]) => (used.has(name) ? [] : [{ name, use: null, blocks }])),
  ]
}

/** The rows that the address asks for, in its order. */
const shownRows = (rows: readonly Row[], sort: string): readonly Row[] => {
  const q = (valuesOf(current.value, 'q')[0] ?? '').toLowerCase()
  const value = VALUES[sort.replace(/^-/, '')] ?? (({ name }: Row) => name)
  const sign = sort.startsWith('-') ? -1 : 1
  return rows
    .filter(({ name }) => name.toLowerCase().includes(q))
    .toSorted((a, b) => {
      const [one, other] = [value(a), value(b)]
      return one === other ? (a.name < b.name ? -1 : 1) : one < other ? -sign : sign
    })
}

const useEndUsers = () => {
  const team = valuesOf(current.value, 'team')
  const isForAll = hasRole('viewer', 'all')
  const report = useResource(
    `end users ${rangeName()} ${team}`,
    () => read<EndUserReport>('/usage/end-users', { ...rangeQuery(), team, limit: MOST }),
    { every: EVERY },
  )
  const blocked = useResource(
    isForAll ? 'blocked end users' : null,
    () => read<Shown<typeof BLOCKED_END_USERS>>('/end-users/blocked'),
    { every: EVERY },
  )
  return { report, blocked }
}

export const EndUsers = () => {
  const { report, blocked } = useEndUsers()
  const [sort = USUAL_SORT] = valuesOf(current.value, 'sort')
  const names = useOwnerNames({ keys: [], teams: valuesOf(current.value, 'team') })
  const { value } = report
  const all = rowsOf(value?.data ?? [], blocked.value?.data ?? [])
  const rows = shownRows(all, sort)
  const filters = [
    { name: 'team', label: head.name, options: [], find: findTeams, show: (id: string) => names[id] ?? id },
  ]
  return (
    <>
      <p class="dim">{words.about}</p>
      <Filters filters={filters} search={{ name: 'q', placeholder: words.search }} others={['show', 'sort']} />
      {report.problem && <Failed problem={report.problem} retry={report.reload} shownSince={report.at} />}
      {blocked.problem && <Failed problem={blocked.problem} retry={blocked.reload} />}
      {!value && report.isLoading && <Loading />}
      {value && !value.is_complete && <p class="dim small">{words.since(moment(Date.parse(value.from)))}</p>}
      {value?.has_more && <p class="dim small">{words.only(value.data.length)}</p>}
      {value && rows.length === 0 && <Empty title={all.length === 0 ? words.off : teamsWords.empty} />}
      {rows.length > 0 && (
        <div class="table-frame">
          <Table
            label={words.label}
            name="end-users"
            columns={columnsOf(blocked.reload)}
            rows={rows}
            keyOf={({ name }) => name}
            card={(row) => <Card row={row} reload={blocked.reload} />}
            heights={{ comfortable: 48, compact: 36, card: isNarrow.value ? 116 : 88 }}
            open={({ name }) => go(requestsOf(name))}
            sort={{
              by: sort,
              change: (by) => go(withParam(current.value, 'sort', by === USUAL_SORT ? [] : [by])),
            }}
          />
        </div>
      )}
    </>
  )
}

const requestsOf = (name: string) => withParam(withRange('requests'), 'end_user', [name])

const columnsOf = (reload: () => void): readonly Column<Row>[] => [
  { id: 'name', head: words.name, sort: 'name', text: ({ name }) => name, cell: (row) => <Name row={row} /> },
  {
    id: 'cost',
    head: head.spend,
    sort: 'cost',
    width: '8rem',
    align: 'end',
    cell: ({ use }) => (use ? <Amount text={use.cost} /> : '–'),
  },
  {
    id: 'requests',
    head: head.requests,
    sort: 'requests',
    width: '6rem',
    align: 'end',
    cell: ({ use }) => count(use?.requests ?? 0),
  },
  {
    id: 'failed',
    drop: 1,
    head: words.failed,
    sort: 'failed',
    width: '7rem',
    align: 'end',
    cell: ({ use }) => count(use?.failed ?? 0),
  },
  {
    id: 'tokens',
    drop: 2,
    head: words.tokens,
    width: '9rem',
    align: 'end',
    cell: ({ use }) => (use ? [use.input, use.output].map(compact).join(' / ') : '–'),
  },
  {
    id: 'last',
    head: words.last,
    sort: 'last',
    width: '9rem',
    text: ({ use }) => (use ? moment(Date.parse(use.last_at)) : words.never),
    cell: ({ use }) => <Last use={use} />,
  },
  { id: 'state', head: head.state, sort: 'state', width: '11rem', cell: (row) => <State row={row} /> },
  { id: 'actions', head: head.actions, width: '6.5rem', cell: (row) => <BlockButton row={row} reload={reload} /> },
]

type EndUserRowProps = { readonly row: Row }

const Name = ({ row: { name } }: EndUserRowProps) => (
  <a href={placePath(requestsOf(name))}>
    <Middle text={name} />
  </a>
)

const Last = ({ use }: { readonly use: Use | null }) =>
  use ? <Time at={use.last_at}>{moment(Date.parse(use.last_at))}</Time> : <span class="dim">{words.never}</span>

const State = ({ row: { blocks } }: EndUserRowProps) => {
  const [first] = blocks
  if (!first) return <span class="dim">{words.active}</span>
  const until = first.until === null ? null : moment(Date.parse(first.until))
  return (
    <span class="warn" title={first.reason === '' ? undefined : first.reason}>
      <span aria-hidden="true">◌</span> {words.blocked(first.team ? (first.team.name ?? first.team.id) : null, until)}
    </span>
  )
}

/** Blocks in all teams, or takes the newest block back. */
const BlockButton = ({ row: { name, blocks }, reload }: EndUserRowProps & { readonly reload: () => void }) => {
  if (!hasRole('operator', 'all')) return null
  const [first] = blocks
  const action = teamsWords.actions[first ? 'unblock' : 'block']
  return (
    <button
      type="button"
      class="button small"
      aria-label={`${action}: ${name}`}
      disabled={offlineSince.value !== null}
      onClick={() => void changeUserBlocked({ name, team: first?.team?.id ?? null }, !first, reload)}
    >
      {action}
    </button>
  )
}

const Card = ({ row, reload }: EndUserRowProps & { readonly reload: () => void }) => (
  <div class="keys-card">
    <div class="card-title">
      <Name row={row} />
      <BlockButton row={row} reload={reload} />
    </div>
    <p class="teams-figures">
      {row.use && <Amount text={row.use.cost} />}
      <span>
        {usageWords.requests}: {count(row.use?.requests ?? 0)}
      </span>
      <State row={row} />
    </p>
    <p class="dim small">
      {words.last}: <Last use={row.use} />
    </p>
  </div>
)
