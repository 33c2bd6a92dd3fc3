import { type Json, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant, TOO_LONG } from './quirks/failures.ts'
import { olderChat } from './quirks/request.ts'

/** No code tells a full window from any other bad request: older servers in flat bodies, newer in nested ones (errors.reported vllm-chat-400-25, vllm-chat-400-26). */
const fullWindow = (status: number, body: Json | undefined) => {
  const error = errorIn(body)
  const told = /maximum context length is|context length is only/i.test(text(error?.message) ?? '')
  return status === 400 && told ? meant('context_length', TOO_LONG, status, error) : undefined
}

export default {
  name: 'vllm',
  title: 'vLLM',
  order: 160,
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  keyless: true,
  models: { path: '/models' },
  quirks: { requestBody: olderChat, failure: fullWindow },
  note: 'Usually `http://localhost:8000/v1`. The default model is the one it serves.',
} satisfies Provider
