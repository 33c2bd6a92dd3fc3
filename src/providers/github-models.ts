import type { Provider } from '../core/provider.ts'
import { reasoningModels } from './quirks/request.ts'

export default {
  name: 'github-models',
  title: 'GitHub Models',
  order: 310,
  baseUrl: 'https://models.github.ai/inference',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-4.1-mini',
  quirks: { requestBody: reasoningModels },
  note: 'The key is a GitHub token that may read models. Its catalogue lies at another address, so list models in `GITHUB_MODELS_MODELS`.',
} satisfies Provider
