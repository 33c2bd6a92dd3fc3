import type { ErrorTable } from '../core/error-table.ts'
import { type Json, list, object, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

/** The address ends in the version; a base URL of the compatible endpoint, one segment longer, is accepted too. */
const versionOnly = (url: string): string => withoutSlashes(url).replace(/\/openai$/, '')

/** A model name without the prefix `models/`, which its list and many clients use. */
const bareName = (name: string): string => name.replace(/^models\//, '')

/** Its list states each model's methods; the names show which of them generate text. */
const writingModels = (body: Json): readonly string[] => {
  const writing = list(object(body)?.models).flatMap((entry) => {
    const name = text(object(entry)?.name)
    return name && list(object(entry)?.supportedGenerationMethods).includes('generateContent') ? [{ id: name }] : []
  })
  return chatIds({ data: writing }).map(bareName)
}

/** Removes the prefix `models/`, which the path already contains. */
const onceModels = (path: string): string => path.replace('/models/models%2F', '/models/')

const errors: ErrorTable = {
  checked: '2026-11-23',
  rows: [
    // An invalid key is a 400, identified by the reason, which all Google APIs share.
    {
      when: { status: 400, message: /^api key (?:not valid|expired)/i },
      kind: 'auth',
      seen: 'gemini-gemini-test-google-streaming-returns-usage-metrics-cc5749f4',
    },
    // An unsupported country, or an account without billing: not caused by the request.
    {
      when: { status: 400, word: 'FAILED_PRECONDITION' },
      kind: 'permission',
      seen: 'github.com/poenl/gemini-api/issues/4 (2025-11-08)',
    },
    // Disabled keys and projects are a 403, which otherwise concerns one model.
    {
      when: { status: 403, message: /^method doesn't allow unregistered callers/i },
      kind: 'auth',
      seen: 'gemini-gemini-testgoogleaierrorhandling-4089cece',
    },
    {
      when: { status: 403, message: /^your api key was reported as leaked/i },
      kind: 'auth',
      seen: 'github.com/continuedev/continue/issues/11541 (2026-03-17)',
    },
    {
      when: { status: 403, message: /^(?:permission denied: )?consumer .{0,100} has been suspended/i },
      kind: 'auth',
      seen: 'github.com/coaidev/coai/issues/67 (2024-02-02)',
    },
    {
      when: { status: 403, message: /^your project has been denied access/i },
      kind: 'auth',
      seen: 'github.com/poenl/gemini-api/issues/8 (2026-04-02)',
    },
  ],
}

export default {
  name: 'gemini',
  slug: 'google-ai-studio',
  aliases: ['google'],
  promptCache: [
    {
      least: 4_096,
      from: 'request',
      automatic: true,
      owner: 'unknown',
      source: 'https://ai.google.dev/gemini-api/docs/caching',
      read: '2026-11-28',
    },
  ],
  title: 'Google Gemini',
  order: 30,
  family: 'google',
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  // ai.google.dev/api/files (2026-11-28).
  passThrough: { roots: ['/upload/v1beta'] },
  normalizeBaseUrl: versionOnly,
  speaks: [{ protocol: 'gemini' }],
  alsoSpeaks: [
    {
      protocol: 'openai-chat',
      path: '/openai/chat/completions',
      auth: { header: 'authorization', prefix: 'Bearer ' },
      // "Penalty is not enabled for models/…" (github.com/PublicAffairs/openai-gemini/issues/63, 2025-07-13, with Gemini 2.5).
      // "Unknown name \"store\": Cannot find field." (github.com/liliMozi/openhanako/issues/394, 2026-04-12; `metadata`:
      // github.com/ed-donner/agents/issues/45; `prompt_cache_key`: github.com/liliMozi/openhanako/issues/2494, 2026-08-21).
      accepts: {
        refuses: { presence_penalty: 0, frequency_penalty: 0, store: false, metadata: null, prompt_cache_key: null },
      },
    },
  ],
  auth: { header: 'x-goog-api-key' },
  defaultModel: 'gemini-2.5-flash',
  models: { path: '/models?pageSize=1000', decode: writingModels },
  quirks: { requestBody: olderChat, path: onceModels, errors },
  note: 'Called in its own format; `GEMINI_STYLES=chat` uses its OpenAI-compatible endpoint. The base URL ends in the version (`…/v1beta`).',
  // "at most 100 requests can be in one batch" (vercel/ai#16101, 2026-06).
  embeds: { protocol: 'gemini-embeddings', models: ['gemini-embedding-001'], limits: { inputs: 100 } },
} satisfies Provider
