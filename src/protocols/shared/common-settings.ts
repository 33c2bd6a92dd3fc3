/** The members of settings that OpenAI's formats have in common. */
import type { SameFormat } from '../../core/protocol.ts'

export const commonSettings = {
  temperature: { path: 'temperature' },
  topP: { path: 'top_p' },
  serviceTier: { path: 'service_tier' },
  parallelToolCalls: { path: 'parallel_tool_calls' },
  store: { path: 'store' },
  user: { path: 'user' },
} as const satisfies NonNullable<SameFormat['settings']>
