/** Client keys and budgets: a list of each, and what may be done with them. */

import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Shown } from '../../../src/records/entities/shown.ts'
import type { IDENTITIES } from '../../../src/server/answers/identities.ts'
import { placePath, valuesOf, withParam } from '../address.ts'
import { hasRole, offlineSince, read, readAll, session, useResource, write } from '../api.ts'
import { count, day, money } from '../format.ts'
import { type BudgetRecord, budgetsOf, fullCounts, type KeyRecord, keyHint, type TeamRecord } from '../key-records.ts'
import { BudgetsView, MOST_BUDGETS } from '../parts/budgets.tsx'
import { attempt, ConflictDialog } from '../parts/changing.tsx'
import { Filters } from '../parts/filters.tsx'
import { Identities, type IdentityList } from '../parts/identities.tsx'
import {
  accessText,
  actionsOf,
  BudgetCell,
  type KeyAction,
  type KeysData,
  limitsText,
  StateCell,
  teamName,
  Used,
} from '../parts/key-cells.tsx'
import {
  BulkRevokeDialog,
  CreateKeyDialog,
  changeMany,
  EditKeyDialog,
  type NewSecret,
  RevokeDialog,
  RotateDialog,
  setBlocked,
} from '../parts/key-dialogs.tsx'
import { KeySheet } from '../parts/key-sheet.tsx'
import { Middle } from '../parts/middle.tsx'
import { rangeText } from '../parts/range.tsx'
import { OfflineNote, RowMenu } from '../parts/row-menu.tsx'
import { SecretDialog } from '../parts/secret-dialog.tsx'
import { Amount, Empty, Failed, Loading, PageHead, Time, Unknown } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { current, currentRange, go, goToDetails, isNarrow, toast } from '../store.ts'
import { en } from '../words/en.ts'
import { identityWords } from '../words/identities.ts'
import { keysWords } from '../words/keys.ts'

/** Keys that are read first; twice as many when the end of the list is near. */
const FIRST_KEYS = 200
const MOST_TEAMS = 5_000
/** The share of a budget from which the page points at it. */
const NEAR = 0.8
const EVERY = 30_000
const USUAL_STATES = ['active', 'blocked', 'expired']
const STATES = ['active', 'blocked', 'expired', 'revoked'] as const
const ALL = 'default'

/** Which dialog is open, and for which key. */
type OpenDialog = { readonly what: 'create' | 'bulk' } | { readonly what: KeyAction; readonly record: KeyRecord }

type ConfigAccounts = { readonly accounts: readonly { readonly id: string; readonly origin: string }[] }

type KeyList = ReturnType<typeof useResource<Awaited<ReturnType<typeof readAll<KeyRecord>>>>> & {
  /** Reads more keys. */
  readonly more: () => void
}

/** The keys that match the filter, with what each spent in the range. The server sorts them. */
const useKeyList = (): KeyList => {
  const place = current.value
  // The search and the order of another tab are not those of the keys.
  const isShown = valuesOf(place, 'show').length === 0
  const states = valuesOf(place, 'state')
  const [q = '', sort = 'name'] = isShown ? [valuesOf(place, 'q')[0], valuesOf(place, 'sort')[0]] : []
  const query = {
    ...(q !== '' && { q }),
    sort,
    team: valuesOf(place, 'team'),
    tag: valuesOf(place, 'tag'),
    managed: valuesOf(place, 'managed'),
    status: states.length > 0 ? states : USUAL_STATES,
  }
  const most = useSignal(FIRST_KEYS)
  const name = JSON.stringify([query, place.from, place.to])
  const list = useResource(
    `keys ${most.value} ${name}`,
    () => {
      const { from, to } = currentRange()
      const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      return readAll<KeyRecord>('/keys', { ...query, ...range, spend: true, counters: true }, most.value)
    },
    { every: EVERY },
  )
  const more = () => {
    if (list.value?.hasMore && !list.isLoading) most.value = 2 * list.value.data.length
  }
  return { ...list, more }
}

