import { text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

/** Its model list is a bare array that states each model's type. */
const conversing = idsWhere((entry) => ['chat', 'language', 'code'].includes(text(entry.type) ?? 'chat'))

export default {
  name: 'together',
  aliases: ['togetherai'],
  title: 'Together AI',
  order: 90,
  baseUrl: 'https://api.together.xyz/v1',
  // The name in its answers (recordings together-chat-*).
  speaks: [{ protocol: 'openai-chat', accepts: { reasoning: ['reasoning'] } }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: conversing },
  quirks: { requestBody: olderChat },
  catalogue: 'together',
  // "Compatible with Cohere's Rerank API" (docs.together.ai/docs/together-and-llamarank, 2026-11-28).
  relays: { rerank: { models: ['Salesforce/Llama-Rank-V1'], refuses: { top_k: /^/ } } },
  embeds: {
    protocol: 'openai-embeddings',
    models: ['BAAI/bge-base-en-v1.5', 'intfloat/multilingual-e5-large-instruct'],
  },
} satisfies Provider
