/** The request of the playground in each API style, and back from a request that was kept. Pure. */
import { isPlainObject, listIn, objectIn, type PlainObject, parsed, textIn } from '../../../src/core/plain-json.ts'
import { STYLE_PATHS } from '../../../src/core/request-styles.ts'
import type { AnswerStyle } from '../../../src/core/shown-answer.ts'

/** What is entered. Empty texts are left out of the request. */
export type PlaygroundSettings = {
  readonly style: AnswerStyle
  readonly system: string
  readonly prompt: string
  readonly temperature: string
  readonly maxTokens: string
  readonly stream: boolean
  /** JSON: a list of `{name, description, parameters}`. */
  readonly tools: string
  /** JSON: the schema of the answer. */
  readonly schema: string
  /** JSON: the messages before the prompt, as the style has them. */
  readonly earlier: string
  /** A data URL. */
  readonly image: string | null
}

export const NO_SETTINGS: PlaygroundSettings = {
  style: 'chat',
  system: '',
  prompt: '',
  temperature: '',
  maxTokens: '',
  stream: true,
  tools: '',
  schema: '',
  earlier: '',
  image: null,
}

/** A request of the model API. `path`: below /v1. */
export type BuiltRequest = { readonly path: string; readonly body: PlainObject }

export type FieldName = 'prompt' | 'temperature' | 'maxTokens' | 'tools' | 'schema' | 'earlier'

/** Fields that no request can be made of. */
export const wrongFields = (settings: PlaygroundSettings): readonly FieldName[] => {
  const { prompt, temperature, maxTokens, tools, schema, earlier, image } = settings
  const isList = (text: string) => text.trim() === '' || Array.isArray(parsed(text))
  const degree = Number(temperature)
  const checks: readonly (readonly [field: FieldName, isRight: boolean])[] = [
    ['prompt', prompt.trim() !== '' || image !== null || listIn(parsed(earlier)).length > 0],
    ['temperature', temperature === '' || (degree >= 0 && degree <= 2)],
    ['maxTokens', maxTokens === '' || /^[1-9][0-9]{0,6}$/.test(maxTokens)],
    ['tools', isList(tools)],
    ['schema', schema.trim() === '' || isPlainObject(parsed(schema))],
    ['earlier', isList(earlier)],
  ]
  return checks.flatMap(([field, isRight]) => (isRight ? [] : [field]))
}

type Tool = { readonly name: string; readonly description: string; readonly parameters: PlainObject }

/** Tools in the form of the playground; forms of the API styles are understood too. */
const toolsOf = (list: unknown): readonly Tool[] =>
  listIn(list).map((entry) => {
    const one = objectIn(objectIn(entry).function ?? entry)
    const parameters = objectIn(one.parameters ?? one.input_schema ?? { type: 'object', properties: {} })
    return { name: textIn(one.name), description: textIn(one.description), parameters }
  })

const imageParts = (image: string): { readonly mediaType: string; readonly data: string } => {
  const [, mediaType = 'image/png', data = ''] = /^data:([^;,]+);base64,(.*)$/s.exec(image) ?? []
  return { mediaType, data }
}

const numbers = ({ temperature, maxTokens }: PlaygroundSettings, most: string): PlainObject => ({
  ...(temperature !== '' && { temperature: Number(temperature) }),
  ...(maxTokens !== '' && { [most]: Number(maxTokens) }),
})

/** The turn of the user; none where only earlier messages are sent. */
const turn = (
  { prompt, image }: PlaygroundSettings,
  text: string,
  imagePart: (image: string) => PlainObject,
): PlainObject[] => {
  if (prompt === '' && image === null) return []
  if (image === null) return [{ role: 'user', content: prompt }]
  return [{ role: 'user', content: [imagePart(image), ...(prompt === '' ? [] : [{ type: text, text: prompt }])] }]
}

