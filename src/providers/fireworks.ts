import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

/** Its model list states which models support chat. */
const chatting = idsWhere((entry) => entry.supports_chat !== false)

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 412, message: /^account .{1,100} is suspended/i },
      kind: 'quota',
      seen: 'github.com/pollinations/pollinations/issues/12136 (2026-07-01)',
    },
  ],
}

export default {
  name: 'fireworks',
  title: 'Fireworks AI',
  order: 100,
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  // docs.fireworks.ai/guides/reasoning and its reference (2026-11-21); other members are refused
  // (github.com/web-infra-dev/midscene/issues/1322).
  speaks: [
    {
      protocol: 'openai-chat',
      accepts: {
        takes: ['store', 'metadata', 'prompt_cache_key'],
        refuses: { verbosity: 'medium' },
        reasoning: ['reasoning_content'],
      },
    },
  ],
  // Responses are stored for 30 days by default, chat completions are not (docs.fireworks.ai/guides/response-api,
  // 2026-11-21): using them is the operator's decision.
  alsoSpeaks: [{ protocol: 'openai-responses' }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'accounts/fireworks/models/minimax-m3',
  models: { path: '/models', decode: chatting },
  quirks: { requestBody: olderChat, errors },
  embeds: { protocol: 'openai-embeddings', models: ['fireworks/qwen3-embedding-8b', 'nomic-ai/nomic-embed-text-v1.5'] },
} satisfies Provider
