import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** The address has no version; people also write the compatible endpoint's or the native API's. */
const hostOnly = (url: string): string => url.replace(/\/+$/, '').replace(/\/(?:v1|api)$/, '')

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // Another model may well: what it can is known only here.
    {
      when: { status: 400, message: / does not support [a-z]/ },
      kind: 'incapable',
      seen: 'github.com/ollama/ollama/issues/14795 (2026-03-12)',
    },
    {
      when: { status: 400, message: /exceeds the context length/ },
      kind: 'context_length',
      seen: 'github.com/nano-step/nano-brain/issues/208 (2026-05-30)',
    },
  ],
}

export default {
  name: 'ollama',
  title: 'Ollama',
  order: 150,
  normalizeBaseUrl: hostOnly,
  // Its compatible endpoint ignores without a word what it does not know (a tool that has to be called, a picture's
  // address, `n`), and cannot be told whether to think; here all that is said, and named where it is lost.
  speaks: [{ protocol: 'ollama' }],
  // The other compatible ones keep nothing, and are newer than many a server (docs.ollama.com/api/openai-compatibility and
  // …/anthropic-compatibility, 2026-11-21: responses from 0.13.3 on).
  alsoSpeaks: [
    { protocol: 'openai-chat', path: '/v1/chat/completions' },
    { protocol: 'openai-responses', path: '/v1/responses', keepsNothing: true },
    { protocol: 'anthropic-messages', path: '/v1/messages' },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/v1/models' },
  quirks: { requestBody: olderChat, errors },
  note: 'Usually `http://localhost:11434`, without a version. The default model is the first it lists. Called in its own format; `OLLAMA_STYLES=chat` uses its OpenAI-compatible endpoint.',
  embeds: { protocol: 'openai-embeddings', path: '/v1/embeddings', models: [] },
} satisfies Provider
