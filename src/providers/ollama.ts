import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { olderChat } from './quirks/request.ts'

/** The address has no version; base URLs of the compatible endpoint and of the native API are accepted too. */
const hostOnly = (url: string): string => withoutSlashes(url).replace(/\/(?:v1|api)$/, '')

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // Another model may support it; the capabilities are not known in advance.
    {
      when: { status: 400, message: / does not support [a-z]/ },
      kind: 'incapable',
      seen: 'github.com/ollama/ollama/issues/14795 (2026-03-12)',
    },
  ],
}

export default {
  name: 'ollama',
  title: 'Ollama',
  order: 150,
  family: 'of the model',
  normalizeBaseUrl: hostOnly,
  // The compatible endpoint silently ignores unknown members (a forced tool call, an image URL, `n`) and cannot switch
  // thinking on or off; the native API supports these, or the loss is reported.
  speaks: [{ protocol: 'ollama' }],
  // The other compatible endpoints are stateless and missing on older servers (docs.ollama.com/api/openai-compatibility and
  // …/anthropic-compatibility, 2026-11-21: responses from 0.13.3 on).
  alsoSpeaks: [
    { protocol: 'openai-chat', path: '/v1/chat/completions' },
    { protocol: 'openai-responses', path: '/v1/responses', stateless: true },
    { protocol: 'anthropic-messages', path: '/v1/messages' },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/v1/models' },
  quirks: { requestBody: olderChat, errors },
  note: 'Usually `http://localhost:11434`, without a version. The default model is the first it lists. Called in its own format; `OLLAMA_STYLES=chat` uses its OpenAI-compatible endpoint.',
  embeds: { protocol: 'openai-embeddings', path: '/v1/embeddings', models: [] },
} satisfies Provider
