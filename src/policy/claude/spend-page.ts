/** The answer of `GET /api/oauth/usage`: what a person has spent of the budgets that only this person uses. */
import type { JsonObject } from '../../core/json.ts'
import { NANO_PER_DOLLAR, type Nano } from '../../core/money.ts'
import { fullest, type SpendStanding, usedPart } from '../../core/spend-standing.ts'

/** The name of a period. Clients know these three; others are shown as they are. */
const GROUPS: { readonly [period: string]: string | undefined } = { day: 'daily', week: 'weekly', month: 'monthly' }

/** What a person without a budget has spent in the current month, day and week (UTC, from Monday). */
export type SpentLately = { readonly month: Nano; readonly day: Nano; readonly week: Nano }

/** The page for these budgets; there is at least one. */
export const spendPage = (standings: readonly SpendStanding[]): JsonObject => {
  const active = fullest(standings)
  return {
    ...(active && {
      extra_usage: {
        is_enabled: true,
        monthly_limit: cents(active.amount),
        used_credits: cents(active.spent),
        utilization: percent(active),
        currency: 'USD',
      },
    }),
    limits: standings.map((one) => ({
      kind: 'spend',
      group: GROUPS[one.period] ?? one.period,
      percent: percent(one),
      resets_at: one.resetsAt === null ? null : new Date(one.resetsAt).toISOString(),
      severity: severityOf(usedPart(one)),
      is_active: one === active,
    })),
  }
}

/** The page of a person without a budget. */
export const spentPage = ({ month, day, week }: SpentLately): JsonObject => ({
  extra_usage: {
    is_enabled: true,
    monthly_limit: null,
    used_credits: cents(month),
    utilization: null,
    currency: 'USD',
    daily: { limit: null, used_credits: cents(day), utilization: null },
    weekly: { limit: null, used_credits: cents(week), utilization: null },
  },
  limits: [],
})

const cents = (amount: Nano): number => Math.floor((amount * 100) / NANO_PER_DOLLAR)

/** Below 100 while requests are served. */
const percent = (one: SpendStanding): number => {
  const used = usedPart(one)
  const rounded = Math.round(used * 100)
  return used >= 1 ? rounded : Math.min(rounded, 99)
}

const severityOf = (used: number): string => (used > 0.95 ? 'critical' : used > 0.75 ? 'warning' : 'normal')
