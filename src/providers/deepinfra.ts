import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'deepinfra',
  title: 'DeepInfra',
  order: 220,
  baseUrl: 'https://api.deepinfra.com/v1/openai',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  embeds: {
    protocol: 'openai-embeddings',
    models: ['BAAI/bge-m3', 'Qwen/Qwen3-Embedding-8B'],
    // 422 above 1,024 inputs (langchain-ai/langchain#21188, 2024-05).
    limits: { inputs: 1_024 },
  },
} satisfies Provider
