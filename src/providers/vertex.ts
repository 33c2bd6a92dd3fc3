import { without } from '../core/bodies.ts'
import { type JsonObject, list } from '../core/json.ts'
import type { Provider, Variables } from '../core/provider.ts'
import anthropic from './anthropic.ts'
import gemini from './gemini.ts'
import type { RequestQuirk } from './quirks/request.ts'

const WORLD = 'https://aiplatform.googleapis.com/v1'

/** Names of projects (also numbers, and with a domain: `example.com:own`) and of places; anything else would be another path or host. */
const PROJECT_NAME = /^[a-z0-9][a-z0-9.:-]*$/
const PLACE = /^[a-z0-9-]+$/

/**
 * A project's own address, up to the publishers of models; `global` is served without a place in the host's name
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations). The multi-regions `eu` and `us` have hosts of
 * another form.
 */
const ofProject = ({ PROJECT, LOCATION }: Variables): string | undefined => {
  if (!PROJECT || !LOCATION || !PROJECT_NAME.test(PROJECT) || !PLACE.test(LOCATION)) return undefined
  const version =
    LOCATION === 'global'
      ? WORLD
      : /^(?:eu|us)$/.test(LOCATION)
        ? `https://aiplatform.${LOCATION}.rep.googleapis.com/v1`
        : `https://${LOCATION}-aiplatform.googleapis.com/v1`
  return `${version}/projects/${PROJECT}/locations/${LOCATION}`
}

const CLAUDE = /^(?:anthropic\/)?claude-/

/**
 * People write the publisher before the model, as the compatible endpoint has it (`google/gemini-…`); here the path says
 * it. Versions of Claude stand behind an @, which the path has as it is (recordings vertex-messages-*).
 */
const bareModel = (path: string): string =>
  path.replace('/models/google%2F', '/models/').replace('/models/anthropic%2F', '/models/').replace('%40', '@')

/** The model is in the path, and the version in the body (recordings vertex-messages-*). */
const claudeBody = (body: JsonObject): JsonObject => ({
  ...without(body, 'model'),
  anthropic_version: 'vertex-2023-10-16',
})

/** What a model's maker wants, and what it is called here: `claude-sonnet-4-5@20250929` is Anthropic's `claude-sonnet-4-5-20250929`. */
const perMaker: RequestQuirk = (body, model, lost, protocol) =>
  protocol === 'anthropic-messages'
    ? claudeBody(
        anthropic.quirks.requestBody(body, model.replace(/^anthropic\//, '').replace('@', '-'), lost, protocol),
      )
    : body

/** Gemini's models take one text a request here (https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings). */
const oneText = (body: JsonObject, model: string, lost: Parameters<RequestQuirk>[2]) => {
  if (model.includes('gemini-embedding') && list(body.instances).length > 1) lost('instances', true)
  return body
}

export default {
  name: 'vertex',
  aliases: ['vertex-ai'],
  title: 'Google Vertex AI',
  order: 145,
  address: ofProject,
  keyAddress: WORLD,
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
    },
  ],
  auth: {
    header: 'x-goog-api-key',
    otherwise: () => ({ cloud: 'google', scope: 'https://www.googleapis.com/auth/cloud-platform' }),
  },
  keylessBy: ['PROJECT'],
  variables: { PROJECT: null, LOCATION: 'global' },
  variableAliases: { PROJECT: ['GOOGLE_CLOUD_PROJECT'], LOCATION: ['GOOGLE_CLOUD_LOCATION'] },
  defaultModel: 'gemini-2.5-flash',
  listed: ['gemini-2.5-flash', 'gemini-2.5-flash-lite', 'gemini-2.5-pro', 'gemini-3-flash-preview'],
  quirks: { ...gemini.quirks, requestBody: perMaker, path: bareModel },
  catalogue: 'gemini',
  embeds: {
    protocol: 'vertex-embeddings',
    models: ['gemini-embedding-001', 'text-embedding-005', 'text-multilingual-embedding-002'],
    requestBody: oneText,
  },
  note: "Without a key: Google's default credentials, for `VERTEX_PROJECT` (or `GOOGLE_CLOUD_PROJECT`) at `VERTEX_LOCATION` (`global`). With one: express mode, without project and location. Claude models are called in their own format. A base URL ends before `/publishers`.",
} satisfies Provider
