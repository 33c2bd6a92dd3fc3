import type { Embeds, Provider } from '../core/provider.ts'
import { onlyMembers, withOutputDimension } from './quirks/embedding-members.ts'

/** docs.voyageai.com/reference/embeddings-api (2026-11-28). */
const known = onlyMembers(
  new Set(['model', 'input', 'input_type', 'truncation', 'output_dimension', 'output_dtype', 'encoding_format']),
)

/** The two purposes that it has; another one is 400. */
const PURPOSES: readonly unknown[] = ['query', 'document', null, undefined]

/**
 * "Argument 'dimensions' is not supported by our API" (410979729/scope-recall-hermes#88, 2026-09), and lists of numbers are the
 * absence of `encoding_format`: `float` is 400 (CherryHQ/cherry-studio#8034, 2025-07).
 */
const embeddingMembers: NonNullable<Embeds['requestBody']> = (body, model, lost) => {
  const { encoding_format: encoding, input_type: purpose, ...rest } = withOutputDimension(body)
  const isKnown = PURPOSES.includes(purpose)
  if (!isKnown) lost('input_type')
  const named = {
    ...rest,
    ...(encoding === 'base64' && { encoding_format: encoding }),
    ...(isKnown && purpose !== undefined && { input_type: purpose }),
  }
  return known(named, model, lost)
}

/** Most tokens of a call, by the model (the same page). */
const tokensOf = (model: string): number => {
  if (/^voyage-(?:4|3\.5)-lite$/.test(model)) return 1_000_000
  return /^voyage-(?:4|3\.5|2)$/.test(model) ? 320_000 : 120_000
}

export default {
  name: 'voyage',
  aliases: ['voyageai'],
  title: 'Voyage AI',
  order: 430,
  baseUrl: 'https://api.voyageai.com/v1',
  speaks: [],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  note: 'Embeddings and rerank only. With a key of MongoDB Atlas set `VOYAGE_BASE_URL=https://ai.mongodb.com/v1`.',
  // docs.voyageai.com/reference/reranker-api (2026-11-28): `top_k`, and an answer with `data`.
  relays: {
    rerank: {
      models: ['rerank-2.5', 'rerank-2.5-lite', 'rerank-3', 'rerank-3-lite', 'rerank-2', 'rerank-2-lite'],
      refuses: { top_n: /^/ },
    },
  },
  embeds: {
    protocol: 'openai-embeddings',
    models: [
      'voyage-4',
      'voyage-4-large',
      'voyage-4-lite',
      'voyage-3.5',
      'voyage-3.5-lite',
      'voyage-3-large',
      'voyage-code-3',
      'voyage-code-4',
      'voyage-finance-2',
      'voyage-law-2',
    ],
    requestBody: embeddingMembers,
    limits: (model) => ({ inputs: 1_000, tokens: tokensOf(model) }),
  },
} satisfies Provider
