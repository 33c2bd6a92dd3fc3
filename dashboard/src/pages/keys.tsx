/** Client keys and budgets: a list of each, and what may be done with them. */

import { type Signal, useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import type { Shown } from '../../../src/records/entities/shown.ts'
import type { IDENTITIES } from '../../../src/server/answers/identities.ts'
import { valuesOf, withParam } from '../address.ts'
import { hasRole, offlineSince, read, readAll, session, useResource, write } from '../api.ts'
import { count, day, percent, shareOf } from '../format.ts'
import {
  type BudgetRecord,
  budgetsOf,
  type CountersById,
  fullBudgets,
  type KeyRecord,
  keyHint,
  type Listed,
  type TeamRecord,
} from '../key-records.ts'
import { BudgetsView } from '../parts/budgets.tsx'
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
import { Menu } from '../parts/menu.tsx'
import { SecretDialog } from '../parts/secret-dialog.tsx'
import { Empty, Failed, Loading, PageHead, Time } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { ROOT } from '../root.ts'
import { current, go, goToPage, isMedium, toast } from '../store.ts'
import { en } from '../words/en.ts'
import { identityWords } from '../words/identities.ts'
import { keysWords } from '../words/keys.ts'

/** Entries that are read. Of keys, as many more at a time. */
const MOST = { keys: 5_000, teams: 5_000, budgets: 1_000, counters: 200 }
/** The share of a budget from which the page points at it. */
const NEAR = 0.8
const EVERY = 30_000
const USUAL_STATES = ['active', 'blocked', 'expired']
const STATES = ['active', 'blocked', 'expired', 'revoked'] as const
const ALL = 'default'

/** Which dialog is open, and for which key. */
type OpenDialog = { readonly what: 'create' | 'bulk' | KeyAction; readonly id: string }

const readBudgets = async () => {
  const { data } = await readAll<BudgetRecord>('/budgets', { sort: 'name' }, MOST.budgets)
  const several = data.filter(({ per }) => per !== 'all')
  const lists = await Promise.all(
    several.map(({ id }) =>
      read<Listed<BudgetRecord['now'] & { of: string; remaining: string }>>(`/budgets/${id}/counters`, {
        limit: MOST.counters,
      }),
    ),
  )
  const counters: CountersById = Object.fromEntries(several.map(({ id }, at) => [id, lists[at]?.data ?? []]))
  return { budgets: data, counters }
}

type ConfigAccounts = { readonly accounts: readonly { readonly id: string; readonly origin: string }[] }

type KeyList = ReturnType<typeof useResource<Awaited<ReturnType<typeof readAll<KeyRecord>>>>> & {
  /** Reads more keys. */
  readonly more: () => void
}

const useKeys = (): { data: KeysData; list: KeyList } => {
  const place = current.value
  const states = valuesOf(place, 'state')
  const [q = '', sort = 'name'] = [valuesOf(place, 'q')[0], valuesOf(place, 'sort')[0]]
  const query = {
    ...(q !== '' && { q }),
    sort,
    team: valuesOf(place, 'team'),
    tag: valuesOf(place, 'tag'),
    managed: valuesOf(place, 'managed'),
    status: states.length > 0 ? states : USUAL_STATES,
  }
  const most = useSignal(MOST.keys)
  const found = useResource(
    `keys ${most.value} ${JSON.stringify(query)}`,
    () => readAll<KeyRecord>('/keys', query, most.value),
    { every: EVERY },
  )
  const more = () => {
    most.value += MOST.keys
  }
  const list = { ...found, more }
  const teams = useResource('teams', () => readAll<TeamRecord>('/teams', { sort: 'name' }, MOST.teams))
  const limits = useResource('budgets', readBudgets, { every: EVERY })
  const keys = list.value?.data ?? []
  const hasFile = keys.some(({ managed }) => managed === 'file')
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
      budgets: limits.value?.budgets ?? [],
      counters: limits.value?.counters ?? {},
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
    else dialog.value = { what, id: key.id }
  }
  return (
    <div class="stack keys">
      <PageHead title={en.pages.keys}>
        {!isBudgets && !isIdentities && <NewKeyButton open={() => (dialog.value = { what: 'create', id: '' })} />}
      </PageHead>
      <WriteNote />
      <Tabs data={data} shown={isBudgets || isIdentities ? shown : 'keys'} identities={identities} />
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
type TabsProps = { readonly data: KeysData; readonly shown: string | undefined; readonly identities: IdentityList }

const Tabs = ({ data, shown, identities }: TabsProps) => {
  const { keys, budgets } = data
  const [fullest] = fullBudgets(budgets, NEAR)
  const subjects = identities.value?.data.length ?? 0
  const show = (name: TabName) => go({ ...withParam(current.value, 'show', name === 'keys' ? [] : [name]), id: null })
  return (
    <div class="row">
      <fieldset class="segments">
        <legend class="sr-only">{keysWords.tabs.label}</legend>
        <button type="button" aria-pressed={shown === 'keys'} onClick={() => show('keys')}>
          {keysWords.tabs.keys(count(keys.length))}
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
      {fullest && (
        <p class="warn">
          <span aria-hidden="true">▲ </span>
          {keysWords.full(fullest.name, percent(shareOf(fullest.now.spent, fullest.amount)))}
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
  const record = data.keys.find(({ id }) => id === open?.id)
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
  if (!open || !record) return null
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
  const { filters: text } = keysWords
  const filters = [
    ...(data.teams.length > 1
      ? [{ name: 'team', label: text.team, options: data.teams.map(({ id, name }) => ({ value: id, label: name })) }]
      : []),
    { name: 'state', label: text.state, options: STATES.map((value) => ({ value, label: keysWords.states[value] })) },
    { name: 'tag', label: text.tag, placeholder: keysWords.tagPlaceholder },
    {
      name: 'managed',
      label: text.managed,
      options: (['api', 'file'] as const).map((value) => ({ value, label: keysWords.managed[value] })),
    },
  ]
  return (
    <>
      <Filters filters={filters} search={{ name: 'q', placeholder: keysWords.search }} others={['show', 'sort']} />
      {isAdmin && <Bulk data={data} ticked={ticked} revoke={() => (dialog.value = { what: 'bulk', id: '' })} />}
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
            columns={columnsOf(data, isAdmin ? ticked : null, run)}
            rows={data.keys}
            keyOf={({ id }) => id}
            card={(key) => <Card keyRecord={key} data={data} run={run} />}
            heights={{ comfortable: 48, compact: 36, card: 116 }}
            cardsBelow="tight"
            open={({ id }) => goToPage('keys', id)}
            opened={current.value.id}
            sort={{ by: sort, change: (by) => go(withParam(current.value, 'sort', [by])) }}
            {...(isAdmin && { ticked })}
          />
        </div>
      )}
      {list.value?.hasMore && (
        <p class="row dim">
          {keysWords.first(count(data.keys.length))}
          <button type="button" class="button" onClick={list.more}>
            {keysWords.showMore}
          </button>
        </p>
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

const RowActions = ({ keyRecord: key, run }: RowActionsProps) => {
  const actions = actionsOf(key)
  const isOffline = offlineSince.value !== null
  return (
    <Menu className="icon keys-more" label="⋯" name={`${en.actions.more}: ${key.name}`}>
      {(close) => (
        <div class="rows">
          <button
            type="button"
            onClick={() => {
              close()
              goToPage('keys', key.id)
            }}
          >
            {keysWords.actions.details}
          </button>
          {actions.map((action) => (
            <button
              key={action}
              type="button"
              class={action === 'revoke' ? 'bad' : undefined}
              disabled={isOffline}
              onClick={() => {
                close()
                run(action, key)
              }}
            >
              {keysWords.actions[action]}
            </button>
          ))}
          {isOffline && <p class="warn small">{en.states.offlineWrite}</p>}
        </div>
      )}
    </Menu>
  )
}

/** Columns that only a wide screen has; the details of a key have all. */
const RARE: readonly string[] = ['team', 'made', 'access']

const columnsOf = (
  data: KeysData,
  ticked: Signal<ReadonlySet<string>> | null,
  run: ViewProps['run'],
): readonly Column<KeyRecord>[] => {
  const { head } = keysWords
  const tick: Column<KeyRecord>[] = ticked
    ? [{ id: 'tick', head: head.tick, width: '60px', cell: (key) => <Tick keyRecord={key} ticked={ticked} /> }]
    : []
  const cell = (show: (key: KeyRecord) => ComponentChild) => show
  const all: readonly Column<KeyRecord>[] = [
    ...tick,
    { id: 'name', head: head.name, sort: 'name', cell: cell((key) => <a href={keyHref(key)}>{key.name}</a>) },
    ...(data.teams.some(({ name }) => name !== ALL)
      ? [{ id: 'team', head: head.team, width: '7rem', cell: cell((key) => teamName(data, key.team)) }]
      : []),
    { id: 'key', head: head.key, width: '7rem', cell: cell((key) => <span class="mono small">{keyHint(key)}</span>) },
    {
      id: 'made',
      head: head.made,
      sort: 'created_at',
      width: '5.5rem',
      cell: cell(({ created_at: at }) => (at === null ? '–' : <Time at={at}>{day(Date.parse(at))}</Time>)),
    },
    {
      id: 'used',
      head: head.used,
      sort: 'last_used_at',
      width: '7.25rem',
      cell: cell((key) => <Used keyRecord={key} />),
    },
    { id: 'access', head: head.access, width: '9rem', cell: cell(accessText) },
    {
      id: 'limits',
      head: head.limits,
      width: '11rem',
      cell: cell((key) => limitsText(key) ?? <span class="dim">–</span>),
    },
    {
      id: 'budget',
      head: head.budget,
      width: '13.25rem',
      cell: cell((key) => <BudgetCell keyRecord={key} data={data} />),
    },
    {
      id: 'state',
      head: head.state,
      sort: 'status',
      width: '11.5rem',
      cell: cell((key) => <StateCell keyRecord={key} data={data} />),
    },
    {
      id: 'actions',
      head: head.actions,
      width: '60px',
      align: 'end',
      cell: cell((key) => <RowActions keyRecord={key} run={run} />),
    },
  ]
  return isMedium.value ? all.filter(({ id }) => !RARE.includes(id)) : all
}

const keyHref = ({ id }: KeyRecord): string => `${ROOT}dashboard/keys/${id}`

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
      {limitsText(key) !== null && ` · ${limitsText(key)}`}
    </p>
    {budgetsOf(key, data.budgets, data.counters).length > 0 && <BudgetCell keyRecord={key} data={data} />}
  </div>
)
