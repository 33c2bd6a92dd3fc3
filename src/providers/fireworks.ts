import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

/** Its list says of each model whether it chats. */
const chatting = idsWhere((entry) => entry.supports_chat !== false)

export default {
  name: 'fireworks',
  title: 'Fireworks AI',
  order: 100,
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'accounts/fireworks/models/minimax-m3',
  models: { path: '/models', decode: chatting },
  quirks: { requestBody: olderChat },
} satisfies Provider
