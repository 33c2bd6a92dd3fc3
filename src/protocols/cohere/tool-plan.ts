/**
 * `tool_plan`: what a model says it is about to do, before it calls tools. Cohere documents it as "a chain-of-thought
 * style reflection and plan", so here it is reasoning and no part of the answer: a client that reads an answer as JSON,
 * or shows it, is not given the plan in front of it. It has to come back as `tool_plan`, since beside calls other words
 * are refused ("text content is not allowed when tool_calls are provided", vercel/ai#5794), and models that think write
 * both. So each block of reasoning bears a mark of which it was. Nothing is proved by it, but a proof is what clients of
 * every format keep with its block and return. Both are marked: where some blocks of chat completions have a proof, those
 * without are not told apart.
 */
import type { ReasoningSignature } from '../../core/chat.ts'

export const PLAN: ReasoningSignature = { origin: 'cohere', value: 'tool_plan' }
export const THOUGHT: ReasoningSignature = { origin: 'cohere', value: 'thinking' }

export const isPlan = (proof: ReasoningSignature | undefined): boolean =>
  proof?.origin === PLAN.origin && proof.value === PLAN.value
