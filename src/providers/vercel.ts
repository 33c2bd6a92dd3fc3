import type { ErrorTable } from '../core/error-table.ts'
import { text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'
import { costInDollars } from './quirks/reported-cost.ts'

/** Its model list states each model's type. */
const languageModels = idsWhere((entry) => (text(entry.type) ?? 'language') === 'language')

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { message: /^ai gateway requires a valid credit card/i },
      kind: 'quota',
      seen: 'github.com/arlanrakh/talk-to-girlfriend-ai/issues/6 (2026-01-11)',
    },
  ],
}

export default {
  name: 'vercel',
  aliases: ['ai-gateway'],
  title: 'Vercel AI Gateway',
  order: 320,
  family: 'of the model',
  baseUrl: 'https://ai-gateway.vercel.sh/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Both documented (vercel.com/docs/ai-gateway/sdks-and-apis, 2026-10-23); neither recorded, and storage is not mentioned.
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }, { protocol: 'anthropic-messages' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  // github.com/anomalyco/opencode/pull/1403 (2025-07-29).
  forwardHeaders: ['http-referer', 'x-title'],
  defaultModel: 'openai/gpt-4.1-mini',
  quirks: { usage: costInDollars, errors },
  models: { path: '/models', decode: languageModels },
  note: 'Vercel calls the variable `AI_GATEWAY_API_KEY`; that name works too.',
  // vercel.com/docs/ai-gateway/sdks-and-apis/cohere-rerank (2026-11-28): the shape of Cohere for the models of all vendors.
  relays: { rerank: { models: ['cohere/rerank-v3.5'], refuses: { top_k: /^/ } } },
  embeds: {
    protocol: 'openai-embeddings',
    models: [
      'openai/text-embedding-3-small',
      'openai/text-embedding-3-large',
      'cohere/embed-v4.0',
      'mistral/mistral-embed',
      'mistral/codestral-embed',
      'amazon/titan-embed-text-v2',
    ],
  },
} satisfies Provider
