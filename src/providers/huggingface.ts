import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'huggingface',
  title: 'Hugging Face',
  order: 240,
  family: 'of the model',
  baseUrl: 'https://router.huggingface.co/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // A beta that translates to chat completions (huggingface.co/docs/inference-providers/guides/responses-api, 2026-11-21).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  // The organisation that pays (github.com/diegosouzapw/OmniRoute/issues/8369, 2026-07-24).
  forwardHeaders: ['x-hf-bill-to'],
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models' },
  quirks: { requestBody: olderChat },
} satisfies Provider
