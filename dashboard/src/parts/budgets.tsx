/** The list of budgets: cards, or a table once there are more than a few. */
import { type Signal, useSignal } from '@preact/signals'
import { valuesOf, withParam } from '../address.ts'
import { hasRole, offlineSince, session } from '../api.ts'
import { money } from '../format.ts'
import { type BudgetRecord, type EndsById, sortedBudgets } from '../key-records.ts'
import { useEnds } from '../own-budgets.ts'
import { current, go, goToDetails, isNarrow } from '../store.ts'
import { budgetWords as text } from '../words/budgets.ts'
import {
  BudgetBar,
  BudgetButtons,
  BudgetMenu,
  type BudgetProps,
  lockedText,
  type OpenBudget,
  Outlook,
  OwnersText,
  Period,
  Share,
  SpentText,
  scopeText,
} from './budget-cells.tsx'
import { AdjustDialog, BudgetDialog, DeleteBudgetDialog, ResetDialog } from './budget-dialogs.tsx'
import { BudgetSheet } from './budget-sheet.tsx'
import { Filters } from './filters.tsx'
import type { KeysData } from './key-cells.tsx'
import { Middle } from './middle.tsx'
import { Empty } from './states.tsx'
import { type Column, Table } from './table.tsx'

const { head } = text

/** Budgets that are read, and from which number on they are a table. */
export const MOST_BUDGETS = 1_000
const TABLE_FROM = 7
/** The first one to end is the first. */
const USUAL_SORT = 'ends'

type Dialog = { readonly what: Parameters<OpenBudget>[0]; readonly id: string }

export const BudgetsView = ({ data }: { readonly data: KeysData }) => {
  const dialog = useSignal<Dialog | null>(null)
  const ends = useEnds('budget')
  const mayWrite = hasRole('admin', 'all')
  const open: OpenBudget = (what, id = '') => {
    dialog.value = { what, id }
  }
  const opened = data.budgets.find(({ id }) => id === current.value.id)
  const List = data.budgets.length < TABLE_FROM ? Cards : BudgetTable
  return (
    <>
      <div class="row">
        <button
          type="button"
          class="button primary"
          disabled={!mayWrite || offlineSince.value !== null}
          onClick={() => open('create')}
        >
          {text.create}
        </button>
        {session.value && !mayWrite && <p class="dim">{text.adminOnly}</p>}
      </div>
      {data.budgets.length === 0 ? (
        <Empty title={text.empty}>
          <p>{text.emptyText}</p>
        </Empty>
      ) : (
        <List data={data} ends={ends} open={open} />
      )}
      {opened && <BudgetSheet budget={opened} data={data} end={ends?.get(opened.id)} open={open} />}
      <Dialogs data={data} dialog={dialog} />
    </>
  )
}

type BudgetListProps = Pick<BudgetProps, 'data' | 'open'> & { readonly ends: EndsById }

const Cards = ({ data, ends, open }: BudgetListProps) => (
  <ul class="budget-list" aria-label={text.title}>
    {sortedBudgets(data.budgets, USUAL_SORT, ends).map((budget) => (
      <Card key={budget.id} budget={budget} data={data} end={ends?.get(budget.id)} open={open} />
    ))}
  </ul>
)

const Card = (props: BudgetProps) => {
  const { budget, data } = props
  const { name, now: figures, owners } = budget
  return (
    <li class="panel budget">
      <div class="card-title">
        <h3>{name}</h3>
        <span class="dim small">{budget.managed === 'file' ? lockedText(data, budget) : text.mode[budget.mode]}</span>
      </div>
      <p class="dim">{scopeText(data, budget)}</p>
      <BudgetBar budget={budget} />
      <p class="num">
        <Share budget={budget} /> · <SpentText budget={budget} data={data} />
        {figures.reserved !== '0.000000000' && ` · ${text.reserved(money(figures.reserved))}`}
      </p>
      {owners && (
        <p class="row">
          <OwnersText budget={budget} />
          <button type="button" class="button quiet small" onClick={() => goToDetails(budget.id)}>
            {text.showCounters}
            <span class="sr-only"> {name}</span>
          </button>
        </p>
      )}
      <p class="dim">
        <Period budget={budget} />
      </p>
      <p class="dim">
        {text.head.forecast}: <Outlook {...props} />
      </p>
      {figures.authority === 'degraded' && <p class="warn">{text.degraded}</p>}
      <BudgetButtons {...props} />
    </li>
  )
}

