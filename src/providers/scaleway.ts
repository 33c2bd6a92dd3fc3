import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'scaleway',
  title: 'Scaleway',
  order: 290,
  baseUrl: 'https://api.scaleway.ai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // A beta (github.com/scaleway/docs-content/pull/5459, 2025-08-21).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
} satisfies Provider
