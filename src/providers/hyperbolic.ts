import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'hyperbolic',
  title: 'Hyperbolic',
  order: 250,
  baseUrl: 'https://api.hyperbolic.xyz/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'meta-llama/Llama-3.3-70B-Instruct',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
} satisfies Provider
