import { claudeName } from '../core/claude-name.ts'
import type { JsonObject } from '../core/json.ts'
import { withoutMember } from '../core/json-edit.ts'
import type { Provider, Variables } from '../core/provider.ts'
import anthropic from './anthropic.ts'
import gemini from './gemini.ts'
import { onlyAtAnthropic } from './quirks/claude.ts'
import { VERTEX_BETAS } from './quirks/claude-betas.ts'
import { claudeCache } from './quirks/prompt-caches.ts'
import { CLAUDE_IN_REGION, GEMINI_IN_REGION, REGIONAL } from './quirks/regional-prices.ts'
import type { RequestQuirk } from './quirks/request.ts'

const GLOBAL_URL = 'https://aiplatform.googleapis.com/v1'

/** Project names (also numbers, or with a domain: `example.com:own`) and locations; anything else could change the path or host. */
const PROJECT_NAME = /^[a-z0-9][a-z0-9.:-]*$/
const LOCATION_NAME = /^[a-z0-9-]+$/

/**
 * A project's base URL, up to the publishers of models. `global` has no location in the host name
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations). The multi-regions `eu` and `us` have another form of
 * host.
 */
const ofProject = ({ PROJECT, LOCATION }: Variables): string | undefined => {
  if (!PROJECT || !LOCATION || !PROJECT_NAME.test(PROJECT) || !LOCATION_NAME.test(LOCATION)) return undefined
  const version =
    LOCATION === 'global'
      ? GLOBAL_URL
      : /^(?:eu|us)$/.test(LOCATION)
        ? `https://aiplatform.${LOCATION}.rep.googleapis.com/v1`
        : `https://${LOCATION}-aiplatform.googleapis.com/v1`
  return `${version}/projects/${PROJECT}/locations/${LOCATION}`
}

const CLAUDE = /^(?:anthropic\/)?claude-/

/**
 * Removes the publisher before the model name, which the compatible endpoint expects (`google/gemini-…`): here it is in the
 * path. Versions of Claude follow an @, which is not encoded in the path (recordings vertex-messages-*).
 */
const bareModel = (path: string): string =>
  path.replace('/models/google%2F', '/models/').replace('/models/anthropic%2F', '/models/').replace('%40', '@')

const bareName = (model: string): string => model.slice(model.lastIndexOf('/') + 1)

/** The model is in the path, the version in the body (recordings vertex-messages-*). */
const claudeBody = (body: JsonObject): JsonObject => ({
  ...withoutMember(body, 'model'),
  anthropic_version: 'vertex-2023-10-16',
})

/** Applies Anthropic's quirks with Anthropic's model name: `claude-sonnet-4-5@20250929` is `claude-sonnet-4-5-20250929` there. */
const claudeQuirks: RequestQuirk = (body, model, lost, protocol) =>
  protocol === 'anthropic-messages'
    ? claudeBody(
        onlyAtAnthropic(anthropic.quirks.requestBody(body, claudeName(model), lost, protocol), model, lost, protocol),
      )
    : body

/** Claude costs what it costs at Anthropic. In a region newer models cost more. */
const pricedAs: Provider['pricedAs'] = (model, { variables: { LOCATION = 'global' } }) => {
  const isRegional = LOCATION !== 'global' && (CLAUDE_IN_REGION.test(model) || GEMINI_IN_REGION.test(model))
  const isClaude = /(?:^|\/)claude-/.test(model)
  return { ...(isClaude && { provider: anthropic.name }), ...(isRegional && { factor: REGIONAL }) }
}

/**
 * Its page states 250 texts and 20,000 tokens
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings); Gemini models take one text
 * (mem0ai/mem0#6189, 2026-07; vercel/ai#19952 reads 250).
 */
const embedLimits = (model: string) => ({ inputs: model.includes('gemini-embedding') ? 1 : 250, tokens: 20_000 })

export default {
  name: 'vertex',
  promptCache: [
    claudeCache({
      models: /claude/,
      owner: 'organization',
      source: 'https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/prompt-caching',
    }),
    {
      least: 4_096,
      from: 'request',
      automatic: true,
      owner: 'project',
      source: 'https://docs.cloud.google.com/vertex-ai/generative-ai/docs/context-cache/context-cache-overview',
      read: '2026-11-28',
    },
  ],
  takesBreakpoints: true,
  slug: 'google-vertex',
  aliases: ['vertex-ai'],
  title: 'Google Vertex AI',
  order: 145,
  family: 'google',
  address: ofProject,
  keyAddress: GLOBAL_URL,
  speaks: [
    {
      protocol: 'gemini',
      path: '/publishers/google/models/{model}:generateContent',
      streamPath: '/publishers/google/models/{model}:streamGenerateContent?alt=sse',
    },
    {
      protocol: 'anthropic-messages',
      path: '/publishers/anthropic/models/{model}:rawPredict',
      streamPath: '/publishers/anthropic/models/{model}:streamRawPredict',
      models: CLAUDE,
      betas: VERTEX_BETAS,
      // platform.claude.com/docs/en/api/versioning (2026-11-28).
      ownVersions: CLAUDE,
      counts: {
        path: '/publishers/anthropic/models/count-tokens:rawPredict',
        body: (request, model) => `{"model":${JSON.stringify(bareName(model))},${request.slice(1)}`,
      },
    },
  ],
  auth: {
    header: 'x-goog-api-key',
    identity: () => ({ cloud: 'google', scope: 'https://www.googleapis.com/auth/cloud-platform' }),
  },
  keylessVariables: ['PROJECT'],
  variables: { PROJECT: null, LOCATION: 'global' },
  variableAliases: { PROJECT: ['GOOGLE_CLOUD_PROJECT'], LOCATION: ['GOOGLE_CLOUD_LOCATION'] },
  defaultModel: 'gemini-2.5-flash',
  knownModels: ['gemini-2.5-flash', 'gemini-2.5-flash-lite', 'gemini-2.5-pro', 'gemini-3-flash-preview'],
  quirks: { ...gemini.quirks, requestBody: claudeQuirks, path: bareModel },
  catalogue: 'gemini',
  pricedAs,
  makers: ['anthropic'],
  embeds: {
    protocol: 'vertex-embeddings',
    models: ['gemini-embedding-001', 'text-embedding-005', 'text-multilingual-embedding-002'],
    limits: embedLimits,
  },
  note: "Without a key: Google's default credentials, for `VERTEX_PROJECT` (or `GOOGLE_CLOUD_PROJECT`) at `VERTEX_LOCATION` (`global`). With one: express mode, without project and location. Claude models are called in their own format. A base URL ends before `/publishers`.",
} satisfies Provider
