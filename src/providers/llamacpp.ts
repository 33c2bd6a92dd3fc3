import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'llamacpp',
  aliases: ['llama-cpp'],
  title: 'llama.cpp',
  order: 410,
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  quirks: { requestBody: olderChat },
  note: 'Usually `http://localhost:8080/v1`. The default model is the one it serves.',
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
