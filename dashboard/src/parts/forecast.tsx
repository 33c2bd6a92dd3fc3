/** When an amount will be used up, as lists and details show it. */
import { day, moment, money, shareOf } from '../format.ts'
import type { BudgetEnd, BudgetForecast } from '../key-records.ts'
import { budgetWords as text } from '../words/budgets.ts'
import { Unknown } from './states.tsx'

const basisText = ({ basis, hours }: BudgetForecast): string =>
  basis === null ? '' : `, ${basis === 'week' ? text.asInHours(hours ?? WEEK) : text.bases[basis]}`
const WEEK = 168

type EndProps = {
  readonly end: BudgetEnd | undefined
  /** Absent: what is spent at that time is not shown. */
  readonly period_end?: string | null
}

/** When an amount will be used up, or what is spent of it at the end of its period, and on what that rests. */
export const Forecast = ({ end, period_end }: EndProps) => {
  if (!end) return <Unknown why={text.noForecast} />
  const { projected, exhausted_at: at, spent_since: since } = end.forecast
  if (shareOf(end.spent, end.amount) >= 1)
    return <span class="bad">{since === null ? text.isSpent : text.spentSince(moment(Date.parse(since)))}</span>
  const rest = basisText(end.forecast)
  if (at !== null)
    return (
      <span class="warn">
        {text.exhausted(moment(Date.parse(at)))}
        {rest}
      </span>
    )
  if (projected === null) return <Unknown why={text.noForecast} />
  return (
    <>
      {period_end === undefined
        ? text.lasts
        : period_end === null
          ? text.projectedTotal(money(projected))
          : text.projected(money(projected), day(Date.parse(period_end)))}
      {rest}
    </>
  )
}
