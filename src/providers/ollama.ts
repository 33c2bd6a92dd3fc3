import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** The address has no version; people also write the compatible endpoint's or the native API's. */
const hostOnly = (url: string): string => url.replace(/\/+$/, '').replace(/\/(?:v1|api)$/, '')

export default {
  name: 'ollama',
  title: 'Ollama',
  order: 150,
  normalizeBaseUrl: hostOnly,
  speaks: [{ protocol: 'openai-chat', path: '/v1/chat/completions' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/v1/models' },
  quirks: { requestBody: olderChat },
  note: 'Usually `http://localhost:11434`, without a version. The default model is the first it lists.',
} satisfies Provider
