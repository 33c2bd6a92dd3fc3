import type { Json } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant } from './quirks/failures.ts'
import { chatIds } from './quirks/model-list.ts'

/**
 * A 400 here can be the model's failure instead of the request's: it wrote a call that does not fit its schema
 * (recording groq-chat-test-tool-use-failed-error-61297c48), or JSON that is none (`json_validate_failed`). The same
 * request may succeed the next time. 498 is flex capacity that is gone for the moment.
 */
const modelsFault = (status: number, body: Json | undefined) => {
  const error = errorIn(body)
  if (error?.code === 'tool_use_failed' || error?.code === 'json_validate_failed')
    return meant('malformed', 'The model wrote something that does not fit what was asked for.', status, error)
  if (status === 498) return meant('overloaded', 'Groq has no capacity for this at the moment.', status, error)
  return undefined
}

export default {
  name: 'groq',
  title: 'Groq',
  order: 50,
  baseUrl: 'https://api.groq.com/openai/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-oss-120b',
  models: { path: '/models', decode: chatIds },
  quirks: { failure: modelsFault },
} satisfies Provider
