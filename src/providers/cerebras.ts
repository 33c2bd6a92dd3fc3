import type { Accepts } from '../core/accepts.ts'
import type { Provider } from '../core/provider.ts'
import { flatEffort } from './quirks/chat-messages.ts'
import { onlyChat } from './quirks/request.ts'

/**
 * Refuses unknown members (422 until spring 2026, 400 `wrong_api_format` since): `store`
 * (github.com/huggingface/huggingface.js/issues/2268), penalties and `logit_bias` (github.com/anomalyco/opencode/issues/6648),
 * `reasoning_content` of messages; `reasoning` is accepted (github.com/proxysoul/Empryo/pull/209, 2026-09-19, measured).
 */
const accepts: Accepts = {
  refuses: { store: false, frequency_penalty: 0, presence_penalty: 0, logit_bias: null },
  messages: {
    assistant: ['role', 'content', 'name', 'tool_calls', 'reasoning'],
  },
  reasoning: ['reasoning'],
}

export default {
  name: 'cerebras',
  title: 'Cerebras',
  order: 110,
  baseUrl: 'https://api.cerebras.ai/v1',
  speaks: [{ protocol: 'openai-chat', accepts }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'gpt-oss-120b',
  models: { path: '/models' },
  // `reasoning` of the body is refused (the same measurement).
  quirks: { requestBody: onlyChat(flatEffort) },
} satisfies Provider
