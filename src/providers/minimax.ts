import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'minimax',
  title: 'MiniMax',
  order: 300,
  baseUrl: 'https://api.minimax.io/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'MiniMax-M3',
  listed: ['MiniMax-M3', 'MiniMax-M2.5'],
  quirks: { requestBody: olderChat },
} satisfies Provider