const useKeys = (): { data: KeysData; list: KeyList } => {
  const list = useKeyList()
  const teams = useResource('teams', () => readAll<TeamRecord>('/teams', { sort: 'name' }, MOST_TEAMS))
  const limits = useResource('budgets', () => readAll<BudgetRecord>('/budgets', { sort: 'name' }, MOST_BUDGETS), {
    every: EVERY,
  })
  const keys = list.value?.data ?? []
  const budgets = limits.value?.data ?? []
  const hasFile = [...keys, ...budgets].some(({ managed }) => managed === 'file')
  const config = useResource(hasFile ? 'config' : null, () => read<ConfigAccounts>('/config'))
  const reload = () => {
    list.reload()
    limits.reload()
  }
  return {
    list,
    data: {
      keys,
      teams: teams.value?.data ?? [],
      budgets,
      names: limits.value?.names ?? {},
      places: new Map(config.value?.accounts.map(({ id, origin }) => [id, origin])),
      reload,
    },
  }
}

export const Page = () => {
  const { data, list } = useKeys()
  const dialog = useSignal<OpenDialog | null>(null)
  const secret = useSignal<NewSecret | null>(null)
  const ticked = useSignal<ReadonlySet<string>>(new Set())
  const { id } = current.value
  useEffect(() => {
    // As if the tab had an address of its own.
    if (id === 'budgets' || id === 'identities') go({ ...withParam(current.value, 'show', [id]), id: null }, 'replace')
  }, [id])
  const shown = valuesOf(current.value, 'show')[0]
  const isIdentities = shown === 'identities'
  const isBudgets = shown === 'budgets'
  const identities = useIdentities()
  const run = (what: KeyAction, key: KeyRecord) => {
    if (what === 'block' || what === 'unblock') void setBlocked(key, what === 'block', data.reload)
    else if (what === 'retire')
      void attempt(async () => {
        await write('POST', `/keys/${key.id}/retire`)
        toast(keysWords.retired(key.name))
        data.reload()
      })
    else dialog.value = { what, record: key }
  }
  return (
    <div class="stack keys">
      <PageHead title={en.pages.keys}>
        {!isBudgets && !isIdentities && <NewKeyButton open={() => (dialog.value = { what: 'create' })} />}
      </PageHead>
      <p class="printed">{rangeText()}</p>
      <WriteNote />
      <Tabs data={data} list={list} shown={isBudgets || isIdentities ? shown : 'keys'} identities={identities} />
      {isIdentities ? (
        <Identities list={identities} />
      ) : isBudgets ? (
        <BudgetsView data={data} />
      ) : (
        <KeysView data={data} list={list} ticked={ticked} run={run} dialog={dialog} />
      )}
      {current.value.id !== null && !isBudgets && !isIdentities && (
        <KeySheet data={data} id={current.value.id} run={run} />
      )}
      <Dialogs data={data} dialog={dialog} secret={secret} ticked={ticked} />
      <ConflictDialog />
    </div>
  )
}

const NewKeyButton = ({ open }: { readonly open: () => void }) => {
  const isDisabled = !hasRole('admin') || offlineSince.value !== null
  return (
    <button
      type="button"
      class="button primary"
      disabled={isDisabled}
      aria-describedby={isDisabled ? 'write-note' : undefined}
      onClick={open}
    >
      {keysWords.newKey}
    </button>
  )
}

/** Why actions are missing or disabled. */
const WriteNote = () => {
  const isAdmin = hasRole('admin')
  const isOffline = offlineSince.value !== null
  if (!session.value || (isAdmin && !isOffline)) return null
  const isOperator = hasRole('operator')
  return (
    <p id="write-note" class="keys-note">
      {isOffline && en.states.offlineWrite} {!isAdmin && keysWords.readOnly(isOperator ? 'operator' : 'viewer')}{' '}
      {!isAdmin && isOperator && keysWords.mayBlock}
    </p>
  )
}

/** Subjects of all teams, for those who may see them. */
const useIdentities = (): IdentityList => {
  const isAllowed = session.value !== null && hasRole('viewer', 'all')
  return useResource(isAllowed ? 'identities' : null, () => read<Shown<typeof IDENTITIES>>('/identities'), {
    every: EVERY,
  })
}

