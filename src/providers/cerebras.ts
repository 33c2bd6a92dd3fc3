import type { Provider } from '../core/provider.ts'

export default {
  name: 'cerebras',
  title: 'Cerebras',
  order: 110,
  baseUrl: 'https://api.cerebras.ai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'gpt-oss-120b',
  models: { path: '/models' },
} satisfies Provider
