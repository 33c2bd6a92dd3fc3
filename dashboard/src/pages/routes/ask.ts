/** The body of a request with given needs, in each API style. Pure. */

export const STYLES = ['chat', 'responses', 'messages', 'completions', 'embeddings'] as const
export type AskedStyle = (typeof STYLES)[number]
export const NEEDS = ['tools', 'image', 'schema'] as const
export type AskedNeed = (typeof NEEDS)[number]

/** What a request to explain has. `tokens`: about how many its prompt has. */
export type Ask = {
  readonly model: string
  readonly style: AskedStyle
  readonly needs: readonly AskedNeed[]
  readonly tokens: number
}

/** The API takes bodies of 1 MiB; a word is 4 characters. */
export const MOST_TOKENS = 250_000
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
const IMAGE = `data:image/png;base64,${PIXEL}`
const OBJECT = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const TOOL = { name: 'weather', description: 'The weather of a city' }

const textOf = (tokens: number): string => 'word'.repeat(Math.max(1, Math.min(MOST_TOKENS, Math.round(tokens))))

/** The body, with no more members than its needs ask for. Styles that have no such member leave the need out. */
export const bodyOf = ({ model, style, needs, tokens }: Ask): { readonly [member: string]: unknown } => {
  const text = textOf(tokens)
  const has = (need: AskedNeed) => needs.includes(need)
  switch (style) {
    case 'chat':
      return {
        model,
        messages: [
          {
            role: 'user',
            content: has('image')
              ? [
                  { type: 'text', text },
                  { type: 'image_url', image_url: { url: IMAGE } },
                ]
              : text,
          },
        ],
        ...(has('tools') && { tools: [{ type: 'function', function: { ...TOOL, parameters: OBJECT } }] }),
        ...(has('schema') && {
          response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: OBJECT } },
        }),
      }
    case 'responses':
      return {
        model,
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text },
              ...(has('image') ? [{ type: 'input_image', detail: 'auto', image_url: IMAGE }] : []),
            ],
          },
        ],
        ...(has('tools') && { tools: [{ type: 'function', ...TOOL, parameters: OBJECT, strict: true }] }),
        ...(has('schema') && {
          text: { format: { type: 'json_schema', name: 'answer', strict: true, schema: OBJECT } },
        }),
      }
    case 'messages':
      return {
        model,
        max_tokens: 1_024,
        messages: [
          {
            role: 'user',
            content: [
              ...(has('image')
                ? [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } }]
                : []),
              { type: 'text', text },
            ],
          },
        ],
        ...(has('tools') && { tools: [{ ...TOOL, input_schema: OBJECT }] }),
        ...(has('schema') && { output_config: { format: { type: 'json_schema', schema: OBJECT } } }),
      }
    case 'completions':
      return { model, prompt: text }
    case 'embeddings':
      return { model, input: text }
  }
}

/** The JSON object of a text; null: it is none. */
export const pastedBody = (text: string): { readonly [member: string]: unknown } | null => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    // No JSON.
    return null
  }
}
