import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { alternating, systemFirst } from './quirks/chat-messages.ts'
import { totalCostInDollars } from './quirks/reported-cost.ts'
import { inOrder, olderChat, onlyChat } from './quirks/request.ts'

/** No tool support: neither definitions nor tool messages. */
const errors: ErrorTable = {
  checked: '2026-11-22',
  rows: [],
}

export default {
  name: 'perplexity',
  title: 'Perplexity',
  order: 170,
  baseUrl: 'https://api.perplexity.ai',
  speaks: [{ protocol: 'openai-chat', lacks: ['tools'], accepts: { reasoning: [] } }],
  // Its Agent API, which has other models than chat completions (docs.perplexity.ai/docs/agent-api/openai-compatibility, 2026-11-21).
  alsoSpeaks: [{ protocol: 'openai-responses', path: '/v1/responses', stateless: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'sonar',
  // The list at /v1/models is of the agents API (recording
  // perplexity-models-providers-perplexity-models-list-models-lists-th-aebe7552); chat completions support these models.
  knownModels: ['sonar', 'sonar-pro', 'sonar-reasoning-pro', 'sonar-deep-research'],
  // Roles alternate after the system messages (github.com/perplexityai/api-discussion/issues/265, 2025-04-01;
  // github.com/edenai/edenai-apis/pull/144, 2024-02-26: which come first).
  quirks: {
    requestBody: inOrder(olderChat, onlyChat(inOrder(systemFirst, alternating))),
    usage: totalCostInDollars,
    errors,
  },
} satisfies Provider