type TabName = 'keys' | 'budgets' | 'identities'
type TabsProps = {
  readonly data: KeysData
  readonly list: KeyList
  readonly shown: string | undefined
  readonly identities: IdentityList
}

const Tabs = ({ data: { keys, budgets }, list: { value }, shown, identities }: TabsProps) => {
  const full = fullCounts(budgets, NEAR)
  const subjects = identities.value?.data.length ?? 0
  const show = (name: TabName) => {
    // Each tab has an order and a search of its own.
    const { sort: _sort, q: _q, show: _show, ...params } = current.value.params
    go({ ...current.value, id: null, params: name === 'keys' ? params : { ...params, show: [name] } })
  }
  return (
    <div class="row">
      <fieldset class="segments">
        <legend class="sr-only">{keysWords.tabs.label}</legend>
        <button type="button" aria-pressed={shown === 'keys'} onClick={() => show('keys')}>
          {keysWords.tabs.keys(value ? `${count(keys.length)}${value.hasMore ? '+' : ''}` : '')}
        </button>
        <button type="button" aria-pressed={shown === 'budgets'} onClick={() => show('budgets')}>
          {keysWords.tabs.budgets(count(budgets.length))}
        </button>
        {(subjects > 0 || shown === 'identities') && (
          <button type="button" aria-pressed={shown === 'identities'} onClick={() => show('identities')}>
            {identityWords.tab(count(subjects))}
          </button>
        )}
      </fieldset>
      {full.spent + full.near > 0 && (
        <p class={full.spent > 0 ? 'bad' : 'warn'}>
          <span aria-hidden="true">▲ </span>
          {keysWords.full(full.spent, full.near)}
        </p>
      )}
    </div>
  )
}

type KeyDialogsProps = {
  readonly data: KeysData
  readonly dialog: Signal<OpenDialog | null>
  readonly secret: Signal<NewSecret | null>
  readonly ticked: Signal<ReadonlySet<string>>
}

const Dialogs = ({ data, dialog, secret, ticked }: KeyDialogsProps) => {
  const open = dialog.value
  const close = () => {
    dialog.value = null
  }
  const made = (next: NewSecret) => {
    secret.value = next
  }
  const common = { close, reload: data.reload }
  const done = () => {
    secret.value = null
  }
  if (secret.value) return <SecretDialog {...secret.value} done={done} />
  if (open?.what === 'create') return <CreateKeyDialog {...common} teams={data.teams} made={made} />
  if (open?.what === 'bulk') {
    const reload = () => {
      ticked.value = new Set()
      data.reload()
    }
    return (
      <BulkRevokeDialog close={close} reload={reload} records={data.keys.filter(({ id }) => ticked.value.has(id))} />
    )
  }
  if (!open || !('record' in open)) return null
  // One outside the filter is not in the list.
  const record = data.keys.find(({ id }) => id === open.record.id) ?? open.record
  if (open.what === 'edit') return <EditKeyDialog {...common} record={record} />
  if (open.what === 'rotate') return <RotateDialog {...common} record={record} made={made} />
  return <RevokeDialog {...common} record={record} />
}

type ViewProps = {
  readonly data: KeysData
  readonly list: KeyList
  readonly ticked: Signal<ReadonlySet<string>>
  readonly run: (what: KeyAction, key: KeyRecord) => void
  readonly dialog: Signal<OpenDialog | null>
}

