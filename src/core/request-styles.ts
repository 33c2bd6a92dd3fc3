/** The API styles of requests that are routed: those of the client formats, and embeddings. The dashboard uses them too. */
import type { ClientProtocolName } from './chat.ts'

/** Style and path below `/v1`; `protocols/index.test.ts` compares them with the formats. */
const STYLE_OF = {
  'openai-chat': ['chat', '/chat/completions'],
  'openai-responses': ['responses', '/responses'],
  'anthropic-messages': ['messages', '/messages'],
  'openai-completions': ['completions', '/completions'],
} as const satisfies Record<ClientProtocolName, readonly [style: string, path: string]>

const EMBEDDINGS = ['embeddings', '/embeddings'] as const

export type RequestStyle = (typeof STYLE_OF)[ClientProtocolName][0] | 'embeddings'

const ROWS: readonly (readonly [style: RequestStyle, path: string])[] = [...Object.values(STYLE_OF), EMBEDDINGS]

export const REQUEST_STYLES: readonly RequestStyle[] = ROWS.map(([style]) => style)

/** The path of each style below `/v1`; every style has a row. */
export const STYLE_PATHS = Object.fromEntries(ROWS) as { readonly [style in RequestStyle]: string }
