/** Bodies of requests in each API style. Pure. */
import { type RequestStyle, STYLE_EXAMPLES } from '../../src/core/request-styles.ts'

export const NEEDS = ['tools', 'image', 'schema'] as const
export type ExampleNeed = (typeof NEEDS)[number]

type Example = { readonly model: string; readonly text: string; readonly needs: readonly ExampleNeed[] }

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
const IMAGE = `data:image/png;base64,${PIXEL}`
const OBJECT = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const TOOL = { name: 'weather', description: 'The weather of a city' }

/** A body with a text and with the members that its needs take. Styles that have no such member leave the need out. */
export const bodyIn = (
  style: RequestStyle,
  { model, text, needs }: Example,
): { readonly [member: string]: unknown } => {
  const has = (need: ExampleNeed) => needs.includes(need)
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
            content: has('image')
              ? [
                  { type: 'input_text', text },
                  { type: 'input_image', detail: 'auto', image_url: IMAGE },
                ]
              : text,
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
            content: has('image')
              ? [
                  { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
                  { type: 'text', text },
                ]
              : text,
          },
        ],
        ...(has('tools') && { tools: [{ ...TOOL, input_schema: OBJECT }] }),
        ...(has('schema') && { output_config: { format: { type: 'json_schema', schema: OBJECT } } }),
      }
    case 'gemini':
      return {
        model,
        contents: [
          {
            role: 'user',
            parts: [{ text }, ...(has('image') ? [{ inlineData: { mimeType: 'image/png', data: PIXEL } }] : [])],
          },
        ],
        ...(has('tools') && { tools: [{ functionDeclarations: [{ ...TOOL, parametersJsonSchema: OBJECT }] }] }),
        ...(has('schema') && {
          generationConfig: { responseMimeType: 'application/json', responseJsonSchema: OBJECT },
        }),
      }
    default:
      return STYLE_EXAMPLES[style]({ model, text })
  }
}
