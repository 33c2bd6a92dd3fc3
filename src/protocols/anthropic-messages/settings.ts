/** The members of settings that operators may change for a target. */
import { isEffort } from '../../core/chat.ts'
import { isObject, list } from '../../core/json.ts'
import type { SameFormat } from '../../core/protocol.ts'

export const settings: NonNullable<SameFormat['settings']> = {
  temperature: { path: 'temperature' },
  topP: { path: 'top_p' },
  topK: { path: 'top_k' },
  maxOutputTokens: { path: 'max_tokens', isRequired: true },
  stop: { path: 'stop_sequences' },
  effort: { path: 'output_config.effort', encode: (level) => (isEffort(level) ? EFFORTS[level] : undefined) },
  thinkingBudget: {
    path: 'thinking',
    encode: (tokens) => (tokens === 0 ? { type: 'disabled' } : { type: 'enabled', budget_tokens: tokens }),
  },
  serviceTier: { path: 'service_tier' },
  parallelToolCalls: {
    path: 'tool_choice',
    // Without tools a choice is refused.
    encode: (value, { tools, tool_choice }) =>
      list(tools).length === 0
        ? undefined
        : { ...(isObject(tool_choice) ? tool_choice : { type: 'auto' }), disable_parallel_tool_use: value === false },
  },
  user: { path: 'metadata.user_id' },
}

/** The levels of this format; none: it has no level that switches reasoning off. */
const EFFORTS = {
  none: undefined,
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
} as const
