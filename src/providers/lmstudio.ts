import { object } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { inOrder, olderChat, onlyResponses, type RequestQuirk } from './quirks/request.ts'

/**
 * Its Responses API silently answers a JSON request with prose (github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2403,
 * 2026-09-14, and 1396); its chat completions enforce the schema.
 */
const noFormats: RequestQuirk = (body, _model, lost) => {
  const wanted = object(body.text)
  if (!wanted || (object(wanted.format)?.type ?? 'text') === 'text') return body
  lost('text.format', true)
  const { format: _, ...text } = wanted
  return { ...body, text }
}

export default {
  name: 'lmstudio',
  aliases: ['lm-studio'],
  title: 'LM Studio',
  order: 400,
  basePath: '/v1',
  family: 'of the model',
  speaks: [{ protocol: 'openai-chat' }],
  // Responses from 0.3.29 on, messages from 0.4.1 on (lmstudio.ai/docs/developer/api-changelog).
  alsoSpeaks: [{ protocol: 'openai-responses' }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  // Only its own list states the window of a loaded model (github.com/co-l/openfox/issues/49, 2026-07-14).
  models: { path: '/models', nativePath: '/api/v0/models', decode: chatIds },
  quirks: { requestBody: inOrder(olderChat, onlyResponses(noFormats)) },
  note: 'Usually `http://localhost:1234/v1`. The default model is the first it lists.',
  embeds: { protocol: 'openai-embeddings', models: [] },
} satisfies Provider
