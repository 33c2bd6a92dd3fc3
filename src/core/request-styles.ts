/** The API styles of requests that are routed: those of the client formats, and embeddings. The dashboard uses them too. */

type Example = { readonly model: string; readonly text: string }

/** One API style. `path`: below `/v1`. `example`: the smallest body that asks for an answer to a text. */
type StyleRow = {
  readonly style: string
  readonly path: string
  readonly example: (of: Example) => { readonly [member: string]: unknown }
}

const messagesOf = (text: string) => [{ role: 'user', content: text }]

/** The client formats. `protocols/index.test.ts` compares style and path with the formats. */
const CLIENT_FORMATS = {
  'openai-chat': {
    style: 'chat',
    path: '/chat/completions',
    example: ({ model, text }) => ({ model, messages: messagesOf(text) }),
  },
  'openai-responses': {
    style: 'responses',
    path: '/responses',
    example: ({ model, text }) => ({ model, input: text }),
  },
  'anthropic-messages': {
    style: 'messages',
    path: '/messages',
    example: ({ model, text }) => ({ model, max_tokens: 1_024, messages: messagesOf(text) }),
  },
  'openai-completions': {
    style: 'completions',
    path: '/completions',
    example: ({ model, text }) => ({ model, prompt: text }),
  },
  gemini: {
    style: 'gemini',
    path: '/models/{model}:generateContent',
    example: ({ model, text }) => ({ model, contents: [{ role: 'user', parts: [{ text }] }] }),
  },
} as const satisfies { readonly [name: string]: StyleRow }

const EMBEDDINGS = {
  style: 'embeddings',
  path: '/embeddings',
  example: ({ model, text }: Example) => ({ model, input: text }),
} as const

/** Client formats. */
export type ClientProtocolName = keyof typeof CLIENT_FORMATS

export type RequestStyle = (typeof CLIENT_FORMATS)[ClientProtocolName]['style'] | 'embeddings'

const ROWS = [...Object.values(CLIENT_FORMATS), EMBEDDINGS]

export const REQUEST_STYLES: readonly RequestStyle[] = ROWS.map(({ style }) => style)

/** The path of each style below `/v1`. */
// Every style has a row.
export const STYLE_PATHS = Object.fromEntries(ROWS.map(({ style, path }) => [style, path])) as {
  readonly [style in RequestStyle]: string
}

/** The smallest body of each style that asks for an answer to a text. */
export const STYLE_EXAMPLES = Object.fromEntries(
  ROWS.map(({ style, example }): readonly [string, StyleRow['example']] => [style, example]),
) as {
  readonly [style in RequestStyle]: StyleRow['example']
}
