import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** An empty balance has been reported as a 429 with a specific type, and as a 500 without one. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { message: /^insufficient balance \(1008\)/i },
      kind: 'quota',
      seen: 'github.com/MiniMax-AI/MiniMax-M2/issues/62 (2025-12-23)',
    },
  ],
}

export default {
  name: 'minimax',
  title: 'MiniMax',
  order: 300,
  baseUrl: 'https://api.minimax.io/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Both documented (platform.minimax.io/docs/api-reference, 2026-11-21), neither recorded.
  alsoSpeaks: [
    { protocol: 'openai-responses', stateless: true },
    { protocol: 'anthropic-messages', path: '/anthropic/v1/messages', atHost: true },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'MiniMax-M3',
  knownModels: ['MiniMax-M3', 'MiniMax-M2.5'],
  quirks: { requestBody: olderChat, errors },
} satisfies Provider
