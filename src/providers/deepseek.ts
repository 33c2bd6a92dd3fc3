import { type Json, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant, TOO_LONG } from './quirks/failures.ts'
import { olderChat } from './quirks/request.ts'

/**
 * Every error has the code `invalid_request_error`, a full window too (recording
 * deepseek-chat-chat-real-error-scenarios-deepseek-deepseek-chat-1f945b02); an empty account is a 402
 * (continuedev/continue#11498).
 */
const oneCodeForAll = (status: number, body: Json | undefined) => {
  const error = errorIn(body)
  if (status === 402) return meant('quota', "The gateway's account at DeepSeek is empty.", status, error)
  if (status === 400 && /maximum context length is/i.test(text(error?.message) ?? ''))
    return meant('context_length', TOO_LONG, status, error)
  return undefined
}

export default {
  name: 'deepseek',
  title: 'DeepSeek',
  order: 70,
  baseUrl: 'https://api.deepseek.com',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'deepseek-v4-flash',
  models: { path: '/models' },
  // Its thinking models want the thoughts of a turn back while tools are being called.
  takesReasoning: true,
  quirks: { requestBody: olderChat, failure: oneCodeForAll },
} satisfies Provider
