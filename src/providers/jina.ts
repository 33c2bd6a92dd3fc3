import { withoutMember } from '../core/json-edit.ts'
import type { Embeds, Provider } from '../core/provider.ts'
import { onlyMembers } from './quirks/embedding-members.ts'

/** api.jina.ai/openapi.json (2026-11-28). */
const known = onlyMembers(
  new Set(['model', 'input', 'task', 'dimensions', 'embedding_type', 'normalized', 'late_chunking', 'truncate']),
)

/**
 * "Extra inputs are not permitted" for `encoding_format` (QuantumNous/new-api#1941, 2025-09), which OpenAI's libraries always send. It
 * is not lost: the gateway returns the vectors in the encoding that the client wants.
 */
const embeddingMembers: NonNullable<Embeds['requestBody']> = (body, model, lost) =>
  known(body.encoding_format === undefined ? body : withoutMember(body, 'encoding_format'), model, lost)

export default {
  name: 'jina',
  aliases: ['jinaai', 'jina-ai'],
  title: 'Jina AI',
  order: 440,
  baseUrl: 'https://api.jina.ai/v1',
  speaks: [],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  note: 'Embeddings and rerank only.',
  // api.jina.ai/openapi.json (2026-11-28): `top_n`, and an answer with `results`.
  relays: {
    rerank: {
      models: ['jina-reranker-v3', 'jina-reranker-m0', 'jina-reranker-v2-base-multilingual', 'jina-colbert-v2'],
      refuses: { top_k: /^/ },
    },
  },
  embeds: {
    protocol: 'openai-embeddings',
    models: [
      'jina-embeddings-v4',
      'jina-embeddings-v3',
      'jina-clip-v2',
      'jina-code-embeddings-1.5b',
      'jina-code-embeddings-0.5b',
      'jina-embeddings-v2-base-en',
    ],
    requestBody: embeddingMembers,
    // "Each input list can contain at most 512 items." (langgenius/dify-official-plugins#1997, 2025-11). Older models take 2,048.
    limits: { inputs: 512 },
  },
} satisfies Provider
