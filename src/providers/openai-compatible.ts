import type { Provider } from '../core/provider.ts'
import { withoutReasoning } from './quirks/openai.ts'
import { inOrder, olderChatUnlessOpenai } from './quirks/request.ts'

export default {
  name: 'openai-compatible',
  title: 'OpenAI-compatible server',
  order: 9000,
  family: 'of the model',
  generic: true,
  basePath: '/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  // Most such servers ignore the newer name of the output limit, which would leave the answer unlimited.
  quirks: { requestBody: inOrder(withoutReasoning, olderChatUnlessOpenai) },
  note: 'Used for every other name with a key and a base URL: `MY_LLM_API_KEY` and `MY_LLM_BASE_URL`.',
  relays: {
    moderations: { models: [] },
    transcriptions: { models: [] },
    translations: { models: [] },
    speech: { models: [] },
    images: { models: [] },
    'image-edits': { models: [] },
    'image-variations': { models: [] },
    rerank: { models: [] },
    realtime: { models: [] },
  },
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
