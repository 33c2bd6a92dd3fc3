import type { MemberLimits } from '../core/accepts.ts'
import type { ErrorTable } from '../core/error-table.ts'
import { list, object } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'
import { BREAKPOINTS } from './quirks/openai.ts'
import { costInDollars } from './quirks/reported-cost.ts'

/** Its model list states the output modalities. */
const writesText = idsWhere((entry) => {
  const written = list(object(entry.architecture)?.output_modalities)
  return written.length === 0 || written.includes('text')
})

/** A longer `user` is a 400 (github.com/ujisati/claude-code-provider-proxy/issues/11). */
const limits: MemberLimits = { user: { maxLength: 128 } }

/** Error codes are numeric statuses, also in a 200; the upstream provider's own error is in `metadata.raw`. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // An empty balance is a 402, and so is a budget reserved by requests in flight, which has a retry-after time.
    {
      when: { status: 402, word: 'openrouter_in_flight_budget' },
      kind: 'rate_limited',
      seen: 'openrouter.ai/docs/api/reference/errors-and-debugging (2026-11-21)',
    },
    {
      when: { status: 402, header: 'retry-after' },
      kind: 'rate_limited',
      seen: 'openrouter.ai/docs/api/reference/errors-and-debugging (2026-11-21)',
    },
    // A prompt that costs more than is left. A shorter one may be accepted, so the key is not at its end.
    {
      when: { status: 402, message: /^prompt tokens limit exceeded: [0-9]/i },
      kind: 'too_large_for_target',
      seen: 'github.com/anomalyco/opencode/issues/12219 (2026-05-04)',
    },
    // The spending limit of one key.
    {
      when: { status: 403, message: /^key limit exceeded/i },
      kind: 'quota',
      seen: 'github.com/RooCodeInc/Roo-Code/issues/515 (2025-01-23)',
    },
    {
      when: { status: 400, message: /is not a valid model ID$/i },
      kind: 'model_missing',
      seen: 'github.com/OpenRouterTeam/openrouter-examples/issues/74 (2026-05-06)',
    },
  ],
}

export default {
  name: 'openrouter',
  title: 'OpenRouter',
  order: 80,
  family: 'of the model',
  // openrouter.ai/docs/guides/routing/provider-selection, …/model-fallbacks and …/message-transforms (2026-11-27).
  readsPreferences: ['provider', 'models', 'route', 'transforms'],
  baseUrl: 'https://openrouter.ai/api/v1',
  // openrouter.ai/docs/use-cases/reasoning-tokens and …/api/reference/parameters (2026-11-21).
  speaks: [
    {
      protocol: 'openai-chat',
      accepts: { takes: ['verbosity'], reasoning: ['reasoning', 'reasoning_content', 'reasoning_details'], limits },
    },
  ],
  // Stateless; refuses `store`. Streams have ended without their last event (github.com/moeru-ai/airi/pull/2593, 2026-09-18),
  // and Codex's items have been refused (github.com/openai/codex/issues/12114). Messages: its guide for Claude Code.
  alsoSpeaks: [
    { protocol: 'openai-responses', stateless: true, accepts: { limits } },
    { protocol: 'anthropic-messages' },
  ],
  // openrouter.ai/docs/features/prompt-caching and …/typescript/models/promptcacheoptions (2026-11-26).
  cacheMarks: [BREAKPOINTS, { models: /^anthropic\//, mark: 'cache_control' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  // openrouter.ai/docs/app-attribution (2026-11-26).
  forwardHeaders: ['http-referer', 'x-title', 'x-openrouter-title', 'x-openrouter-categories'],
  defaultModel: 'openai/gpt-5.4-mini',
  models: { path: '/models', decode: writesText },
  quirks: { usage: costInDollars, errors },
  // POST /api/v1/audio/speech (github.com/BerriAI/litellm/issues/42111, 2026-09-20). Its transcriptions take JSON, not a form.
  relays: { speech: { models: [] } },
  embeds: {
    protocol: 'openai-embeddings',
    models: [
      'openai/text-embedding-3-small',
      'openai/text-embedding-3-large',
      'openai/text-embedding-ada-002',
      'google/gemini-embedding-001',
      'mistralai/mistral-embed-2312',
      'qwen/qwen3-embedding-8b',
    ],
  },
} satisfies Provider
