/** All of a budget: what it counts, its figures and forecast, and the counters of its owners. */
import { read, useResource } from '../api.ts'
import { count, money, percent, shareOf } from '../format.ts'
import type { BudgetRecord, Listed, ListedCounter } from '../key-records.ts'
import { current, go } from '../store.ts'
import { budgetWords as text } from '../words/budgets.ts'
import { keysWords } from '../words/keys.ts'
import {
  BudgetBar,
  BudgetButtons,
  type BudgetProps,
  lockedText,
  Outlook,
  OwnersText,
  ownerName,
  Period,
  Share,
  SpentText,
  scopeText,
} from './budget-cells.tsx'
import { Dialog } from './dialog.tsx'
import { SpentBar } from './spent-bar.tsx'
import { Failed, Loading } from './states.tsx'

/** Counters that are read. */
const MOST = 200

export const BudgetSheet = (props: BudgetProps) => {
  const { budget, data } = props
  const locked = lockedText(data, budget)
  return (
    <Dialog title={budget.name} onClose={() => go({ ...current.value, id: null })} wide>
      <BudgetBar budget={budget} />
      <dl class="keys-facts">
        <dt>{text.head.spent}</dt>
        <dd>
          <Share budget={budget} /> · <SpentText budget={budget} data={data} />
        </dd>
        <dt>{text.head.of}</dt>
        <dd class="wrap">{scopeText(data, budget)}</dd>
        <dt>{text.head.period}</dt>
        <dd>
          <Period budget={budget} />
        </dd>
        <dt>{text.head.mode}</dt>
        <dd>{text.mode[budget.mode]}</dd>
        {!budget.owners?.spent && (
          <>
            <dt>{text.head.forecast}</dt>
            <dd>
              <Outlook {...props} />
            </dd>
          </>
        )}
      </dl>
      {budget.owners && <Counters budget={budget} />}
      {locked !== null && <p class="dim">{locked}</p>}
      <BudgetButtons {...props} />
    </Dialog>
  )
}

type CounterList = Listed<ListedCounter> & { readonly names: { readonly [id: string]: string } }

/** The counters of the owners, the fullest first. */
const Counters = ({ budget }: { readonly budget: BudgetRecord }) => {
  const { id, per, amount, alerts } = budget
  const found = useResource(`counters ${id}`, () => read<CounterList>(`/budgets/${id}/counters`, { limit: MOST }))
  const { value, problem } = found
  return (
    <>
      <h3>{text.counters}</h3>
      {(per === 'user' || per === 'end_user') && <p class="dim">{text.about[per]}</p>}
      <p>
        <OwnersText budget={budget} />
      </p>
      {problem && <Failed problem={problem} retry={found.reload} />}
      {!value && found.isLoading && <Loading rows={4} />}
      <ul class="stack" aria-label={text.counters}>
        {value?.data.map(({ of, spent }) => {
          const name = ownerName(of, value.names)
          const share = shareOf(spent, amount)
          return (
            <li key={of} class="keys-budget">
              <SpentBar share={share} label={keysWords.spentShare(name, percent(share))} alerts={alerts} />
              <span class="num">
                <bdi>{name}</bdi> · {text.ofAmount(money(spent), money(amount))}
              </span>
              {of === '' && <span class="dim">{text.aboutWithout}</span>}
            </li>
          )
        })}
      </ul>
      {value?.has_more && <p class="dim">{text.moreCounters(count(MOST))}</p>}
    </>
  )
}
