import type { ErrorTable } from '../core/error-table.ts'
import { object } from '../core/json.ts'
import type { Embeds, Provider } from '../core/provider.ts'
import { onlyMembers, withOutputDimension } from './quirks/embedding-members.ts'
import { idsWhere } from './quirks/model-list.ts'

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // A capacity limit of the model, not of the key.
    {
      when: { status: 429, message: /^service tier capacity exceeded/i },
      kind: 'overloaded',
      seen: 'mistral-mistral-429-17',
    },
  ],
}

const known = onlyMembers(
  new Set(['model', 'metadata', 'input', 'output_dimension', 'output_dtype', 'encoding_format']),
)

/** Its embeddings schema has another name for `dimensions`, no other members, and does not accept token input. */
const embeddingMembers: NonNullable<Embeds['requestBody']> = (body, model, lost) =>
  known(withOutputDimension(body), model, lost)

/** Its model list states which models support chat. */
const chatting = idsWhere((entry) => object(entry.capabilities)?.completion_chat !== false)

export default {
  name: 'mistral',
  title: 'Mistral AI',
  order: 40,
  family: 'mistralai',
  baseUrl: 'https://api.mistral.ai/v1',
  speaks: [{ protocol: 'mistral' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'mistral-small-latest',
  // Its guide to prefixes (docs.mistral.ai, 2026-11-21); the codec marks the last message. The guide does not mention Magistral, which reasons first.
  supportsPrefill: { protocol: 'mistral', models: /^(?!magistral)/ },
  models: { path: '/models', decode: chatting },
  quirks: { errors },
  relays: {
    // docs.mistral.ai/usage/guardrailing (2026-11-27).
    moderations: { models: ['mistral-moderation-latest'] },
    // docs.mistral.ai/studio/audio (2026-11-27). Its speech takes `voice_id` instead of `voice`.
    transcriptions: { models: ['voxtral-mini-latest'] },
  },
  embeds: {
    protocol: 'openai-embeddings',
    models: ['mistral-embed', 'codestral-embed'],
    requestBody: embeddingMembers,
    // Code 3210, "Too many inputs in request, split into more batches." (raphaelmansuy/edgequake-llm#74, 2026-05); "Too many
    // tokens in batch. Max is 16384 got 17555" (aurelio-labs/semantic-router#297, 2024-05).
    limits: { inputs: 512, tokens: 16_384 },
  },
} satisfies Provider
