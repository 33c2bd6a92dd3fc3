/** What the name of a Claude model says of it, wherever it is served. */

/** `claude-3-7-sonnet-2025…`, `claude-sonnet-4-5-2025…`, `claude-v2`: the version and what follows its dot. */
const VERSION = /claude-(?:[a-z]+-)?v?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/

/** The version as a number: 3.07 for 3.7, 4 for 4.0. A name without one is newer than any; undefined: it is no Claude. */
export const claudeVersion = (model: string): number | undefined => {
  const name = model.toLowerCase()
  if (!name.includes('claude')) return undefined
  const [, whole, part] = VERSION.exec(name) ?? []
  return whole === undefined ? Number.POSITIVE_INFINITY : Number(whole) + Number(part ?? 0) / 100
}

/** Takes a thinking budget, and neither an effort nor adaptive thinking, which came with 4.6 (Anthropic's guides on both). */
export const thinksByBudgetOnly = (model: string): boolean => {
  const version = claudeVersion(model)
  return version !== undefined && version >= 3.07 && version < 4.06
}
