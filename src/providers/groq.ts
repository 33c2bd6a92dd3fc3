import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'

const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // A 400 that is the model's failure instead of the request's: a call that does not fit its schema, JSON that is none.
    // The same request may succeed the next time.
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
    // Only some of its models take parts of content, none takes them in a tool's message.
    {
      when: { status: 400, message: /content' ?: value must be a string|content must be a string/i },
      kind: 'incompatible',
      seen: 'github.com/gptme/gptme/issues/314 (2024-12-10)',
    },
    // The limit the organisation set itself.
    { when: { word: 'blocked_api_access' }, kind: 'quota', seen: 'Groq, docs/spend-limits (2026-11-21)' },
  ],
}

export default {
  name: 'groq',
  title: 'Groq',
  order: 50,
  baseUrl: 'https://api.groq.com/openai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Beta, and without memory (github.com/jgravelle/GroqApiLibrary/pull/37, 2026-07-13).
  alsoSpeaks: [{ protocol: 'openai-responses', keepsNothing: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { errors },
} satisfies Provider
