import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

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
  title: 'Moonshot AI',
  order: 180,
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
  quirks: { requestBody: olderChat, errors },
} satisfies Provider
