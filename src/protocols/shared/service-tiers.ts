/** Service tiers in answers. `Usage.serviceTier` has the upstream's name in lower case. */

/** Names of the ordinary tier: OpenAI, Anthropic, Gemini. */
const ORDINARY: ReadonlySet<string> = new Set(['default', 'standard', 'on_demand'])
/** The tiers in OpenAI's answers, besides the ordinary one. */
const OPENAI: ReadonlySet<string> = new Set(['auto', 'flex', 'scale', 'priority', 'fast'])
/** The tiers in Anthropic's answers, besides the ordinary one. */
const ANTHROPIC: ReadonlySet<string> = new Set(['priority', 'batch'])

/** The tier as OpenAI names it; undefined if it is unknown or has no name there. */
export const openaiTier = (tier: string | undefined): string | undefined =>
  tier === undefined ? undefined : ORDINARY.has(tier) ? 'default' : OPENAI.has(tier) ? tier : undefined

/** The tier as Anthropic names it; undefined if it is unknown or has no name there. */
export const anthropicTier = (tier: string | undefined): string | undefined =>
  tier === undefined ? undefined : ORDINARY.has(tier) ? 'standard' : ANTHROPIC.has(tier) ? tier : undefined
