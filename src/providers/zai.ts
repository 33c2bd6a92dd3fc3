import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'zai',
  title: 'Z.ai',
  order: 190,
  baseUrl: 'https://api.z.ai/api/paas/v4',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'glm-4.7',
  models: { path: '/models' },
  // Its thinking models want the thoughts of a turn back while tools are being called.
  takesReasoning: true,
  quirks: { requestBody: olderChat },
  note: 'The coding plan has its own address: `ZAI_BASE_URL=https://api.z.ai/api/coding/paas/v4`.',
} satisfies Provider
