/** What the row, the card and the details of a budget show of it. */
import { hasRole, offlineSince } from '../api.ts'
import { age, money, percent } from '../format.ts'
import { type BudgetEnd, type BudgetRecord, budgetShare } from '../key-records.ts'
import { now } from '../store.ts'
import { budgetWords as text } from '../words/budgets.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { Forecast } from './forecast.tsx'
import { type KeysData, teamName } from './key-cells.tsx'
import { RowMenu } from './row-menu.tsx'
import { SpentBar } from './spent-bar.tsx'
import { Time } from './states.tsx'

/** What is done with a budget in a dialog. */
export type BudgetAction = 'edit' | 'adjust' | 'reset' | 'remove'
export type OpenBudget = (what: BudgetAction | 'create', id?: string) => void

type OfBudget = { readonly budget: BudgetRecord }
export type BudgetProps = OfBudget & {
  readonly data: KeysData
  /** Its counter that ends first; undefined: not read, or there is none. */
  readonly end: BudgetEnd | undefined
  readonly open: OpenBudget
}

/** `team search · openai/*, each key`. */
export const scopeText = (data: KeysData, { appliesTo, per }: BudgetRecord): string => {
  const { teams, keys, tags, models, providers } = appliesTo
  const parts = [
    ...(teams ?? []).map((id) => text.form.ofTeam(data.names[id] ?? teamName(data, id))),
    ...(keys ?? []).map((id) => text.form.ofKey(data.names[id] ?? id)),
    ...Object.entries(tags ?? {}).map(([name, value]) => `${name}:${value}`),
    ...(models ?? []),
    ...(providers ?? []),
  ]
  const whole = parts.length === 0 ? text.everything : parts.join(' · ')
  return per === 'all' ? whole : `${whole}, ${text.per[per]}`
}

/** The owner of a counter. `names`: of teams and keys, by ID. */
export const ownerName = (of: string, names: KeysData['names']): string =>
  of === '' ? text.withoutUser : (names[of] ?? of)

/** Why a budget cannot be changed here; null: it can. */
export const lockedText = (data: KeysData, { id, managed }: BudgetRecord): string | null => {
  if (managed === 'file') return text.inFile(data.places.get(id) ?? keysWords.managed.file)
  return hasRole('admin', 'all') ? null : text.adminOnly
}

/** Adjusting and resetting are for the one counter of a budget. */
const actionsOf = ({ per }: BudgetRecord): readonly BudgetAction[] =>
  per === 'all' ? ['edit', 'adjust', 'reset', 'remove'] : ['edit', 'remove']

const ACTIONS: { readonly [what in BudgetAction]: string } = {
  edit: text.edit,
  adjust: text.adjust.action,
  reset: text.reset.action,
  remove: text.remove.action,
}

export const BudgetButtons = ({ budget, data, open }: Omit<BudgetProps, 'end'>) => {
  if (lockedText(data, budget) !== null) return null
  return (
    <div class="row">
      {actionsOf(budget).map((what) => (
        <button
          key={what}
          type="button"
          class="button quiet small"
          disabled={offlineSince.value !== null}
          onClick={() => open(what, budget.id)}
        >
          {ACTIONS[what]}
          <span class="sr-only"> {budget.name}</span>
        </button>
      ))}
    </div>
  )
}

export const BudgetMenu = ({ budget, data, open }: Omit<BudgetProps, 'end'>) => {
  const locked = lockedText(data, budget)
  return (
    <RowMenu
      id={budget.id}
      name={budget.name}
      actions={locked === null ? actionsOf(budget) : []}
      textOf={(what) => ACTIONS[what]}
      run={(what) => open(what, budget.id)}
    >
      {locked !== null && <p class="dim small">{locked}</p>}
    </RowMenu>
  )
}

/** How full it is; of one with a counter for each owner the fullest. */
export const BudgetBar = ({ budget }: OfBudget) => {
  const share = budgetShare(budget)
  return <SpentBar share={share} label={keysWords.spentShare(budget.name, percent(share))} alerts={budget.alerts} />
}

export const Share = ({ budget }: OfBudget) => {
  const share = budgetShare(budget)
  return <strong class={share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : undefined}>{percent(share)}</strong>
}

/** `3 of 14 spent, 1 near its end`. */
export const OwnersText = ({ budget: { owners } }: OfBudget) => {
  if (!owners) return null
  const { count, spent, near } = owners
  return <span class={spent > 0 ? 'bad' : ''}>{count === 0 ? text.noCounters : text.owners(count, spent, near)}</span>
}

/** What is spent of which amount; of one with a counter for each owner, the fullest. */
export const SpentText = ({ budget, data }: OfBudget & { readonly data: KeysData }) => {
  const { amount, now: figures, owners } = budget
  if (!owners) return <>{text.ofAmount(money(figures.spent), money(amount))}</>
  const { fullest } = owners
  if (!fullest) return <>{text.each(money(amount))}</>
  return (
    <>
      {text.ofAmount(money(fullest.spent), money(amount))} · <bdi>{ownerName(fullest.of, data.names)}</bdi>
    </>
  )
}

/** `per month · resets in 12 d`. */
export const Period = ({ budget: { period, now: figures } }: OfBudget) => (
  <>
    {keysWords.periods[period]}
    {figures.period_end !== null && (
      <>
        {' · '}
        <Time at={figures.period_end}>{text.resets(en.time.in(age(Date.parse(figures.period_end) - now.value)))}</Time>
      </>
    )}
  </>
)

/** The forecast of a budget; of one with several counters that of the owner whose amount ends first, or how many are spent. */
export const Outlook = ({ budget, end }: Pick<BudgetProps, 'budget' | 'end'>) => {
  const { owners, now: figures } = budget
  const isShared = (owners?.count ?? 0) > 1
  if (owners?.count === 0 || (isShared && owners?.spent)) return <OwnersText budget={budget} />
  return (
    <>
      {isShared && end && (
        <>
          <bdi>{ownerName(end.of, {})}</bdi>:{' '}
        </>
      )}
      <Forecast end={end} period_end={figures.period_end} />
    </>
  )
}
