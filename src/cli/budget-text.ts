/** Budgets as text. */
import { type JsonObject, object, text } from '../core/json.ts'
import { dayIn } from '../policy/accounts/period.ts'

/** The day on which the next period of a budget begins, in its time zone; null: there is none, or it is unknown. */
export const resetDay = (budget: JsonObject): string | null => {
  const end = text(object(budget.now)?.period_end)
  return end === undefined ? null : dayIn(text(budget.timezone) ?? 'UTC', Date.parse(end))
}
