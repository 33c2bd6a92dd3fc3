import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'lmstudio',
  aliases: ['lm-studio'],
  title: 'LM Studio',
  order: 400,
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  note: 'Usually `http://localhost:1234/v1`. The default model is the first it lists.',
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
