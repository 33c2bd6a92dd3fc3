/** What is known of a budget, for the person who uses it. */
import type { Budget } from '../../core/accounts.ts'
import type { Nano } from '../../core/money.ts'
import type { SpendStanding } from '../../core/spend-standing.ts'
import { END_OF_TIME } from './period.ts'

/** A counter of a budget. `used`: nano-dollars. `periodEnd`: ms since 1970. */
export type CounterFigures = { readonly budget: Budget; readonly used: Nano; readonly periodEnd: number }

/** Whether a budget counts this person alone, and refuses. */
export const isPersonal = ({ per, mode }: Budget): boolean => mode === 'hard' && isOwn(per)

const isOwn = (per: Budget['per']): boolean => per === 'user' || per === 'key'

export const standingOf = ({ budget, used, periodEnd }: CounterFigures): SpendStanding => ({
  spent: used,
  amount: budget.amount,
  period: budget.period,
  resetsAt: periodEnd >= END_OF_TIME ? null : periodEnd,
  isShared: !isOwn(budget.per),
})
