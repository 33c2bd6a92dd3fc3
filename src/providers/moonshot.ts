import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'moonshot',
  title: 'Moonshot AI',
  order: 180,
  baseUrl: 'https://api.moonshot.ai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'kimi-k2.6',
  models: { path: '/models' },
  // Its thinking models want the thoughts of a turn back while tools are being called.
  takesReasoning: true,
  quirks: { requestBody: olderChat },
} satisfies Provider
