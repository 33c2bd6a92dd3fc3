import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'nvidia',
  aliases: ['nvidia-nim'],
  title: 'NVIDIA NIM',
  order: 230,
  baseUrl: 'https://integrate.api.nvidia.com/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  embeds: { protocol: 'openai-embeddings', models: ['nvidia/llama-3.2-nv-embedqa-1b-v2'] },
} satisfies Provider
