/** Capabilities derived from the name of a Claude model, at any provider. */

/** The major and minor version: `claude-3-7-sonnet-2025…`, `claude-sonnet-4-5-2025…`, `claude-v2`. */
const VERSION = /claude-(?:[a-z]+-)?v?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/

/** The version as a number: 3.07 for 3.7, 4 for 4.0; infinite without a version; undefined for other models. */
export const claudeVersion = (model: string): number | undefined => {
  const name = model.toLowerCase()
  if (!name.includes('claude')) return undefined
  const [, major, minor] = VERSION.exec(name) ?? []
  return major === undefined ? Number.POSITIVE_INFINITY : Number(major) + Number(minor ?? 0) / 100
}

/** Supports thinking budgets only. Efforts and adaptive thinking exist since 4.6 (Anthropic's guides on both). */
export const thinksByBudgetOnly = (model: string): boolean => {
  const version = claudeVersion(model)
  return version !== undefined && version >= 3.07 && version < 4.06
}

/** Returns a summary of its thinking, as all models since Claude 4 do (Anthropic's guide "Extended thinking"). */
export const showsSummary = (model: string): boolean => (claudeVersion(model) ?? 0) >= 4
