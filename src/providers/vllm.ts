import type { Provider } from '../core/provider.ts'
import { acknowledgedResults, alternating, systemFirst } from './quirks/chat-messages.ts'
import { inOrder, olderChat, onlyChat } from './quirks/request.ts'

export default {
  name: 'vllm',
  title: 'vLLM',
  order: 160,
  basePath: '/v1',
  family: 'of the model',
  speaks: [{ protocol: 'openai-chat' }],
  // Stores responses only with VLLM_ENABLE_RESPONSES_API_STORE; the messages API is missing on older servers.
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  // Chat templates of many models refuse adjacent messages of one role, and later system messages (github.com/vllm-project/vllm/issues/6862, 2024-07-27).
  quirks: { requestBody: inOrder(olderChat, onlyChat(inOrder(systemFirst, alternating, acknowledgedResults))) },
  // Its extra parameters of chat completions, which are mutually exclusive.
  supportsPrefill: {
    protocol: 'openai-chat',
    body: (body) => ({ ...body, continue_final_message: true, add_generation_prompt: false }),
  },
  note: 'Usually `http://localhost:8000/v1`. The default model is the one it serves.',
  // docs.vllm.ai/en/v0.22.1/serving/online_serving/speech_to_text (2026-11-27).
  relays: {
    transcriptions: { models: [] },
    translations: { models: [] },
    // docs.vllm.ai/en/stable/examples/pooling/score (2026-11-28): the shapes of Cohere and Jina.
    rerank: { models: [], refuses: { top_k: /^/ } },
    // docs.vllm.ai/en/latest/examples/speech_to_text/realtime (2026-11-28): transcription; the session names the model.
    realtime: { models: [] },
  },
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
