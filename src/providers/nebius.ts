import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'nebius',
  title: 'Nebius Token Factory',
  order: 210,
  baseUrl: 'https://api.tokenfactory.nebius.com/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  embeds: { protocol: 'openai-embeddings', models: ['Qwen/Qwen3-Embedding-8B'] },
} satisfies Provider
