import type { Accepts } from '../core/accepts.ts'
import type { ErrorTable } from '../core/error-table.ts'
import { list, object } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { flatEffort } from './quirks/chat-messages.ts'
import { chatIds } from './quirks/model-list.ts'
import { inOrder, onlyChat, type RequestQuirk } from './quirks/request.ts'

/**
 * Its schema is closed: it refuses `store` (github.com/fanenr/chatbot/issues/21, 2024-12-14) and members of messages such as
 * `reasoning_content` (github.com/janhq/jan/issues/8136, 2026-05-13) and `timestamp` (github.com/ServiceStack/llms/issues/17,
 * 2026-01-26). `reasoning` of a message is in its SDK's types (2026-11-21). Its reference of that day has neither
 * `prompt_cache_key` nor `verbosity`.
 */
const accepts: Accepts = {
  refuses: { store: false, prompt_cache_key: null, verbosity: 'medium' },
  messages: {
    user: ['role', 'content', 'name'],
    assistant: ['role', 'content', 'name', 'tool_calls', 'function_call', 'reasoning'],
  },
  reasoning: ['reasoning'],
}

/** "json mode cannot be combined with tool/function calling" (github.com/vercel/ai/pull/16540, 2026-07-01). */
const formatsWithoutTools: RequestQuirk = (body, _model, lost) => {
  if (list(body.tools).length > 0 && (object(body.response_format)?.type ?? 'text') !== 'text')
    lost('response_format', true, 'takes JSON mode or tools, not both in one request')
  return body
}

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // A 400 caused by the model, not the request: a call that does not match its schema, or malformed JSON. A retry may
    // succeed.
    { when: { word: 'tool_use_failed' }, kind: 'malformed', seen: 'groq-chat-test-tool-use-failed-error-61297c48' },
    {
      when: { word: 'json_validate_failed' },
      kind: 'malformed',
      seen: 'github.com/thepersonalaicompany/amurex-backend/issues/38 (2025-02-11)',
    },
    {
      when: { word: 'model_decommissioned' },
      kind: 'model_missing',
      seen: 'github.com/RightNow-AI/openfang/issues/60 (2026-02-28)',
    },
    // The spending limit set by the organisation.
    { when: { word: 'blocked_api_access' }, kind: 'quota', seen: 'Groq, docs/spend-limits (2026-11-21)' },
  ],
}

/** console.groq.com/docs/openai (2026-11-28), unsupported values. */
const NO_SUBTITLES = { response_format: /^(?:srt|vtt)$/ }

export default {
  name: 'groq',
  promptCache: [
    {
      least: 1_024,
      life: { sure: 1_800_000, most: 7_200_000 },
      from: 'request',
      automatic: true,
      owner: 'unknown',
      source: 'https://console.groq.com/docs/prompt-caching',
      read: '2026-11-28',
    },
  ],
  title: 'Groq',
  order: 50,
  baseUrl: 'https://api.groq.com/openai/v1',
  speaks: [{ protocol: 'openai-chat', accepts }],
  // Beta and stateless (github.com/jgravelle/GroqApiLibrary/pull/37, 2026-07-13).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  // console.groq.com/docs/speech-to-text (2026-11-27): the turbo model does not translate.
  relays: {
    transcriptions: { models: ['whisper-large-v3-turbo', 'whisper-large-v3'], refuses: NO_SUBTITLES },
    translations: { models: ['whisper-large-v3'], refuses: NO_SUBTITLES },
  },
  // `reasoning` of the body is refused (github.com/musistudio/llms/pull/64, 2025-12-31).
  quirks: { requestBody: onlyChat(inOrder(flatEffort, formatsWithoutTools)), errors },
} satisfies Provider
