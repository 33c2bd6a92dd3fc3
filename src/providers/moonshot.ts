import type { ErrorTable } from '../core/error-table.ts'
import { type Json, number, object } from '../core/json.ts'
import { withoutMember } from '../core/json-edit.ts'
import type { Provider } from '../core/provider.ts'
import { inOrder, olderChat, onlyChat, type RequestQuirk } from './quirks/request.ts'
import { forcedCallsWithoutThinking, thoughtsOfCalls } from './quirks/thinking.ts'

/** Models that think, by default or always. They have fixed sampling; older models sample as usual. */
const THINKS = /^kimi-(?:k2\.[5-9]|k[3-9]|k2-thinking|thinking|for-coding)/
/** Values that these models accept, or that clients send as a default. */
const FIXED: { readonly [member: string]: readonly Json[] } = {
  temperature: [1],
  top_p: [1, 0.95],
  presence_penalty: [0],
  frequency_penalty: [0],
}

/**
 * "invalid temperature: only 1 is allowed for this model" (github.com/Bike4Mind/bike4mind/issues/1089; without thinking only 0.6:
 * github.com/MoonshotAI/kimi-code/issues/686, 2026-06-12), `top_p` only 0.95 (github.com/google-gemini/gemini-cli/pull/18977,
 * 2026-02-13). Its reference fixes the penalties and `n` too. Without these members each mode has its own values
 * (github.com/HKUDS/nanobot/pull/4967, 2026-07-17).
 */
const fixedSampling: RequestQuirk = (body, model, lost) => {
  if (!THINKS.test(model)) return body
  for (const [member, usual] of Object.entries(FIXED)) {
    const value = body[member] ?? null
    if (value !== null && !usual.includes(value)) lost(member)
  }
  if ((number(body.n) ?? 1) > 1) lost('n', true)
  return withoutMember(body, ...Object.keys(FIXED))
}

/**
 * "tool_choice 'required' is incompatible with thinking enabled": K2.5 and K2.6 think by default
 * (github.com/can1357/oh-my-pi/issues/1077, 2026-05-14; github.com/AstrBotDevs/AstrBot/issues/7805, 2026-04-25). K2.7 cannot
 * disable it (github.com/ltmoerdani/opencode-copilot-chat/pull/45, 2026-06-15).
 */
const forcedCalls = forcedCallsWithoutThinking({
  thinks: ({ thinking }, model) => object(thinking)?.type !== 'disabled' && /^kimi-k2\.[56]/.test(model),
  off: { thinking: { type: 'disabled' } },
})

/**
 * "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
 * (github.com/bytedance/deer-flow/issues/3043, 2026-05-19; github.com/anomalyco/opencode/issues/16318, 2026-03-06). An empty text
 * is accepted (github.com/earendil-works/pi/pull/987; github.com/Lapis0x0/obsidian-yolo/pull/243, 2026-04-18).
 */
const thoughts: RequestQuirk = (body, model, ...rest) =>
  THINKS.test(model) ? thoughtsOfCalls(body, model, ...rest) : body

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { word: 'exceeded_current_quota_error' },
      kind: 'quota',
      seen: 'github.com/MoonshotAI/Kimi-K2/issues/5 (2025-07-12)',
    },
  ],
}

export default {
  name: 'moonshot',
  slug: 'moonshotai',
  title: 'Moonshot AI',
  order: 180,
  family: 'moonshotai',
  baseUrl: 'https://api.moonshot.ai/v1',
  speaks: [{ protocol: 'openai-chat', accepts: { reasoning: ['reasoning_content'] } }],
  // Both documented (platform.kimi.ai/docs/api/overview, 2026-11-21), neither recorded.
  alsoSpeaks: [
    { protocol: 'openai-responses', stateless: true },
    { protocol: 'anthropic-messages', path: '/anthropic/v1/messages', atHost: true },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'kimi-k2.6',
  models: { path: '/models' },
  // Its thinking models require the reasoning of a turn while tools are being called.
  acceptsReasoning: true,
  quirks: { requestBody: inOrder(olderChat, fixedSampling, onlyChat(inOrder(forcedCalls, thoughts))), errors },
} satisfies Provider
