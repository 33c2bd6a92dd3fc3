import type { ErrorTable } from '../core/error-table.ts'
import { isObject, type Json, list, object, text } from '../core/json.ts'
import { withoutMember } from '../core/json-edit.ts'
import type { Provider } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { inOrder, olderChat, onlyChat, type RequestQuirk } from './quirks/request.ts'

/** Each API style has its own version segment, so the address ends before it. */
const withoutVersion = (url: string): string => withoutSlashes(url).replace(/(?:\/compatibility)?\/v[12]$/, '')

/** Unsupported members, as listed on Cohere's page on its compatible endpoint. */
const UNSUPPORTED = [
  'store',
  'metadata',
  'logit_bias',
  'top_logprobs',
  'service_tier',
  'user',
  'parallel_tool_calls',
  'prediction',
]

/**
 * The compatible endpoint refuses `stream_options` (strandsagents.com, model providers, Cohere) and does not support the
 * members above. It cannot return several answers, so `n` above 1 makes it unfit.
 */
const dropUnsupported: RequestQuirk = (body, _model, lost) => {
  for (const member of UNSUPPORTED)
    if (body[member] !== undefined && body[member] !== null && body[member] !== false) lost(member)
  if (typeof body.n === 'number' && body.n > 1) lost('n', true)
  return withoutMember(body, 'stream_options', 'n', ...UNSUPPORTED)
}

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [],
}

/** `{models:[{name, endpoints}]}`. */
const named = (body: Json): readonly string[] =>
  list(object(body)?.models).flatMap((entry) => {
    const name = isObject(entry) ? text(entry.name) : undefined
    return name === undefined ? [] : [name]
  })

export default {
  name: 'cohere',
  title: 'Cohere',
  order: 120,
  baseUrl: 'https://api.cohere.com',
  normalizeBaseUrl: withoutVersion,
  speaks: [{ protocol: 'cohere' }],
  alsoSpeaks: [{ protocol: 'openai-chat', path: '/compatibility/v1/chat/completions' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'command-a-03-2025',
  models: { path: '/v1/models?endpoint=chat&page_size=200', decode: named },
  quirks: { requestBody: inOrder(olderChat, onlyChat(dropUnsupported)), errors },
  note: 'Called in its own format; `COHERE_STYLES=chat` uses its OpenAI-compatible endpoint. The base URL may end in the version (`…/v2`) or before it.',
  relays: {
    // docs.cohere.com/reference/rerank (2026-11-28).
    rerank: {
      path: '/v2/rerank',
      models: ['rerank-v4.0-pro', 'rerank-v4.0-fast', 'rerank-v3.5', 'rerank-english-v3.0', 'rerank-multilingual-v3.0'],
      refuses: { top_k: /^/ },
    },
  },
  embeds: {
    protocol: 'cohere-embeddings',
    models: [
      'embed-v4.0',
      'embed-multilingual-v3.0',
      'embed-english-v3.0',
      'embed-multilingual-light-v3.0',
      'embed-english-light-v3.0',
    ],
    // "total number of texts must be at most 96" (docs.cohere.com/reference/embed; run-llama/llama_index#18915, 2025-05).
    limits: { inputs: 96 },
  },
} satisfies Provider
