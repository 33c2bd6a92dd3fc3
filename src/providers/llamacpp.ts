import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'llamacpp',
  aliases: ['llama-cpp'],
  title: 'llama.cpp',
  order: 410,
  basePath: '/v1',
  family: 'of the model',
  speaks: [{ protocol: 'openai-chat' }],
  // Translated to chat completions there (github.com/ggml-org/llama.cpp/pull/21174, 2026-04-05; pull/17570, 2025-11-25).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  quirks: { requestBody: olderChat },
  note: 'Usually `http://localhost:8080/v1`. The default model is the one it serves.',
  // "batch size 100 > maximum allowed batch size 32" (garrytan/gbrain#1281, 2026-05); more calls cost a local server little.
  embeds: { protocol: 'openai-embeddings', models: [], limits: { inputs: 32 } },
} satisfies Provider
