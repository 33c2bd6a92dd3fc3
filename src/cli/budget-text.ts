/** Budgets as text. */
import { dayIn } from '../policy/accounts/period.ts'
import type { FORECAST } from '../records/entities/budget.ts'
import type { Shown } from '../records/entities/shown.ts'
import type { Stored } from './accounts/record-store.ts'

/** The day on which the next period of a budget begins, in its time zone; null: there is none, or it is unknown. */
export const resetDay = ({ now, timezone }: Pick<Stored<'budget'>, 'now' | 'timezone'>): string | null =>
  now?.period_end ? dayIn(timezone, Date.parse(now.period_end)) : null

const DAY_HOURS = 24

/** On what a forecast rests; null: there is no data. */
export const basisText = ({ basis, hours }: Pick<Shown<typeof FORECAST>, 'basis' | 'hours'>): string | null => {
  if (basis === 'present') return 'at the present rate'
  if (basis === 'period') return 'as in this period'
  // A gateway of an earlier version does not state the hours.
  if (basis === null || hours === null) return basis && 'as in the last week'
  if (hours < 2 * DAY_HOURS) return `as in the last ${hours === 1 ? 'hour' : `${hours} hours`}`
  return `as in the last ${Math.round(hours / DAY_HOURS)} days`
}
