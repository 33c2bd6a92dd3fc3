/**
 * `tool_plan`: text that a model writes before it calls tools, "a chain-of-thought style reflection and plan" (Cohere). It
 * is decoded as reasoning, so that it does not precede an answer that the client parses or shows.
 *
 * In a later request it must return as `tool_plan`: other text beside calls is rejected ("text content is not allowed when
 * tool_calls are provided", vercel/ai#5794). Reasoning models write both a plan and thinking, so a signature marks the kind
 * of each reasoning block; clients of every format return signatures. Thinking is marked too, because in chat completions
 * unmarked blocks among marked ones cannot be distinguished.
 */
import type { ReasoningSignature } from '../../core/chat.ts'

export const PLAN: ReasoningSignature = { origin: 'cohere', value: 'tool_plan' }
export const THINKING: ReasoningSignature = { origin: 'cohere', value: 'thinking' }

export const isPlan = (signature: ReasoningSignature | undefined): boolean =>
  signature?.origin === PLAN.origin && signature.value === PLAN.value
