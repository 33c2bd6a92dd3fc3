import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'novita',
  title: 'Novita AI',
  order: 260,
  baseUrl: 'https://api.novita.ai/openai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
} satisfies Provider
