import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'novita',
  title: 'Novita AI',
  order: 260,
  baseUrl: 'https://api.novita.ai/openai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Some of its models only (novita.ai/docs/guides/llm-anthropic-compatibility, 2026-11-21).
  alsoSpeaks: [{ protocol: 'anthropic-messages', path: '/anthropic/v1/messages', atHost: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
} satisfies Provider
