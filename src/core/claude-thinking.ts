/** Thinking of Claude models with a budget: its size, and conversations that lack the thinking block it requires. */
import type { Effort } from './chat.ts'
import { isObject, type Json, type JsonObject, list, text } from './json.ts'

/**
 * Prefixes of the call IDs that Claude generates: `toolu_01…`, `toolu_vrtx_…`, `tooluse_…` on Bedrock. IDs of other
 * vendors are kept unchanged.
 */
const ITS_CALL = /^toolu(?:se)?_/

/** How a wire format represents the blocks of a message. */
export type BlockFormat = {
  readonly isThought: (block: JsonObject) => boolean
  readonly isResult: (block: JsonObject) => boolean
  /** The ID of a tool call; undefined: the block is not a tool call. */
  readonly callId: (block: JsonObject) => Json | undefined
}

/** Blocks of Anthropic's messages API. */
export const MESSAGES_BLOCKS: BlockFormat = {
  isThought: ({ type }) => type === 'thinking' || type === 'redacted_thinking',
  isResult: ({ type }) => type === 'tool_result',
  callId: ({ type, id = null }) => (type === 'tool_use' ? id : undefined),
}

/**
 * Whether the assistant message at this index lacks a required thinking block at its beginning. All calls and results
 * since the last user message are one turn (platform.claude.com, thinking in tool workflows, 2026-11-22). Without
 * interleaved thinking Claude thinks once per turn (github.com/dust-tt/srchd/pull/41, 2025-11-04: one thinking block
 * before 101 calls), so later calls of the turn need no block of their own.
 */
const lacksThinking = (messages: readonly Json[], index: number, format: BlockFormat): boolean => {
  const beginsWithThought = (message: Json | undefined): boolean => {
    const [first] = isObject(message) && message.role === 'assistant' ? blocksOf(message) : []
    return first !== undefined && format.isThought(first)
  }
  if (beginsWithThought(messages[index])) return false
  const calls = blocksOf(messages[index])
    .map(format.callId)
    .filter((id) => id !== undefined)
  if (calls.length === 0 || !calls.every((id) => ITS_CALL.test(text(id) ?? ''))) return true
  for (let at = index - 1; at >= 0; at--) {
    const message = messages[at]
    if (beginsWithThought(message)) return false
    if (isObject(message) && message.role === 'user' && !blocksOf(message).some(format.isResult)) return true
  }
  return true
}

/**
 * Whether the model continues from its own last message or from tool results, and that message lacks its thinking
 * block.
 */
export const continuesWithoutThinking = (messages: readonly Json[], format: BlockFormat): boolean => {
  const last = messages.findLastIndex((message) => isObject(message) && message.role === 'assistant')
  if (last === -1) return false
  const next = messages[last + 1]
  return (next === undefined || blocksOf(next).some(format.isResult)) && lacksThinking(messages, last, format)
}

const blocksOf = (message: Json | undefined): JsonObject[] =>
  list(isObject(message) ? message.content : undefined).filter(isObject)

// ── Budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Minimum thinking budget in tokens. */
export const MIN_BUDGET = 1_024

/** The thinking budget in tokens of each effort, for models without efforts. No vendor publishes such a table. */
export const BUDGETS: { readonly [effort in Exclude<Effort, 'none'>]: number } = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  // Opus 4 is limited to 32,000 output tokens in total.
  max: 24_576,
}

/** Efforts that a budget represents. Models with budgets have no others. */
const REPRESENTED: ReadonlySet<string> = new Set(['low', 'medium', 'high'])

/** The budget for adaptive thinking, or for an effort. `exact`: it represents the effort. */
export const budgetOfEffort = (effort: string | undefined): { readonly tokens: number; readonly exact: boolean } => {
  const level = Object.hasOwn(BUDGETS, effort ?? '') ? effort : undefined
  const tokens = BUDGETS[(level ?? 'medium') as keyof typeof BUDGETS]
  return { tokens, exact: effort === undefined || REPRESENTED.has(effort) }
}

/** The budget within the output limit, which must leave room for an answer; null: no budget fits. */
export const fitBudget = (tokens: number, limit: number): number | null => {
  const fitted = Math.max(MIN_BUDGET, tokens < limit ? tokens : Math.floor(limit / 2))
  return fitted < limit ? fitted : null
}
