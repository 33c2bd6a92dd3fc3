/** What Anthropic's clients send and expect besides the bodies. */
import type { HeaderLookup } from '../../core/headers.ts'
import { isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import type { RateLimitNames } from '../../core/protocol.ts'

export const rateLimitNames: RateLimitNames = {
  requests: {
    limit: 'anthropic-ratelimit-requests-limit',
    remaining: 'anthropic-ratelimit-requests-remaining',
    reset: 'anthropic-ratelimit-requests-reset',
  },
  tokens: {
    limit: 'anthropic-ratelimit-tokens-limit',
    remaining: 'anthropic-ratelimit-tokens-remaining',
    reset: 'anthropic-ratelimit-tokens-reset',
  },
  resetAs: 'date',
}

/** Whether the body has members of Anthropic messages that chat completions lack, at the top, in tools or in content. */
export const recognises = ({ system, stop_sequences, tools, messages }: JsonObject, headers: HeaderLookup): boolean =>
  headers('anthropic-version') !== undefined ||
  system !== undefined ||
  stop_sequences !== undefined ||
  list(tools).some((tool) => isObject(tool) && tool.input_schema !== undefined) ||
  list(messages).some((message) => isObject(message) && list(message.content).some(isOwnBlock))

const BLOCKS: ReadonlySet<Json | undefined> = new Set([
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
  'image',
  'document',
])

const isOwnBlock = (block: Json): boolean => isObject(block) && BLOCKS.has(block.type)