const columnsOf = ({ data, ends, open }: BudgetListProps): readonly Column<BudgetRecord>[] => {
  return [
    {
      id: 'name',
      head: head.name,
      sort: 'name',
      width: '8rem',
      text: ({ name }) => name,
      cell: ({ name }) => <Middle text={name} />,
    },
    {
      id: 'scope',
      head: head.of,
      width: '9rem',
      drop: 2,
      text: (budget) => scopeText(data, budget),
      cell: (budget) => <Middle text={scopeText(data, budget)} />,
    },
    {
      id: 'spent',
      head: head.spent,
      sort: 'share',
      width: '17rem',
      cell: (budget) => <SpentOf budget={budget} data={data} />,
    },
    { id: 'period', head: head.period, width: '12rem', drop: 1, cell: (budget) => <Period budget={budget} /> },
    {
      id: 'forecast',
      head: head.forecast,
      sort: 'ends',
      startsUp: true,
      width: '13rem',
      cell: (budget) => (
        <span class="budget-forecast">
          <Outlook budget={budget} end={ends?.get(budget.id)} />
        </span>
      ),
    },
    { id: 'mode', head: head.mode, width: '7rem', drop: 3, cell: ({ mode }) => text.mode[mode] },
    {
      id: 'actions',
      head: head.actions,
      width: '60px',
      align: 'end',
      cell: (budget) => <BudgetMenu budget={budget} data={data} open={open} />,
    },
  ]
}

const SpentOf = ({ budget, data }: { readonly budget: BudgetRecord; readonly data: KeysData }) => (
  <span class="keys-budget">
    <BudgetBar budget={budget} />
    <span class="num">
      <Share budget={budget} /> · <SpentText budget={budget} data={data} />
    </span>
  </span>
)

const BudgetTable = (props: BudgetListProps) => {
  const { data, ends, open } = props
  const [sort = USUAL_SORT] = valuesOf(current.value, 'sort')
  const [q = ''] = valuesOf(current.value, 'q')
  const matches = (budget: BudgetRecord) =>
    `${budget.name} ${scopeText(data, budget)}`.toLowerCase().includes(q.trim().toLowerCase())
  const rows = sortedBudgets(data.budgets.filter(matches), sort, ends)
  return (
    <>
      <Filters filters={[]} search={{ name: 'q', placeholder: text.search }} others={['show', 'sort']} />
      {rows.length === 0 && <Empty title={text.filtered} />}
      {rows.length > 0 && (
        <div class="table-frame">
          <Table
            label={text.title}
            name="budgets"
            columns={columnsOf(props)}
            rows={rows}
            keyOf={({ id }) => id}
            card={(budget) => (
              <div class="keys-card">
                <div class="card-title">
                  <strong>{budget.name}</strong>
                  <BudgetMenu budget={budget} data={data} open={open} />
                </div>
                <SpentOf budget={budget} data={data} />
                <p class="dim small">{scopeText(data, budget)}</p>
                <p class="dim small">
                  <Period budget={budget} />
                </p>
                <p class="small">
                  <Outlook budget={budget} end={ends?.get(budget.id)} />
                </p>
              </div>
            )}
            heights={{ comfortable: 48, compact: 36, card: isNarrow.value ? 164 : 136 }}
            cardsBelow="tight"
            open={({ id }) => goToDetails(id)}
            opened={current.value.id}
            sort={{ by: sort, change: (by) => go(withParam(current.value, 'sort', [by])) }}
          />
        </div>
      )}
    </>
  )
}

type BudgetDialogsProps = { readonly data: KeysData; readonly dialog: Signal<Dialog | null> }

const Dialogs = ({ data, dialog }: BudgetDialogsProps) => {
  const open = dialog.value
  if (!open) return null
  const common = {
    close: () => {
      dialog.value = null
    },
    reload: data.reload,
  }
  if (open.what === 'create') return <BudgetDialog {...common} data={data} budget={null} />
  const budget = data.budgets.find(({ id }) => id === open.id)
  if (!budget) return null
  if (open.what === 'edit') return <BudgetDialog {...common} data={data} budget={budget} />
  if (open.what === 'adjust') return <AdjustDialog {...common} budget={budget} />
  if (open.what === 'reset') return <ResetDialog {...common} budget={budget} />
  return <DeleteBudgetDialog {...common} budget={budget} />
}
