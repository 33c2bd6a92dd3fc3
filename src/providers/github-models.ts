import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { withoutReasoning } from './quirks/openai.ts'
import { inOrder, reasoningModels } from './quirks/request.ts'

/** Its request limit is below the model's context window, so other providers may accept the request. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 413, word: 'tokens_limit_reached' },
      kind: 'token_rate',
      seen: 'github.com/eslint/tsc-meetings/pull/593 (2025-07-03)',
    },
  ],
}

export default {
  name: 'github-models',
  title: 'GitHub Models',
  order: 310,
  family: 'of the model',
  baseUrl: 'https://models.github.ai/inference',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-4.1-mini',
  quirks: { requestBody: inOrder(withoutReasoning, reasoningModels), errors },
  note: 'The key is a GitHub token that may read models. Its model list is at another address, so set the models in `GITHUB_MODELS_MODELS`.',
  embeds: { protocol: 'openai-embeddings', models: ['openai/text-embedding-3-small', 'openai/text-embedding-3-large'] },
} satisfies Provider
