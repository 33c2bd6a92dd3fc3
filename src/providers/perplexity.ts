import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'perplexity',
  title: 'Perplexity',
  order: 170,
  baseUrl: 'https://api.perplexity.ai',
  speaks: [{ protocol: 'openai-chat' }],
  // Its Agent API, which has other models than chat completions (docs.perplexity.ai/docs/agent-api/openai-compatibility, 2026-11-21).
  alsoSpeaks: [{ protocol: 'openai-responses', path: '/v1/responses', keepsNothing: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'sonar',
  // The list at /v1/models is of models for another of its interfaces (recording
  // perplexity-models-providers-perplexity-models-list-models-lists-th-aebe7552); these are what chat completions take.
  listed: ['sonar', 'sonar-pro', 'sonar-reasoning-pro', 'sonar-deep-research'],
  quirks: { requestBody: olderChat },
} satisfies Provider
