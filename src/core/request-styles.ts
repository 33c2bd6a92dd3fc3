/** The API styles of requests that are routed: those of the client formats, and embeddings. The dashboard uses them too. */
import type { ClientProtocolName } from './chat.ts'

const STYLE_OF = {
  'openai-chat': 'chat',
  'openai-responses': 'responses',
  'anthropic-messages': 'messages',
  'openai-completions': 'completions',
} as const satisfies Record<ClientProtocolName, string>

type RequestStyle = (typeof STYLE_OF)[ClientProtocolName] | 'embeddings'

export const REQUEST_STYLES: readonly RequestStyle[] = [...Object.values(STYLE_OF), 'embeddings']