const BUILD: { readonly [style in AnswerStyle]: (settings: PlaygroundSettings, model: string) => PlainObject } = {
  chat(settings, model) {
    const { system, earlier, stream, tools, schema } = settings
    const image = (url: string) => ({ type: 'image_url', image_url: { url } })
    return {
      model,
      messages: [
        ...(system === '' ? [] : [{ role: 'system', content: system }]),
        ...listIn(parsed(earlier)),
        ...turn(settings, 'text', image),
      ],
      ...numbers(settings, 'max_completion_tokens'),
      ...(tools.trim() !== '' && {
        tools: toolsOf(parsed(tools)).map((tool) => ({ type: 'function', function: tool })),
      }),
      ...(schema.trim() !== '' && {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'answer', schema: parsed(schema), strict: true },
        },
      }),
      ...(stream && { stream, stream_options: { include_usage: true } }),
    }
  },
  responses(settings, model) {
    const { system, earlier, stream, tools, schema } = settings
    const image = (image_url: string) => ({ type: 'input_image', image_url })
    return {
      model,
      ...(system !== '' && { instructions: system }),
      input: [...listIn(parsed(earlier)), ...turn(settings, 'input_text', image)],
      ...numbers(settings, 'max_output_tokens'),
      ...(tools.trim() !== '' && { tools: toolsOf(parsed(tools)).map((tool) => ({ type: 'function', ...tool })) }),
      ...(schema.trim() !== '' && {
        text: { format: { type: 'json_schema', name: 'answer', schema: parsed(schema), strict: true } },
      }),
      store: false,
      ...(stream && { stream }),
    }
  },
  messages(settings, model) {
    const { system, earlier, stream, tools, schema } = settings
    const image = (url: string) => {
      const { mediaType, data } = imageParts(url)
      return { type: 'image', source: { type: 'base64', media_type: mediaType, data } }
    }
    return {
      model,
      // The style requires it.
      max_tokens: 1024,
      ...(system !== '' && { system }),
      messages: [...listIn(parsed(earlier)), ...turn(settings, 'text', image)],
      ...numbers(settings, 'max_tokens'),
      ...(tools.trim() !== '' && {
        tools: toolsOf(parsed(tools)).map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
      }),
      ...(schema.trim() !== '' && { output_config: { format: { type: 'json_schema', schema: parsed(schema) } } }),
      ...(stream && { stream }),
    }
  },
}

// The keys are those of the table.
export const STYLES = Object.keys(BUILD) as readonly AnswerStyle[]

/** The request for a model. The settings have no wrong fields. */
export const requestOf = (settings: PlaygroundSettings, model: string): BuiltRequest => ({
  path: STYLE_PATHS[settings.style],
  body: BUILD[settings.style](settings, model),
})

/** The text of a message; null: it contains more than text. */
const plainText = (content: unknown): string | null => {
  if (typeof content === 'string') return content
  const parts = listIn(content).map(objectIn)
  const isText = parts.length > 0 && parts.every(({ type }) => /^(?:input_)?text$/.test(textIn(type)))
  return isText ? parts.map(({ text }) => textIn(text)).join('\n') : null
}

const json = (value: unknown): string => JSON.stringify(value, null, 2)

/** The settings of a request in an API style, for editing it. Members that the playground has no field for are left out. */
export const settingsOf = (style: AnswerStyle, value: unknown): PlaygroundSettings => {
  const body = objectIn(value)
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : listIn(body.input)
  const all = (style === 'responses' ? input : listIn(body.messages)).map(objectIn)
  const isSystem = ({ role }: PlainObject) => role === 'system' || role === 'developer'
  const [opening] = all
  const leading = style !== 'messages' && opening && isSystem(opening) ? plainText(opening.content) : null
  const rest = leading === null ? all : all.slice(1)
  const own = plainText(style === 'responses' ? body.instructions : body.system)
  const last = rest.at(-1)
  const prompt = last?.role === 'user' ? plainText(last.content) : null
  const earlier = prompt === null ? rest : rest.slice(0, -1)
  const tools = toolsOf(body.tools).filter(({ name }) => name !== '')
  const schema =
    objectIn(objectIn(body.response_format).json_schema).schema ??
    objectIn(objectIn(body.text).format).schema ??
    objectIn(objectIn(body.output_config).format).schema
  const most = body.max_completion_tokens ?? body.max_output_tokens ?? body.max_tokens
  return {
    style,
    system: [own, leading].filter((text) => text !== null && text !== '').join('\n'),
    prompt: prompt ?? '',
    temperature: typeof body.temperature === 'number' ? String(body.temperature) : '',
    maxTokens: typeof most === 'number' ? String(most) : '',
    stream: body.stream === true,
    tools: tools.length === 0 ? '' : json(tools),
    schema: schema === undefined ? '' : json(schema),
    earlier: earlier.length === 0 ? '' : json(earlier),
    image: null,
  }
}
