import type {
  ChatRequest,
  Effort,
  Extra,
  GenerationSettings,
  MemberPaths,
  Message,
  OutputFormat,
  Setting,
  Tool,
} from '../../core/chat.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { isFreeChoice, isHostedTool } from '../shared/hosted-tools.ts'
import { type Problems, type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { foundTools, isClientSearch, type ToolNames, toolNames } from '../shared/tool-names.ts'
import { decodeInput } from './decode-input.ts'

/** A responses request in our words. Words nobody here knows are kept as extras; only wrong types are refused. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: Problems = {}
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const extras: Extra[] = decodeStored(fields)
  const names = toolNames(body)
  const messages = decodeMessages(fields, extras.length > 0, names, problems)
  const tools = decodeTools(fields, { names, extras, problems })
  const settings = {
    ...setting('maxOutputTokens', fields, 'max_output_tokens', fields.number('max_output_tokens')),
    ...setting('temperature', fields, 'temperature', fields.number('temperature')),
    ...setting('topP', fields, 'top_p', fields.number('top_p')),
    ...setting('topLogprobs', fields, 'top_logprobs', fields.number('top_logprobs')),
    // In Open Responses; OpenAI only echoes them.
    ...setting('presencePenalty', fields, 'presence_penalty', fields.number('presence_penalty')),
    ...setting('frequencyPenalty', fields, 'frequency_penalty', fields.number('frequency_penalty')),
    ...setting('parallelToolCalls', fields, 'parallel_tool_calls', fields.flag('parallel_tool_calls')),
    ...setting('metadata', fields, 'metadata', fields.object('metadata')),
    ...setting('store', fields, 'store', fields.flag('store')),
    ...setting('serviceTier', fields, 'service_tier', fields.string('service_tier')),
    ...setting('promptCacheKey', fields, 'prompt_cache_key', fields.string('prompt_cache_key')),
    ...decodeUser(fields),
    ...decodeText(fields.fields('text'), extras),
    ...decodeReasoning(fields.fields('reasoning'), extras),
    ...decodeInclude(fields, extras),
    ...decodeToolChoice(fields, names, extras),
  }
  extras.push(...decodeSwitches(fields), ...fields.unread())
  if (problems.first) return bad(problems.first)
  const mayShorten = body.truncation === 'auto'
  return good({ model, stream, messages, tools, settings, extras, ...(mayShorten && { mayShorten }) })
}

const kept = (fields: RequestFields, name: string, value: Json, essential: boolean): Extra => ({
  at: fields.path(name),
  name,
  value,
  essential,
})

const setting = <Name extends keyof GenerationSettings>(
  name: Name,
  fields: RequestFields,
  member: string,
  value: NonNullable<GenerationSettings[Name]>['value'] | undefined,
): GenerationSettings =>
  value === undefined ? {} : { [name]: { value, at: fields.path(member) } satisfies Setting<unknown> }

/** What only the provider that has the data can honour. With one of these the input may be missing: it lies there. */
const decodeStored = (fields: RequestFields): Extra[] => {
  const previous = fields.string('previous_response_id')
  const conversation = fields.any('conversation')
  const prompt = fields.object('prompt')
  if (conversation !== undefined && typeof conversation !== 'string' && !isObject(conversation))
    fields.invalid('conversation', 'a string or an object')
  return [
    ...(previous === undefined ? [] : [kept(fields, 'previous_response_id', previous, true)]),
    ...(conversation === undefined ? [] : [kept(fields, 'conversation', conversation, true)]),
    ...(prompt === undefined ? [] : [kept(fields, 'prompt', prompt, true)]),
  ]
}

const decodeMessages = (fields: RequestFields, elsewhere: boolean, names: ToolNames, problems: Problems): Message[] => {
  const messages: Message[] = []
  const instructions = fields.string('instructions')
  if (instructions !== undefined) {
    const at = fields.path('instructions')
    messages.push({ role: 'system', at, as: 'system', content: [{ type: 'text', at, text: instructions }] })
  }
  const input = fields.any('input')
  const at = fields.path('input')
  if (typeof input === 'string') messages.push({ role: 'user', at, content: [{ type: 'text', at, text: input }] })
  else if (isList(input)) for (const message of decodeInput(input, names, problems)) messages.push(message)
  else if (input !== undefined) fields.invalid('input', 'a string or a list of items')
  if (!elsewhere && input === undefined) fields.missing('input', 'a string or a list of items')
  if (!elsewhere && isList(input) && input.length === 0)
    fields.invalid('input', 'a string or a list of at least one item')
  return messages
}

/** Members whose usual value says nothing: kept only where they differ from it. */
const decodeSwitches = (fields: RequestFields): Extra[] => {
  const background = fields.flag('background')
  const truncation = fields.string('truncation')
  const options = fields.object('stream_options')
  // Not to be padded is what every other format does anyway.
  const wishes = Object.entries(options ?? {}).filter(
    ([name, value]) => value !== null && !(name === 'include_obfuscation' && value === false),
  )
  return [
    ...(background ? [kept(fields, 'background', true, true)] : []),
    ...(truncation === undefined || truncation === 'disabled' || truncation === 'auto'
      ? []
      : [kept(fields, 'truncation', truncation, false)]),
    ...(options && wishes.length > 0 ? [kept(fields, 'stream_options', options, false)] : []),
  ]
}

/** The newer name says the same better; beside it the older stays unread and is an extra. */
const decodeUser = (fields: RequestFields): GenerationSettings => {
  const newer = fields.string('safety_identifier')
  return newer === undefined
    ? setting('user', fields, 'user', fields.string('user'))
    : setting('user', fields, 'safety_identifier', newer)
}

// ── Groups of settings ───────────────────────────────────────────────────────────────────────────────────────────

const decodeText = (fields: RequestFields | undefined, extras: Extra[]): GenerationSettings => {
  if (!fields) return {}
  const settings = {
    ...setting('format', fields, 'format', decodeFormat(fields, extras)),
    ...setting('verbosity', fields, 'verbosity', fields.string('verbosity')),
  }
  extras.push(...fields.unread())
  return settings
}

const decodeFormat = (fields: RequestFields, extras: Extra[]): OutputFormat | undefined => {
  const format = fields.fields('format')
  if (!format) return undefined
  const type = format.string('type')
  switch (type) {
    case 'text':
      return { kind: 'text' }
    case 'json_object':
      return { kind: 'json' }
    case 'json_schema': {
      const name = format.string('name') || DEFAULT_FORMAT_NAME
      const schema = format.object('schema')
      if (!schema) format.missing('schema', 'a JSON Schema')
      const description = format.string('description')
      const strict = format.flag('strict') ?? allowsStrict(schema)
      extras.push(...format.unread())
      return {
        kind: 'schema',
        name,
        schema: schema ?? {},
        ...(description !== undefined && { description }),
        strict,
      }
    }
    default:
      if (type === undefined) format.missing('type', '"text", "json_object" or "json_schema"')
      extras.push({ at: format.at, name: 'format', value: fields.object('format') ?? null, essential: true })
      return undefined
  }
}

const EFFORTS: { readonly [effort in Effort]: effort } = {
  none: 'none',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}

const decodeReasoning = (fields: RequestFields | undefined, extras: Extra[]): GenerationSettings => {
  if (!fields) return {}
  const word = fields.string('effort')
  const effort = Object.values(EFFORTS).find((known) => known === word)
  if (word !== undefined && word !== DEFAULT_EFFORT && !effort)
    extras.push({ at: fields.path('effort'), name: 'effort', value: word, essential: false })
  const older = fields.string('generate_summary')
  const settings = {
    ...setting('effort', fields, 'effort', effort),
    ...setting('reasoningSummary', fields, 'generate_summary', older),
    ...setting('reasoningSummary', fields, 'summary', fields.string('summary')),
  }
  extras.push(...fields.unread())
  return settings
}

const decodeInclude = (fields: RequestFields, extras: Extra[]): GenerationSettings => {
  let settings: GenerationSettings = {}
  for (const [index, wish] of (fields.list('include') ?? []).entries()) {
    const at = `${fields.path('include')}[${index}]`
    if (wish === 'reasoning.encrypted_content') settings = { ...settings, sealedReasoning: { value: true, at } }
    else if (wish === 'message.output_text.logprobs') settings = { ...settings, logprobs: { value: true, at } }
    else extras.push({ at, name: 'include', value: wish, essential: false })
  }
  return settings
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Reading = { readonly names: ToolNames; readonly extras: Extra[]; readonly problems: Problems }

/** Those the request lists, and behind them those a search in an earlier turn has found, each once. */
const decodeTools = (fields: RequestFields, reading: Reading): Tool[] => {
  const listed = decodeList(fields, 'tools', reading)
  const mayDoWithout = isFreeChoice(fields.any('tool_choice'))
  const known = new Set(listed.map((tool) => (tool.kind === 'foreign' ? undefined : tool.name)))
  const found = foundTools(fields.any('input')).flatMap(({ at, tools }) => {
    const path = `${fields.path('input')}[${at}]`
    return decodeList(requestFields({ tools }, path, reading.problems), 'tools', reading)
  })
  const fresh = found.flatMap((tool): Tool[] => {
    if (tool.kind === 'foreign') return [tool]
    if (known.has(tool.name)) return []
    known.add(tool.name)
    return [tool.kind === 'function' ? loaded(tool) : tool]
  })
  return [...listed, ...fresh].map((tool) =>
    tool.kind === 'foreign' && mayDoWithout && isHostedTool(tool.raw) ? { ...tool, spare: true } : tool,
  )
}

/** That it was to be found first means nothing once it has been. */
const loaded = ({ extras, ...tool }: Tool & { kind: 'function' }): Tool => {
  const rest = extras?.filter(({ name }) => name !== 'defer_loading') ?? []
  return { ...tool, ...(rest.length > 0 && { extras: rest }) }
}

const decodeList = (fields: RequestFields, member: string, reading: Reading): Tool[] =>
  (fields.list(member) ?? []).flatMap((value, index) => {
    if (isObject(value)) return decodeTool(value, `${fields.path(member)}[${index}]`, undefined, reading)
    fields.invalid(member, 'a list of objects')
    return []
  })

const IMPLIED_STRICT: MemberPaths = { strict: null }

const decodeTool = (value: JsonObject, at: string, namespace: string | undefined, reading: Reading): Tool[] => {
  const { names, extras, problems } = reading
  const fields = requestFields(value, at, problems)
  const type = fields.string('type')
  if (!type) fields.missing('type', 'the kind of tool')
  if (type === 'namespace' && namespace === undefined) return decodeNamespace(fields, reading)
  const isSearch = isClientSearch(value)
  if (type !== 'function' && type !== 'custom' && !isSearch)
    return [{ kind: 'foreign', at, protocol: 'openai-responses', raw: value }]
  const name = isSearch ? names.search : fields.string('name')
  if (!name) fields.missing('name', 'the name of the tool')
  const description = fields.string('description')
  const said = { at, name: names.flat(namespace, name ?? ''), ...(description !== undefined && { description }) }
  if (type === 'custom') {
    const format = fields.any('format')
    extras.push(...fields.unread())
    return [{ kind: 'custom', ...said, ...(format !== undefined && { format }) }]
  }
  const parameters = fields.object('parameters')
  if (isSearch) fields.any('execution')
  // Not said means strict here, but only as far as the schema allows: elsewhere the same word with a schema that
  // breaks strict's rules is refused (400 invalid_function_parameters). A search is no function and never strict.
  const written = fields.flag('strict')
  const strict = written ?? (!isSearch && allowsStrict(parameters))
  const implied = written === undefined && strict ? { paths: IMPLIED_STRICT } : {}
  const rest = fields.unread()
  return [
    {
      kind: 'function',
      ...said,
      ...(parameters && { parameters }),
      strict,
      ...implied,
      ...(rest.length > 0 && { extras: rest }),
    },
  ]
}

/** A group of tools. What is said of all of them is said with the first, once. */
const decodeNamespace = (fields: RequestFields, reading: Reading): Tool[] => {
  const name = fields.string('name')
  if (!name) fields.missing('name', 'the name of the namespace')
  const description = fields.string('description')
  const members = fields.list('tools')
  if (!members) fields.missing('tools', 'a list of tools')
  reading.extras.push(...fields.unread())
  const tools = (members ?? []).flatMap((value, index) => {
    if (isObject(value)) return decodeTool(value, `${fields.path('tools')}[${index}]`, name ?? '', reading)
    fields.invalid('tools', 'a list of objects')
    return []
  })
  const [first, ...others] = tools
  if (!description || !first || first.kind === 'foreign') return tools
  const words = [`[${name}: ${description}]`, ...(first.description ? [first.description] : [])]
  return [{ ...first, description: words.join('\n\n') }, ...others]
}

const decodeToolChoice = (fields: RequestFields, names: ToolNames, extras: Extra[]): GenerationSettings => {
  const nameOf = (tool: Json): string | undefined => {
    if (!isObject(tool) || !NAMING.has(tool.type)) return undefined
    // Chat completions have the name one level further down.
    const name = text(tool.name) || text(object(tool.function)?.name)
    return name ? names.flat(text(tool.namespace), name) : undefined
  }
  const value = fields.any('tool_choice')
  if (value === undefined) return {}
  if (value === 'auto' || value === 'none' || value === 'required')
    return setting('toolChoice', fields, 'tool_choice', { kind: value })
  // Mistral's word for it.
  if (value === 'any') return setting('toolChoice', fields, 'tool_choice', { kind: 'required' })
  const unknown: Extra = { at: fields.path('tool_choice'), name: 'tool_choice', value, essential: true }
  if (typeof value === 'string') {
    extras.push(unknown)
    return {}
  }
  if (!isObject(value)) {
    fields.invalid('tool_choice', '"auto", "none", "required" or an object')
    return {}
  }
  const name = nameOf(value)
  if (name) return setting('toolChoice', fields, 'tool_choice', { kind: 'tool', name })
  if (value.type === 'allowed_tools' && isList(value.tools)) {
    const names = value.tools.map(nameOf)
    if (names.length > 0 && names.every((one) => one !== undefined))
      return setting('toolChoice', fields, 'tool_choice', {
        kind: 'allowed',
        mode: value.mode === 'required' ? 'required' : 'auto',
        names,
      })
  }
  if (value.type === 'function' || value.type === 'custom')
    fields.invalid('tool_choice', 'an object with the `name` of a tool')
  // A tool the provider runs, or a kind of choice that came later: no other format can say it.
  extras.push(unknown)
  return {}
}

/** The types of a choice that names a tool; some clients leave it out. */
const NAMING: ReadonlySet<unknown> = new Set([undefined, 'function', 'custom'])
