/** The teams and the budgets that calls of the gateway's own are charged to: shadows of routes, and live checks of their targets. */
import type { Settings } from '../core/settings.ts'
import { DRILL_TEAM, hasLiveChecks } from '../policy/drill/live-rules.ts'
import { SHADOW_TAG, SHADOW_TEAM, shadowName } from '../policy/routing/shadow.ts'
import { BUDGET_ENTRY } from '../records/entities/budget.ts'
import { TEAM_ENTRY } from '../records/entities/team.ts'
import type { FileContent } from './file-content.ts'

/** The file with them, unless it has others of these names. */
export const withShadowAccounts = (content: FileContent): FileContent => {
  const shadows = [...content.routes].flatMap(([name, { shadow }]) => (shadow ? [{ name, shadow }] : []))
  if (shadows.length === 0) return content
  const teams = new Map(content.teams)
  const budgets = new Map(content.budgets)
  if (!teams.has(SHADOW_TEAM)) teams.set(SHADOW_TEAM, TEAM_ENTRY.parse({}))
  for (const { name, shadow } of shadows) {
    const tag = shadowName(name)
    const budget = `${SHADOW_TEAM} ${tag}`
    if (budgets.has(budget)) continue
    const appliesTo = { teams: [SHADOW_TEAM], tags: { [SHADOW_TAG]: tag } }
    budgets.set(budget, BUDGET_ENTRY.parse({ amount: String(shadow.budget), period: 'day', appliesTo }))
  }
  return { ...content, teams, budgets }
}

/** The file with those of live checks, unless it has others of these names. The longest possible answer is reserved. */
export const withDrillAccounts = (content: FileContent, drill: Settings['drill'] | undefined): FileContent => {
  if (!drill || !hasLiveChecks({ settings: { drill }, routes: content.routes })) return content
  const teams = new Map(content.teams)
  const budgets = new Map(content.budgets)
  if (!teams.has(DRILL_TEAM)) teams.set(DRILL_TEAM, TEAM_ENTRY.parse({}))
  if (!budgets.has(DRILL_TEAM)) {
    const rules = { period: 'day', reserve: 'max', appliesTo: { teams: [DRILL_TEAM] } }
    budgets.set(DRILL_TEAM, BUDGET_ENTRY.parse({ ...rules, amount: drill.budget }))
  }
  return { ...content, teams, budgets }
}
