import { pathSegment } from '../core/path-segment.ts'
import type { Provider, Variables } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { EMBEDDINGS_LIMITS } from './quirks/limits.ts'
import { BREAKPOINTS, CHAT, compatibleMembers, RESPONSES } from './quirks/openai.ts'
import { openaiCaches } from './quirks/prompt-caches.ts'
import { encryptedReasoningModels } from './quirks/request.ts'

/** The address ends in `/openai`; the version follows from whether an API version is set. */
const untilVersion = (url: string): string => {
  const bare = withoutSlashes(url)
  if (bare.endsWith('/v1')) return bare.slice(0, -3)
  return /^[a-z]+:\/\/[^/]+$/i.test(bare) ? `${bare}/openai` : bare
}

const resource = ({ ENDPOINT }: Variables): string | undefined => (ENDPOINT ? untilVersion(ENDPOINT) : undefined)

/** Versions of the v1 API, which may be in the query; the path then has no deployment. */
const OF_V1 = new Set(['v1', 'preview', 'latest'])

/**
 * The v1 API has OpenAI's paths and needs no version. With a dated version the deployment is in the path, for chat
 * completions but not for responses (recordings azure-chat-*, azure-responses-*). The deployment's name is the model name.
 */
const deployments = (path: string, model: string, { API_VERSION }: Variables): string => {
  if (path === REALTIME_PATH) return realtime(model, API_VERSION)
  if (!API_VERSION) return `/v1${path}`
  const query = `?api-version=${encodeURIComponent(API_VERSION)}`
  if (OF_V1.has(API_VERSION)) return `/v1${path}${query}`
  return path.startsWith('/responses') ? path + query : `/deployments/${pathSegment(model)}${path}${query}`
}

const REALTIME_PATH = '/realtime'

/** The model is in the query, under the name of deployments with a dated version (openai-node 7.55.0, `realtime/internal-base.ts`). */
const realtime = (model: string, version: string | undefined): string => {
  const name = encodeURIComponent(model)
  if (!version || OF_V1.has(version)) return `/v1${REALTIME_PATH}?model=${name}`
  return `${REALTIME_PATH}?api-version=${encodeURIComponent(version)}&deployment=${name}`
}

export default {
  name: 'azure-openai',
  slug: 'azure',
  promptCache: openaiCaches({
    owner: 'account',
    source: 'https://learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching',
  }),
  title: 'Azure OpenAI',
  order: 130,
  family: 'openai',
  address: resource,
  normalizeBaseUrl: untilVersion,
  speaks: [
    { protocol: 'openai-chat', accepts: CHAT },
    { protocol: 'openai-responses', accepts: RESPONSES },
  ],
  supportsCustomTools: true,
  encryptsReasoning: encryptedReasoningModels,
  cacheMarks: [BREAKPOINTS],
  auth: {
    header: 'api-key',
    identity: () => ({ cloud: 'entra', scope: 'https://cognitiveservices.azure.com/.default' }),
  },
  keylessVariables: ['ENDPOINT'],
  variables: { ENDPOINT: null, API_VERSION: null },
  quirks: {
    requestBody: compatibleMembers,
    path: deployments,
  },
  catalogue: 'azure-openai',
  note: '`AZURE_OPENAI_ENDPOINT` or a base URL is required. Without a key: a token of Microsoft Entra (client secret, workload or managed identity). Models are deployment names: list them in `AZURE_OPENAI_MODELS`. Without `AZURE_OPENAI_API_VERSION` the v1 API is used.',
  // learn.microsoft.com/azure/ai-services/openai/reference (2026-11-27).
  relays: {
    transcriptions: { models: [] },
    translations: { models: [] },
    speech: { models: [] },
    // github.com/MicrosoftDocs/azure-docs, articles/ai-services/openai/dall-e-quickstart.md (2026-11-28).
    images: { models: [] },
    realtime: { path: REALTIME_PATH, models: [] },
  },
  embeds: {
    protocol: 'openai-embeddings',
    models: [],
    // 2,048 inputs (MicrosoftDocs/azure-docs#124129, 2024-08), the tokens as at OpenAI.
    limits: { inputs: 2_048, tokens: 300_000 },
    members: EMBEDDINGS_LIMITS,
  },
} satisfies Provider
