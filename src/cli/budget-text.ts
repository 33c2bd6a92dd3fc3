/** Budgets as text. */
import { dayIn } from '../policy/accounts/period.ts'
import type { Stored } from './accounts/record-store.ts'

/** The day on which the next period of a budget begins, in its time zone; null: there is none, or it is unknown. */
export const resetDay = ({ now, timezone }: Pick<Stored<'budget'>, 'now' | 'timezone'>): string | null =>
  now?.period_end ? dayIn(timezone, Date.parse(now.period_end)) : null
