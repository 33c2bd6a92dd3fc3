/** The list of budgets, with what is spent, when they are spent at the present rate, and what may be done with them. */
import { type Signal, useSignal } from '@preact/signals'
import { hasRole, offlineSince, read, session, useResource } from '../api.ts'
import { age, day, moment, money, percent, shareOf } from '../format.ts'
import type { BudgetRecord } from '../key-records.ts'
import { now } from '../store.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { AdjustDialog, BudgetDialog, DeleteBudgetDialog, ResetDialog } from './budget-dialogs.tsx'
import { type KeysData, teamName } from './key-cells.tsx'
import { SpentBar } from './spent-bar.tsx'
import { Empty, Time, Unknown } from './states.tsx'

const { budgets: text } = keysWords
/** Budgets whose forecast is read. */
const FORECASTS = 30
const EVERY = 60_000

type BudgetForecast = {
  readonly projected: string | null
  readonly exhausted_at: string | null
  readonly basis: 'present' | 'week' | 'period' | null
}
type BudgetDialogName = 'create' | 'edit' | 'adjust' | 'reset' | 'remove'
type OpenBudget = { readonly what: BudgetDialogName; readonly id: string }

const useForecasts = (budgets: readonly BudgetRecord[]): ReadonlyMap<string, BudgetForecast> => {
  const ids = budgets
    .filter(({ per }) => per === 'all')
    .slice(0, FORECASTS)
    .map(({ id }) => id)
  const forecasts = useResource(
    ids.length === 0 ? null : `forecasts ${ids.join()}`,
    () => Promise.all(ids.map((id) => read<BudgetForecast>(`/budgets/${id}/forecast`))),
    { every: EVERY },
  )
  return new Map(ids.flatMap((id, at) => (forecasts.value?.[at] ? [[id, forecasts.value[at]] as const] : [])))
}

/** `team search · openai/*`. */
const countsText = (data: KeysData, { appliesTo, per }: BudgetRecord): string => {
  const { teams, keys, tags, models, providers } = appliesTo
  const parts = [
    ...(teams ?? []).map((id) => text.form.ofTeam(teamName(data, id))),
    ...(keys ?? []).map((id) => text.form.ofKey(data.keys.find((key) => key.id === id)?.name ?? id)),
    ...Object.entries(tags ?? {}).map(([name, value]) => `${name}:${value}`),
    ...(models ?? []),
    ...(providers ?? []),
  ]
  const whole = parts.length === 0 ? text.everything : parts.join(' · ')
  return per === 'all' ? whole : `${whole}, ${text.per[per]}`
}

export const BudgetsView = ({ data }: { readonly data: KeysData }) => {
  const dialog = useSignal<OpenBudget | null>(null)
  const forecasts = useForecasts(data.budgets)
  const mayWrite = hasRole('admin', 'all')
  const open = (what: BudgetDialogName, id = '') => {
    dialog.value = { what, id }
  }
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
        <ul class="budget-list" aria-label={text.title}>
          {data.budgets.map((budget) => (
            <Row key={budget.id} budget={budget} data={data} forecast={forecasts.get(budget.id)} open={open} />
          ))}
        </ul>
      )}
      <Dialogs data={data} dialog={dialog} />
    </>
  )
}

type RowProps = {
  readonly budget: BudgetRecord
  readonly data: KeysData
  readonly forecast: BudgetForecast | undefined
  readonly open: (what: BudgetDialogName, id: string) => void
}

const Row = ({ budget, data, forecast, open }: RowProps) => {
  const { id, name, amount, period, now: figures, per, alerts } = budget
  const share = shareOf(figures.spent, amount)
  const isOne = per === 'all'
  return (
    <li class="panel budget">
      <div class="card-title">
        <h3>{name}</h3>
        <span class="dim small">
          {budget.managed === 'file'
            ? keysWords.states.inFile(data.places.get(id) ?? keysWords.managed.file)
            : text.mode[budget.mode]}
        </span>
      </div>
      <p class="dim">{countsText(data, budget)}</p>
      {isOne ? (
        <>
          <SpentBar share={share} label={keysWords.spentShare(name, percent(share))} alerts={alerts} />
          <p class="num">
            <strong class={share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : undefined}>{percent(share)}</strong> ·{' '}
            {keysWords.of(money(figures.spent), money(amount), keysWords.periods[period])}
            {figures.reserved !== '0.000000000' && ` · ${text.reserved(money(figures.reserved))}`}
          </p>
          <p class="dim">
            {text.head.forecast}: <Forecast forecast={forecast} budget={budget} />
            {figures.period_end !== null && (
              <>
                {' · '}
                <Time at={figures.period_end}>
                  {text.resets(en.time.in(age(Date.parse(figures.period_end) - now.value)))}
                </Time>
              </>
            )}
          </p>
        </>
      ) : (
        <Counters budget={budget} data={data} />
      )}
      {figures.authority === 'degraded' && <p class="warn">{text.degraded}</p>}
      {hasRole('admin', 'all') && budget.managed === 'api' && (
        <div class="row">
          {(['edit', 'adjust', 'reset', 'remove'] as const)
            .filter((what) => isOne || (what !== 'reset' && what !== 'adjust'))
            .map((what) => (
              <button
                key={what}
                type="button"
                class="button quiet small"
                disabled={offlineSince.value !== null}
                onClick={() => open(what, id)}
              >
                {what === 'edit' ? text.edit : text[what].action}
                <span class="sr-only"> {name}</span>
              </button>
            ))}
        </div>
      )}
    </li>
  )
}

const Forecast = ({ forecast, budget }: Pick<RowProps, 'forecast' | 'budget'>) => {
  const { projected = null, exhausted_at: at = null, basis = null } = forecast ?? {}
  const rest = basis === null ? '' : `, ${text.bases[basis]}`
  if (shareOf(budget.now.spent, budget.amount) >= 1) return <span class="bad">{text.isSpent}</span>
  if (at !== null)
    return (
      <span class="warn">
        {text.exhausted(moment(Date.parse(at)))}
        {rest}
      </span>
    )
  if (projected === null) return <Unknown why={text.noForecast} />
  const { period_end: end } = budget.now
  return (
    <>
      {end === null ? text.projectedTotal(money(projected)) : text.projected(money(projected), day(Date.parse(end)))}
      {rest}
    </>
  )
}

/** The fullest counters of a budget for each owner. */
const Counters = ({ budget, data }: Pick<RowProps, 'budget' | 'data'>) => {
  const counters = (data.counters[budget.id] ?? []).slice(0, 5)
  const nameOf = (of: string): string => {
    if (of === '') return text.withoutUser
    return budget.per === 'team' ? teamName(data, of) : (data.keys.find(({ id }) => id === of)?.name ?? of)
  }
  return (
    <>
      <p class="num">
        {money(budget.amount)} {keysWords.periods[budget.period]}, {text.per[budget.per]}
      </p>
      {counters.length === 0 && <p class="dim">{text.noCounters}</p>}
      <ul class="stack" aria-label={text.counters}>
        {counters.map(({ of, spent }) => {
          const share = shareOf(spent, budget.amount)
          return (
            <li key={of} class="keys-budget">
              <SpentBar share={share} label={keysWords.spentShare(nameOf(of), percent(share))} alerts={budget.alerts} />
              <span class="num">
                {nameOf(of)} · {money(spent)}
              </span>
            </li>
          )
        })}
      </ul>
    </>
  )
}

type BudgetDialogsProps = { readonly data: KeysData; readonly dialog: Signal<OpenBudget | null> }

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
