import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'sglang',
  title: 'SGLang',
  order: 420,
  basePath: '/v1',
  family: 'of the model',
  speaks: [{ protocol: 'openai-chat' }],
  // Missing on older servers, and with known bugs (github.com/sgl-project/sglang/issues/24294).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  quirks: { requestBody: olderChat },
  note: 'Usually `http://localhost:30000/v1`. The default model is the one it serves.',
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
