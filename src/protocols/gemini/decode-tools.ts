/** Decodes the tools of a generateContent request, and which of them the model may or must call. */
import type { Extra, GenerationSettings, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'
import type { Problems, RequestFields } from '../shared/request-fields.ts'
import { presentSettings, settingAt } from '../shared/setting-decoders.ts'
import { openapiToJsonSchema } from './openapi-schema.ts'
import { protoFields, protoFieldsIn } from './proto-fields.ts'

/** The tools with the choice among them. */
export type DecodedTools = {
  readonly tools: readonly Tool[]
  readonly settings: Pick<GenerationSettings, 'toolChoice'>
  readonly extras: readonly Extra[]
}

export const decodeTools = (fields: RequestFields, problems: Problems): DecodedTools => {
  const path = fields.path('tools')
  const tools = (fields.list('tools') ?? []).flatMap((tool, index) => decodeTool(tool, `${path}[${index}]`, problems))
  const config = protoFieldsIn(fields, 'toolConfig', problems)
  const calling = config && protoFieldsIn(config, 'functionCallingConfig', problems)
  const mode = calling?.string('mode')?.toUpperCase()
  const choice = calling && decodeChoice(calling, mode)
  const settings = presentSettings({ toolChoice: settingAt(calling?.at ?? '', choice) })
  const extras = [...(calling?.unread() ?? []), ...(config?.unread() ?? [])]
  return { tools: tools.map((tool) => withPlace(tool, tools, mode === 'VALIDATED')), settings, extras }
}

/** Google's search and maps are optional beside other tools; the only tool is what the request is for (gemini-cli's search). */
const withPlace = (tool: Tool, all: readonly Tool[], isValidated: boolean): Tool => {
  if (tool.kind === 'function') return isValidated ? { ...tool, strict: true } : tool
  const isSpare = tool.kind === 'foreign' && all.length > 1 && Object.keys(tool.raw).every((name) => SPARE.test(name))
  return isSpare ? { ...tool, optional: true } : tool
}

const SPARE = /^(?:google_?search|google_?search_?retrieval|google_?maps|url_?context)$/i

/** An entry of `tools` has a list of functions, and hosted tools by their names. */
const decodeTool = (tool: Json, at: string, problems: Problems): Tool[] => {
  if (!isObject(tool)) {
    protoFields({}, at, problems).missing('functionDeclarations', 'a tool')
    return []
  }
  const fields = protoFields(tool, at, problems)
  const path = fields.path('functionDeclarations')
  const functions = (fields.list('functionDeclarations') ?? []).map((one, index) =>
    decodeFunction(one, `${path}[${index}]`, problems),
  )
  const hosted = fields
    .unread()
    .map(({ at, name, value }): Tool => ({ kind: 'foreign', at, protocol: 'gemini', raw: { [name]: value } }))
  return [...functions, ...hosted]
}

const decodeFunction = (declaration: Json, at: string, problems: Problems): Tool => {
  const fields = protoFields(declaration, at, problems)
  const name = fields.string('name')
  if (!name) fields.missing('name', 'the name of the function')
  const description = fields.string('description')
  const given = fields.object('parametersJsonSchema')
  const subset = fields.object('parameters')
  const parameters = given ?? (subset && openapiToJsonSchema(subset))
  const extras = fields.unread()
  return {
    kind: 'function',
    at,
    name: name ?? '',
    ...(description !== undefined && { description }),
    ...(parameters && { parameters }),
    strict: false,
    ...(extras.length > 0 && { extras }),
  }
}

const decodeChoice = (fields: RequestFields, mode: string | undefined): ToolChoice | undefined => {
  const names = (fields.list('allowedFunctionNames') ?? []).filter((name) => typeof name === 'string')
  const [first] = names
  switch (mode) {
    case 'NONE':
      return { kind: 'none' }
    case 'ANY':
      if (first === undefined) return { kind: 'required' }
      return names.length === 1 ? { kind: 'tool', name: first } : { kind: 'allowed', mode: 'required', names }
    case 'VALIDATED':
      return first === undefined ? { kind: 'auto' } : { kind: 'allowed', mode: 'auto', names }
    case 'AUTO':
      return { kind: 'auto' }
    case undefined:
    case 'MODE_UNSPECIFIED':
      return undefined
    default:
      fields.invalid('mode', 'AUTO, ANY, NONE or VALIDATED')
      return undefined
  }
}
