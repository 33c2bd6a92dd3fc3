import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { reasoningModels } from './quirks/request.ts'

export default {
  name: 'openai',
  title: 'OpenAI',
  order: 10,
  baseUrl: 'https://api.openai.com/v1',
  speaks: [{ protocol: 'openai-chat' }, { protocol: 'openai-responses' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  // Samples as it is told unless asked to reason, so that any request can fall back to it.
  defaultModel: 'gpt-5.4-mini',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: reasoningModels },
  note: 'Responses calls go to the responses API; `OPENAI_STYLES=chat` keeps them on chat completions.',
} satisfies Provider
