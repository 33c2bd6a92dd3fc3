import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'baseten',
  title: 'Baseten',
  order: 280,
  baseUrl: 'https://inference.baseten.co/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
} satisfies Provider