const KeysView = ({ data, list, ticked, run, dialog }: ViewProps) => {
  const isAdmin = hasRole('admin')
  const [sort = 'name'] = valuesOf(current.value, 'sort')
  const isFiltered = ['q', 'state', 'team', 'tag', 'managed'].some((name) => valuesOf(current.value, name).length > 0)
  const filters = [
    ...(data.teams.length > 1
      ? [
          {
            name: 'team',
            label: keysWords.filters.team,
            options: data.teams.map(({ id, name }) => ({ value: id, label: name })),
          },
        ]
      : []),
    {
      name: 'state',
      label: keysWords.filters.state,
      options: STATES.map((value) => ({ value, label: keysWords.states[value] })),
    },
    { name: 'tag', label: keysWords.filters.tag, placeholder: keysWords.tagPlaceholder },
    {
      name: 'managed',
      label: keysWords.filters.managed,
      options: (['api', 'file'] as const).map((value) => ({ value, label: keysWords.managed[value] })),
    },
  ]
  return (
    <>
      <Filters filters={filters} search={{ name: 'q', placeholder: keysWords.search }} others={['show', 'sort']} />
      {isAdmin && <Bulk data={data} ticked={ticked} revoke={() => (dialog.value = { what: 'bulk' })} />}
      {list.problem && <Failed problem={list.problem} retry={list.reload} />}
      {!list.value && list.isLoading && <Loading />}
      {list.value?.data.length === 0 && (
        <Empty title={isFiltered ? keysWords.empty.filtered : keysWords.empty.title}>
          {isFiltered ? (
            <button type="button" class="button" onClick={() => go({ ...current.value, params: {} })}>
              {en.states.clear}
            </button>
          ) : (
            <p>{keysWords.empty.text}</p>
          )}
        </Empty>
      )}
      {data.keys.length > 0 && (
        <div class="table-frame">
          <Table
            label={keysWords.list}
            name="keys"
            columns={columnsOf(data, isAdmin ? ticked : null, run)}
            rows={data.keys}
            keyOf={({ id }) => id}
            card={(key) => <Card keyRecord={key} data={data} run={run} />}
            heights={{ comfortable: 48, compact: 36, card: isNarrow.value ? 116 : 96 }}
            cardsBelow="tight"
            open={({ id }) => goToDetails(id)}
            opened={current.value.id}
            sort={{ by: sort, change: (by) => go(withParam(current.value, 'sort', [by])) }}
            onEnd={list.more}
            count={list.value?.hasMore ? null : data.keys.length}
            {...(isAdmin && { ticked })}
          />
        </div>
      )}
    </>
  )
}

type BulkProps = Pick<ViewProps, 'data' | 'ticked'> & { readonly revoke: () => void }

const Bulk = ({ data, ticked, revoke }: BulkProps) => {
  const ids = [...ticked.value]
  if (ids.length === 0) return null
  const untick = () => {
    ticked.value = new Set()
  }
  return (
    <section class="keys-bulk row" aria-label={keysWords.ticked(ids.length)}>
      <strong>{keysWords.ticked(ids.length)}</strong>
      <button
        type="button"
        class="button"
        onClick={() =>
          void attempt(async () => {
            await changeMany('block', ids, data.reload)
            untick()
          })
        }
      >
        {keysWords.bulkBlock}
      </button>
      <button type="button" class="button danger" onClick={revoke}>
        {keysWords.bulkRevoke}
      </button>
      <button type="button" class="button quiet" onClick={untick}>
        {keysWords.untick}
      </button>
    </section>
  )
}

// ── Cells ────────────────────────────────────────────────────────────────────────────────────────────────────────────

type RowActionsProps = Pick<ViewProps, 'run'> & { readonly keyRecord: KeyRecord }

const RowActions = ({ keyRecord: key, run }: RowActionsProps) => (
  <RowMenu
    id={key.id}
    name={key.name}
    actions={actionsOf(key)}
    textOf={(action) => keysWords.actions[action]}
    bad="revoke"
    run={(action) => run(action, key)}
  >
    <OfflineNote />
  </RowMenu>
)

