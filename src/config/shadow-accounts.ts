/** The team and the budgets that shadows of routes are charged to. */
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
