/** Limits of OpenAI, in the form of `Accepts.limits`. Values are digested, and the change is reported. */
import type { MemberLimits } from '../../core/accepts.ts'

/**
 * `user` (github.com/maximhq/bifrost/issues/1000), `safety_identifier` (its OpenAPI document) and `prompt_cache_key`
 * (github.com/vybestack/llxprt-code/issues/2135, 2026-06-23; github.com/alibaba/open-code-review/issues/1007, 2026-08-19; Azure:
 * github.com/windmill-labs/windmill/pull/10507, 2026-08-04).
 */
const IDENTIFIERS: MemberLimits = {
  user: { maxLength: 64 },
  safety_identifier: { maxLength: 64 },
  prompt_cache_key: { maxLength: 64 },
}

/** Limits of embeddings: only `user` (github.com/looplj/axonhub/issues/1669). */
export const EMBEDDINGS_LIMITS: MemberLimits = { user: { maxLength: 64 } }

/**
 * Limits of chat completions: IDs of calls (github.com/agno-agi/agno/issues/5382), and stop sequences
 * (github.com/continuedev/continue/issues/2461, 2024-10-04; Azure: github.com/QwenLM/Qwen-Agent/issues/228, 2024-06-27).
 */
export const CHAT_LIMITS: MemberLimits = {
  ...IDENTIFIERS,
  'messages[].tool_calls[].id': { maxLength: 40 },
  'messages[].tool_call_id': { maxLength: 40 },
  stop: { maxItems: 4 },
}

/**
 * Limits of responses: IDs of calls (github.com/AnswerDotAI/fastllm/issues/45, 2026-06-08; github.com/decolua/9router/issues/393)
 * and of items (github.com/can1357/oh-my-pi/issues/284, 2026-03-04; github.com/github/app/issues/499, 2026-05-27). Its own are
 * shorter, so a longer one is of another provider and refers to nothing there.
 */
export const RESPONSES_LIMITS: MemberLimits = {
  ...IDENTIFIERS,
  'input[].id': { maxLength: 64 },
  'input[].call_id': { maxLength: 64 },
}
