import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'sambanova',
  title: 'SambaNova',
  order: 270,
  baseUrl: 'https://api.sambanova.ai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Both documented (docs.sambanova.ai/docs/en/features/anthropic-compatibility, 2026-11-21), neither recorded.
  alsoSpeaks: [
    { protocol: 'openai-responses', stateless: true },
    { protocol: 'anthropic-messages', auth: { header: 'x-api-key' } },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  embeds: { protocol: 'openai-embeddings', models: ['E5-Mistral-7B-Instruct'] },
} satisfies Provider
