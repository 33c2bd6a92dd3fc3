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
import type { DecodeState } from '../client-parts/chat-parts.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { isFreeChoice, isHostedTool, MESSAGES_CHOICES } from '../shared/hosted-tools.ts'
import { type Problems, type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'
import { presentSettings, settingAt } from '../shared/setting-decoders.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { isClientSearch, type ToolNames, toolItems, toolNames } from '../shared/tool-names.ts'
import { decodeInput } from './decode-input.ts'

/** Decodes a responses request. Unknown members are kept as extras; only wrong types are rejected. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: DecodeState = { spare: [] }
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const extras: Extra[] = decodeStored(fields)
  const names = toolNames(body)
  const messages = decodeMessages(fields, extras.length > 0, names, problems)
  const tools = decodeTools(fields, { names, extras, problems })
  const settings = presentSettings({
    maxOutputTokens: settingAt('max_output_tokens', fields.number('max_output_tokens')),
    temperature: settingAt('temperature', fields.number('temperature')),
    topP: settingAt('top_p', fields.number('top_p')),
    topLogprobs: settingAt('top_logprobs', fields.number('top_logprobs')),
    // Defined by Open Responses; OpenAI only echoes them.
    presencePenalty: settingAt('presence_penalty', fields.number('presence_penalty')),
    frequencyPenalty: settingAt('frequency_penalty', fields.number('frequency_penalty')),
    parallelToolCalls: settingAt('parallel_tool_calls', fields.flag('parallel_tool_calls')),
    metadata: settingAt('metadata', fields.object('metadata')),
    store: settingAt('store', fields.flag('store')),
    serviceTier: settingAt('service_tier', fields.string('service_tier')),
    promptCacheKey: settingAt('prompt_cache_key', fields.string('prompt_cache_key')),
    user: decodeUser(fields),
    ...decodeText(fields.fields('text'), extras),
    ...decodeReasoning(fields.fields('reasoning'), extras),
    ...decodeInclude(fields, extras),
    ...decodeToolChoice(fields, { names, extras, problems }),
  })
  extras.push(...decodeSwitches(fields), ...problems.spare, ...fields.unread())
  if (problems.first) return bad(problems.first)
  const mayTruncate = body.truncation === 'auto'
  return good({
    model,
    stream,
    messages,
    tools,
    settings,
    extras,
    ...(mayTruncate && { mayTruncate }),
    ...(problems.reshaped && { reshaped: true }),
  })
}

const extraOf = (fields: RequestFields, name: string, value: Json, essential: boolean): Extra => ({
  at: fields.path(name),
  name,
  value,
  essential,
})

/** Members that only the provider with the stored data can honour. With one of them `input` is optional. */
const decodeStored = (fields: RequestFields): Extra[] => {
  const previous = fields.string('previous_response_id')
  const conversation = fields.any('conversation')
  const prompt = fields.object('prompt')
  if (conversation !== undefined && typeof conversation !== 'string' && !isObject(conversation))
    fields.invalid('conversation', 'a string or an object')
  return [
    ...(previous === undefined ? [] : [extraOf(fields, 'previous_response_id', previous, true)]),
    ...(conversation === undefined ? [] : [extraOf(fields, 'conversation', conversation, true)]),
    ...(prompt === undefined ? [] : [extraOf(fields, 'prompt', prompt, true)]),
  ]
}

const decodeMessages = (
  fields: RequestFields,
  hasStoredInput: boolean,
  names: ToolNames,
  problems: DecodeState,
): Message[] => {
  const messages: Message[] = []
  const instructions = fields.string('instructions')
  if (instructions !== undefined) {
    const at = fields.path('instructions')
    messages.push({ role: 'system', at, as: 'system', content: [{ type: 'text', at, text: instructions }] })
  }
  const member = fields.has('input') || !fields.has('messages') ? 'input' : 'messages'
  const input = fields.any(member)
  const at = fields.path(member)
  if (typeof input === 'string') messages.push({ role: 'user', at, content: [{ type: 'text', at, text: input }] })
  else if (isList(input))
    for (const message of decodeInput({ member, items: input }, names, problems)) messages.push(message)
  else if (input !== undefined) fields.invalid(member, 'a string or a list of items')
  if (!hasStoredInput && input === undefined) fields.missing('input', 'a string or a list of items')
  if (!hasStoredInput && isList(input) && input.length === 0)
    fields.invalid(member, 'a string or a list of at least one item')
  return messages
}

/** Members whose default has no effect: kept only if they differ from it. */
const decodeSwitches = (fields: RequestFields): Extra[] => {
  const background = fields.flag('background')
  const truncation = fields.string('truncation')
  const options = fields.object('stream_options')
  // No other format pads its events, so `include_obfuscation: false` has no effect.
  const effective = Object.entries(options ?? {}).filter(
    ([name, value]) => value !== null && !(name === 'include_obfuscation' && value === false),
  )
  return [
    ...(background ? [extraOf(fields, 'background', true, true)] : []),
    ...(truncation === undefined || truncation === 'disabled' || truncation === 'auto'
      ? []
      : [extraOf(fields, 'truncation', truncation, false)]),
    ...(options && effective.length > 0 ? [extraOf(fields, 'stream_options', options, false)] : []),
  ]
}

/** `safety_identifier` replaces `user`. If both are present, `user` stays unread and becomes an extra. */
const decodeUser = (fields: RequestFields): Setting<string> | undefined =>
  settingAt('safety_identifier', fields.string('safety_identifier')) ?? settingAt('user', fields.string('user'))

// ── Groups of settings ───────────────────────────────────────────────────────────────────────────────────────────────

const decodeText = (fields: RequestFields | undefined, extras: Extra[]): GenerationSettings => {
  if (!fields) return {}
  const settings = presentSettings({
    format: settingAt(fields.path('format'), decodeFormat(fields, extras)),
    verbosity: settingAt(fields.path('verbosity'), fields.string('verbosity')),
  })
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
  const level = fields.string('effort')
  const effort = Object.values(EFFORTS).find((known) => known === level)
  if (level !== undefined && level !== DEFAULT_EFFORT && !effort)
    extras.push({ at: fields.path('effort'), name: 'effort', value: level, essential: false })
  const older = fields.string('generate_summary')
  const settings = presentSettings({
    effort: settingAt(fields.path('effort'), effort),
    reasoningSummary:
      settingAt(fields.path('summary'), fields.string('summary')) ?? settingAt(fields.path('generate_summary'), older),
  })
  extras.push(...fields.unread())
  return settings
}

const decodeInclude = (fields: RequestFields, extras: Extra[]): GenerationSettings => {
  let settings: GenerationSettings = {}
  for (const [index, entry] of (fields.list('include') ?? []).entries()) {
    const at = `${fields.path('include')}[${index}]`
    if (entry === 'reasoning.encrypted_content') settings = { ...settings, encryptedReasoning: { value: true, at } }
    else if (entry === 'message.output_text.logprobs') settings = { ...settings, logprobs: { value: true, at } }
    else extras.push({ at, name: 'include', value: entry, essential: false })
  }
  return settings
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Shared state while tools are decoded. */
type ToolContext = { readonly names: ToolNames; readonly extras: Extra[]; readonly problems: DecodeState }

/** The request's tools, then those of items in the input. Each name once. */
const decodeTools = (fields: RequestFields, context: ToolContext): Tool[] => {
  const listed = decodeList(fields, 'tools', context)
  const isOptional = isFreeChoice(fields.any('tool_choice'))
  const known = new Set(listed.map((tool) => (tool.kind === 'foreign' ? undefined : tool.name)))
  const found = toolItems(fields.any('input')).flatMap(({ at, item }) => {
    const itemFields = requestFields(item, `${fields.path('input')}[${at}]`, context.problems)
    return decodeList(itemFields, 'tools', context)
  })
  const fresh = found.flatMap((tool): Tool[] => {
    if (tool.kind === 'foreign') return [tool]
    if (known.has(tool.name)) return []
    known.add(tool.name)
    return [tool.kind === 'function' ? withoutDeferral(tool) : tool]
  })
  return [...listed, ...fresh].map((tool) =>
    tool.kind === 'foreign' && isOptional && isHostedTool(tool.raw) ? { ...tool, optional: true } : tool,
  )
}

/** Drops `defer_loading`, which has no meaning once the tool has been found. */
const withoutDeferral = ({ extras, ...tool }: Tool & { kind: 'function' }): Tool => {
  const rest = extras?.filter(({ name }) => name !== 'defer_loading') ?? []
  return { ...tool, ...(rest.length > 0 && { extras: rest }) }
}

const decodeList = (fields: RequestFields, member: string, context: ToolContext): Tool[] =>
  (fields.list(member) ?? []).flatMap((value, index) => {
    if (isObject(value)) return decodeTool(value, `${fields.path(member)}[${index}]`, undefined, context)
    fields.invalid(member, 'a list of objects')
    return []
  })

const IMPLIED_STRICT: MemberPaths = { strict: null }

const decodeTool = (value: JsonObject, at: string, namespace: string | undefined, context: ToolContext): Tool[] => {
  const { names, extras, problems } = context
  const outer = requestFields(value, at, problems)
  const { type, fields, isNested } = shapeOf(outer, value, problems)
  if (!type) fields.missing('type', 'the kind of tool')
  if (type === 'namespace' && namespace === undefined) return decodeNamespace(fields, context)
  const isSearch = isClientSearch(value)
  if (type !== 'function' && type !== 'custom' && !isSearch)
    return [{ kind: 'foreign', at, protocol: 'openai-responses', raw: value }]
  const name = isSearch ? names.search : fields.string('name')
  if (!name) fields.missing('name', 'the name of the tool')
  const description = fields.string('description')
  const common = { at, name: names.flat(namespace, name ?? ''), ...(description !== undefined && { description }) }
  if (type === 'custom') {
    const format = fields.any('format')
    extras.push(...fields.unread())
    return [{ kind: 'custom', ...common, ...(format !== undefined && { format }) }]
  }
  const parameters = fields.object('parameters') ?? fields.object('input_schema')
  if (isSearch) fields.any('execution')
  // This format defaults to strict if the schema allows it. Elsewhere, strict with a schema that breaks its rules is
  // rejected (400 invalid_function_parameters). A tool search is never strict.
  const explicit = fields.flag('strict') ?? (isNested ? false : undefined)
  const strict = explicit ?? (!isSearch && allowsStrict(parameters))
  const implied = explicit === undefined && strict ? { paths: IMPLIED_STRICT } : {}
  const rest = [...fields.unread(), ...(fields === outer ? [] : outer.unread())]
  return [
    {
      kind: 'function',
      ...common,
      ...(parameters && { parameters }),
      strict,
      ...implied,
      ...(rest.length > 0 && { extras: rest }),
    },
  ]
}

/** The kind of a tool, and the object with its members, which chat completions nest. There a function is not strict by default. */
type ToolShape = { readonly type: string | undefined; readonly fields: RequestFields; readonly isNested: boolean }

const shapeOf = (tool: RequestFields, value: JsonObject, problems: Problems): ToolShape => {
  const type = tool.string('type')
  const kind = object(value.function) ? 'function' : type === 'custom' && object(value.custom) ? 'custom' : undefined
  const inner = kind && tool.fields(kind)
  const isOfMessages = !inner && (type === undefined || type === 'custom') && object(value.input_schema) !== undefined
  if (inner || isOfMessages) problems.reshaped = true
  return inner
    ? { type: kind, fields: inner, isNested: true }
    : { type: isOfMessages ? 'function' : type, fields: tool, isNested: isOfMessages }
}

/** A namespace of tools. Its description is prepended to that of its first tool. */
const decodeNamespace = (fields: RequestFields, context: ToolContext): Tool[] => {
  const name = fields.string('name')
  if (!name) fields.missing('name', 'the name of the namespace')
  const description = fields.string('description')
  const members = fields.list('tools')
  if (!members) fields.missing('tools', 'a list of tools')
  context.extras.push(...fields.unread())
  const tools = (members ?? []).flatMap((value, index) => {
    if (isObject(value)) return decodeTool(value, `${fields.path('tools')}[${index}]`, name ?? '', context)
    fields.invalid('tools', 'a list of objects')
    return []
  })
  const [first, ...others] = tools
  if (!description || !first || first.kind === 'foreign') return tools
  const paragraphs = [`[${name}: ${description}]`, ...(first.description ? [first.description] : [])]
  return [{ ...first, description: paragraphs.join('\n\n') }, ...others]
}

const decodeToolChoice = (fields: RequestFields, { names, extras, problems }: ToolContext): GenerationSettings => {
  const nameOf = (tool: Json): string | undefined => {
    if (!isObject(tool) || !NAMED_CHOICES.has(tool.type)) return undefined
    // Chat completions nest the name in `function` or `custom`.
    const nested = text(object(tool.function)?.name) ?? text(object(tool.custom)?.name)
    if (nested !== undefined || tool.type === 'tool') problems.reshaped = true
    const name = text(tool.name) || nested
    return name ? names.chosen(text(tool.namespace), name) : undefined
  }
  const at = fields.path('tool_choice')
  const value = fields.any('tool_choice')
  if (value === undefined) return {}
  if (value === 'auto' || value === 'none' || value === 'required')
    return { toolChoice: { value: { kind: value }, at } }
  // Mistral's name for `required`.
  if (value === 'any') return { toolChoice: { value: { kind: 'required' }, at } }
  const unknown: Extra = { at, name: 'tool_choice', value, essential: true }
  if (typeof value === 'string') {
    extras.push(unknown)
    return {}
  }
  if (!isObject(value)) {
    fields.invalid('tool_choice', '"auto", "none", "required" or an object')
    return {}
  }
  const name = nameOf(value)
  if (name) return { toolChoice: { value: { kind: 'tool', name }, at } }
  const kindOfMessages = MESSAGES_CHOICES.get(value.type)
  if (kindOfMessages) {
    problems.reshaped = true
    return { toolChoice: { value: { kind: kindOfMessages }, at } }
  }
  const nestedTools = object(value.allowed_tools)
  const allowed = nestedTools ?? value
  if (value.type === 'allowed_tools' && isList(allowed.tools)) {
    if (nestedTools) problems.reshaped = true
    const names = allowed.tools.map(nameOf)
    if (names.length > 0 && names.every((listed) => listed !== undefined))
      return {
        toolChoice: { value: { kind: 'allowed', mode: allowed.mode === 'required' ? 'required' : 'auto', names }, at },
      }
  }
  if (value.type === 'function' || value.type === 'custom')
    fields.invalid('tool_choice', 'an object with the `name` of a tool')
  // A hosted tool or an unknown kind of choice, which no other format can represent.
  extras.push(unknown)
  return {}
}

/** The types of a choice that names a tool. Some clients omit the type. */
const NAMED_CHOICES: ReadonlySet<unknown> = new Set([undefined, 'function', 'custom', 'tool'])
