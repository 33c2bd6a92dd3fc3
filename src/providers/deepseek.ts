import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** Every error has the code `invalid_request_error`: words alone tell what a 400 is. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 400, message: /^model not exist/i },
      kind: 'model_missing',
      seen: 'github.com/langbot-app/LangBot/issues/1643 (2025-09-02)',
    },
    {
      when: { status: 400, message: /^content exists risk/i },
      kind: 'content_policy',
      seen: 'github.com/666ghj/BettaFish/issues/108 (2025-11-04)',
    },
  ],
}

export default {
  name: 'deepseek',
  title: 'DeepSeek',
  order: 70,
  baseUrl: 'https://api.deepseek.com',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'deepseek-v4-flash',
  models: { path: '/models' },
  // Its thinking models want the thoughts of a turn back while tools are being called.
  takesReasoning: true,
  quirks: { requestBody: olderChat, errors },
} satisfies Provider
