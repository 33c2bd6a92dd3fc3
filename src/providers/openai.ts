import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { EMBEDDINGS_LIMITS } from './quirks/limits.ts'
import { chatIds } from './quirks/model-list.ts'
import { BREAKPOINTS, CHAT, compatibleMembers, RESPONSES } from './quirks/openai.ts'
import { openaiCaches } from './quirks/prompt-caches.ts'
import { OPENAI_IN_REGION, REGIONAL } from './quirks/regional-prices.ts'
import { encryptedReasoningModels } from './quirks/request.ts'

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // The type may be `insufficient_quota` as well.
    {
      when: {
        word: [
          'credit_balance_exhausted',
          'organization_spend_limit_exceeded',
          'project_spend_limit_exceeded',
          'organization_usage_limit_exceeded',
        ],
      },
      kind: 'quota',
      seen: 'help.openai.com/en/articles/6614457 (2026-11-21)',
    },
    // The request exceeds the allowance of a whole minute, so waiting does not help.
    {
      when: { word: 'rate_limit_exceeded', message: /^request too large for/i },
      kind: 'token_rate',
      seen: 'openai-responses-stream-rate-limited-1-ea567320',
    },
  ],
}

/** A host that processes in a region: `https://eu.api.openai.com`. */
const REGIONAL_HOST = /^https:\/\/[a-z]{2}\.api\.openai\.com/

const pricedAs: Provider['pricedAs'] = (model, { baseUrl }) =>
  REGIONAL_HOST.test(baseUrl) && OPENAI_IN_REGION.test(model) ? { factor: REGIONAL } : undefined

/** `resources/images.d.ts` of openai-node 7.55.0: gpt-image-1 was shut down on October 23, 2026. */
const EDITED = [
  'gpt-image-2.6-flare',
  'gpt-image-2.6-sunburst',
  'gpt-image-2.5-flare',
  'gpt-image-2.5-sunburst',
  'gpt-image-2',
  'gpt-image-1.5',
  'gpt-image-1-mini',
  'chatgpt-image-latest',
  'dall-e-2',
]
const GENERATED = [...EDITED, 'dall-e-3']

export default {
  name: 'openai',
  promptCache: openaiCaches({
    owner: 'organization',
    ownerHeader: 'openai-organization',
    source: 'https://developers.openai.com/api/docs/guides/prompt-caching',
  }),
  title: 'OpenAI',
  order: 10,
  baseUrl: 'https://api.openai.com/v1',
  speaks: [
    { protocol: 'openai-chat', accepts: CHAT },
    { protocol: 'openai-responses', accepts: RESPONSES },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  // The names are those of its SDKs (platform.openai.com/docs/api-reference/authentication, 2026-11-26).
  variables: { ORG_ID: null, PROJECT_ID: null },
  variableHeaders: { ORG_ID: 'openai-organization', PROJECT_ID: 'openai-project' },
  forwardHeaders: ['openai-organization', 'openai-project'],
  supportsCustomTools: true,
  encryptsReasoning: encryptedReasoningModels,
  cacheMarks: [BREAKPOINTS],
  // Accepts sampling settings unless reasoning is requested, so any request can fall back to it.
  pricedAs,
  defaultModel: 'gpt-5.4-mini',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: compatibleMembers, errors },
  note: 'Requests in the responses style use the responses API; with `OPENAI_STYLES=chat` they use chat completions.',
  relays: {
    // platform.openai.com/docs/guides/moderation (2026-11-27).
    moderations: { models: ['omni-moderation-latest', 'text-moderation-latest'] },
    // platform.openai.com/docs/api-reference/audio (2026-11-27). Only whisper-1 translates.
    transcriptions: {
      models: ['gpt-4o-mini-transcribe', 'gpt-4o-transcribe', 'gpt-4o-transcribe-diarize', 'whisper-1'],
    },
    translations: { models: ['whisper-1'] },
    speech: { models: ['gpt-4o-mini-tts', 'tts-1', 'tts-1-hd'] },
    // developers.openai.com/docs/guides/image-generation (2026-11-28). Only dall-e-2 makes variations.
    images: { models: GENERATED },
    'image-edits': { models: EDITED },
    'image-variations': { models: ['dall-e-2'] },
    // developers.openai.com/api/docs/guides/realtime-conversations (2026-11-28).
    realtime: { models: ['gpt-realtime', 'gpt-realtime-mini'] },
  },
  embeds: {
    protocol: 'openai-embeddings',
    models: ['text-embedding-3-small', 'text-embedding-3-large', 'text-embedding-ada-002'],
    // platform.openai.com/docs/api-reference/embeddings/create; "Requested 453357 tokens, max 300000 tokens per request"
    // (OpenDataBox/CrackSQL#27, 2025-06).
    limits: { inputs: 2_048, tokens: 300_000 },
    members: EMBEDDINGS_LIMITS,
  },
} satisfies Provider