const columnsOf = (
  data: KeysData,
  ticked: Signal<ReadonlySet<string>> | null,
  run: ViewProps['run'],
): readonly Column<KeyRecord>[] => {
  const tick: Column<KeyRecord>[] = ticked
    ? [
        {
          id: 'tick',
          head: keysWords.head.tick,
          width: '60px',
          cell: (key) => <Tick keyRecord={key} ticked={ticked} />,
        },
      ]
    : []
  return [
    ...tick,
    {
      id: 'name',
      head: keysWords.head.name,
      sort: 'name',
      width: '12rem',
      text: ({ name }) => name,
      cell: (key) => (
        <a href={keyHref(key)}>
          <Middle text={key.name} />
        </a>
      ),
    },
    ...(data.teams.some(({ name }) => name !== ALL) ? [teamColumn(data)] : []),
    ...factColumns,
    {
      id: 'budget',
      head: keysWords.head.budget,
      width: '14rem',
      drop: 1,
      cell: (key) => <BudgetCell keyRecord={key} data={data} />,
    },
    {
      id: 'state',
      head: keysWords.head.state,
      sort: 'status',
      width: '9rem',
      cell: (key) => <StateCell keyRecord={key} data={data} />,
    },
    {
      id: 'actions',
      head: keysWords.head.actions,
      width: '60px',
      align: 'end',
      cell: (key) => <RowActions keyRecord={key} run={run} />,
    },
  ]
}

const teamColumn = (data: KeysData): Column<KeyRecord> => ({
  id: 'team',
  head: keysWords.head.team,
  width: '9rem',
  drop: 2,
  text: ({ team }) => teamName(data, team),
  cell: ({ team }) => <Middle text={teamName(data, team)} />,
})

/** Columns of the key alone. */
const factColumns: readonly Column<KeyRecord>[] = [
  {
    id: 'key',
    head: keysWords.head.key,
    width: '5.75rem',
    drop: 4,
    cell: (key) => <span class="mono small">{keyHint(key)}</span>,
  },
  {
    id: 'spend',
    head: keysWords.head.spend,
    sort: 'spend',
    width: '6.5rem',
    align: 'end',
    cell: ({ spend }) => (spend == null ? <Unknown why={keysWords.noSpend} /> : <Amount text={spend} />),
  },
  {
    id: 'used',
    head: keysWords.head.used,
    sort: 'last_used_at',
    width: '6.75rem',
    cell: (key) => <Used keyRecord={key} />,
  },
  {
    id: 'made',
    head: keysWords.head.made,
    sort: 'created_at',
    width: '5.5rem',
    drop: 7,
    cell: ({ created_at: at }) => (at === null ? '–' : <Time at={at}>{day(Date.parse(at))}</Time>),
  },
  { id: 'access', head: keysWords.head.access, width: '4.5rem', drop: 6, text: accessText, cell: accessText },
  {
    id: 'limits',
    head: keysWords.head.limits,
    width: '5rem',
    drop: 5,
    text: (key) => limitsText(key) ?? '',
    cell: (key) => limitsText(key) ?? <span class="dim">–</span>,
  },
]

/** The filter of the list stays. */
const keyHref = ({ id }: KeyRecord): string => placePath({ ...current.value, id })

const Tick = ({
  keyRecord: { id, name, managed, status },
  ticked,
}: {
  readonly keyRecord: KeyRecord
  readonly ticked: Signal<ReadonlySet<string>>
}) =>
  managed === 'file' || status === 'revoked' ? null : (
    <input
      type="checkbox"
      aria-label={keysWords.tick(name)}
      checked={ticked.value.has(id)}
      onChange={() => {
        const next = new Set(ticked.value)
        if (!next.delete(id)) next.add(id)
        ticked.value = next
      }}
    />
  )

const Card = ({ keyRecord: key, data, run }: RowActionsProps & { readonly data: KeysData }) => (
  <div class="keys-card">
    <div class="card-title">
      <a href={keyHref(key)}>{key.name}</a>
      <span class="row">
        <StateCell keyRecord={key} data={data} />
        <RowActions keyRecord={key} run={run} />
      </span>
    </div>
    <p class="dim small">
      <span class="mono">{keyHint(key)}</span> · {keysWords.head.used.toLowerCase()} <Used keyRecord={key} />
      {data.teams.length > 1 && ` · ${teamName(data, key.team)}`}
      {key.spend != null && ` · ${money(key.spend)}`}
      {limitsText(key) !== null && ` · ${limitsText(key)}`}
    </p>
    {budgetsOf(key, data.budgets).length > 0 && <BudgetCell keyRecord={key} data={data} />}
  </div>
)
