/**
 * `tool_plan`: what a model says it is about to do, before it calls tools. Cohere documents it as "a chain-of-thought
 * style reflection and plan", so here it is reasoning and no part of the answer: a client that reads an answer as JSON,
 * or shows it, is not given the plan in front of it. It has to come back as `tool_plan`, since beside calls other words
 * are refused ("text content is not allowed when tool_calls are provided", vercel/ai#5794), and models that think write
 * both; the mark tells it from a thought. A proof is what every client format keeps with reasoning and returns.
 */
import type { Proof } from '../../core/chat.ts'

export const PLAN: Proof = { origin: 'cohere', value: 'tool_plan' }

export const isPlan = (proof: Proof | undefined): boolean => proof?.origin === PLAN.origin && proof.value === PLAN.value
