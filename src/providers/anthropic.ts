import { budgetOfEffort, fitBudget } from '../core/claude-thinking.ts'
import type { ErrorTable } from '../core/error-table.ts'
import { isObject, type JsonObject, number, text } from '../core/json.ts'
import { withoutMember } from '../core/json-edit.ts'
import type { Provider } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { thoughtBeforeCalls } from './quirks/claude.ts'
import { claudeCache } from './quirks/prompt-caches.ts'
import { inOrder, type RequestQuirk } from './quirks/request.ts'

/** Anthropic's own tools omit `/v1` from the base URL; others include it. */
const withVersion = (url: string): string => {
  const bare = withoutSlashes(url)
  return bare.endsWith('/v1') ? bare : `${bare}/v1`
}

const SAMPLING = ['temperature', 'top_p', 'top_k'] as const

/** Claude Opus 4.7 and later, which do not accept sampling settings. */
const REFUSES_SAMPLING = /^claude-(?:opus-4-[7-9]|(?:opus|sonnet|haiku|fable|mythos)-[5-9]|mythos-preview)/
/** Models from Opus 4.1 on that accept temperature or top_p, but not both. */
const ACCEPTS_ONE = /^claude-(?:opus-4-[156]|sonnet-4-[56]|haiku-4-5)/

/**
 * Newer models answer 400 to sampling settings: from Opus 4.7 on to any non-default value, before that (from Opus 4.1) to
 * temperature and top_p together (Anthropic's migration guides). Default values are removed without a report.
 */
const samplingOfNewerModels: RequestQuirk = (body, model, lost) => {
  const given = SAMPLING.filter((member) => body[member] !== undefined && body[member] !== null)
  if (given.length === 0) return body
  if (REFUSES_SAMPLING.test(model)) {
    for (const member of given) if (member === 'top_k' || body[member] !== 1) lost(member)
    return withoutMember(body, ...given)
  }
  if (ACCEPTS_ONE.test(model) && given.includes('temperature') && given.includes('top_p')) {
    if (body.top_p !== 1) lost('top_p')
    return withoutMember(body, 'top_p')
  }
  return body
}

/** Models with a thinking budget only: adaptive thinking and effort came with Opus 4.6. */
const THINKS_BY_BUDGET = /^claude-(?:[123]|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-[0-9]{8})?$)/

/**
 * Older models answer 400 to adaptive thinking and to an effort (Anthropic's guides on both name the models). Adaptive thinking
 * becomes a budget of the effort's size, as in a translated request; without room for one, or with a forced tool call, it is
 * removed. What the budget does not represent is reported as dropped.
 */
const effortOfOlderModels: RequestQuirk = (body, model, lost) => {
  if (!THINKS_BY_BUDGET.test(model)) return body
  const { thinking, output_config: output } = body
  const adaptive = isObject(thinking) && thinking.type === 'adaptive' ? thinking : undefined
  const effort = isObject(output) ? text(output.effort) : undefined
  if (!adaptive && effort === undefined) return body
  const { tokens, exact } = budgetOfEffort(effort)
  const budget = adaptive && !forcesCall(body) ? fitBudget(tokens, number(body.max_tokens) ?? 0) : null
  if (adaptive && budget === null) lost('thinking')
  // In another API style the display is a separate member.
  if (adaptive?.display !== undefined && budget === null) lost('thinking.display')
  if (effort !== undefined && !(budget !== null && exact)) lost('output_config.effort')
  const bare = withoutMember(body, ...(adaptive ? ['thinking'] : []))
  const thought =
    budget === null ? bare : { ...bare, thinking: { ...adaptive, type: 'enabled', budget_tokens: budget } }
  if (effort === undefined || !isObject(output)) return thought
  const kept = withoutMember(output, 'effort')
  return Object.keys(kept).length > 0 ? { ...thought, output_config: kept } : withoutMember(thought, 'output_config')
}

/** Thinking and a forced call exclude each other. */
const forcesCall = ({ tool_choice: choice }: JsonObject): boolean =>
  isObject(choice) && (choice.type === 'any' || choice.type === 'tool')

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // An empty balance is reported as 400 `invalid_request_error`, or as a 429 that does not pass.
    {
      when: { status: 400, message: /^your credit balance is too low/i },
      kind: 'quota',
      seen: 'anthropic-messages-400-3',
    },
    {
      when: { status: 400, message: /^you have reached your specified (?:workspace )?api usage limits/i },
      kind: 'quota',
      seen: 'github.com/anthropics/claude-code/issues/38035 (2026-03-24)',
    },
    {
      when: { word: 'enforced_spend_limit_reached' },
      kind: 'quota',
      seen: 'platform.claude.com/docs/en/api/rate-limits (2026-11-21)',
    },
  ],
}

export default {
  name: 'anthropic',
  promptCache: [
    claudeCache({
      owner: 'workspace',
      source: 'https://platform.claude.com/docs/en/build-with-claude/prompt-caching',
    }),
  ],
  takesBreakpoints: true,
  title: 'Anthropic',
  // platform.claude.com/docs/en/build-with-claude/refusals-and-fallback (2026-11-28).
  readsPreferences: ['fallbacks'],
  order: 20,
  baseUrl: 'https://api.anthropic.com/v1',
  normalizeBaseUrl: withVersion,
  speaks: [{ protocol: 'anthropic-messages' }],
  auth: { header: 'x-api-key' },
  headers: { 'anthropic-version': '2023-06-01' },
  defaultModel: 'claude-haiku-4-5',
  readsBillingLine: true,
  // platform.claude.com/docs/en/build-with-claude/fast-mode: 6 times with Opus 4.6 and 4.7, twice with later ones; data residency: 1.1.
  service: { fast: 6, us: 1.1 },
  // Prefill was removed in 4.6: later models answer 400 (platform.claude.com, "What's new in Claude 4.6").
  supportsPrefill: { protocol: 'anthropic-messages', models: THINKS_BY_BUDGET },
  models: { path: '/models?limit=1000' },
  quirks: { requestBody: inOrder(samplingOfNewerModels, effortOfOlderModels, thoughtBeforeCalls), errors },
  note: 'The base URL may end in `/v1` or before it.',
} satisfies Provider
