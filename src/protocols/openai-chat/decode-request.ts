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
  ToolChoice,
} from '../../core/chat.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { readMessages } from '../client-parts/chat-messages.ts'
import { type DecodeState, entryOf } from '../client-parts/chat-parts.ts'
import { decodeSystem } from '../client-parts/message-blocks.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { isFreeChoice, isHostedTool, MESSAGES_CHOICES } from '../shared/hosted-tools.ts'
import { type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'
import { decodeSampling, presentSettings, settingAt, unlessEmpty } from '../shared/setting-decoders.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'

/** Decodes a chat completions request, or returns the first problem. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: DecodeState = { spare: [] }
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const system = readSystem(fields, problems)
  const turns = readMessages(fields, problems)
  const messages = system.length === 0 ? turns : [...system, ...turns]
  const tools = readTools(fields, problems)
  const settings = readSettings(fields, problems)
  const streamRest = fields.fields('stream_options')
  const usage = streamRest?.flag('include_usage')
  const free = isFreeChoice(fields.any('tool_choice'))
  const rest = fields
    .unread(isEssential)
    .map((extra) => (free && extra.name === 'web_search_options' ? asOptional(extra) : extra))
  const extras = [...rest, ...(streamRest?.unread() ?? []), ...problems.spare]
  if (problems.first) return bad(problems.first)
  return good({
    model,
    stream,
    messages,
    tools,
    settings: { ...settings, ...(usage && { streamUsage: { value: true, at: 'stream_options.include_usage' } }) },
    extras,
    ...(problems.reshaped && { reshaped: true }),
  })
}

/** The top-level system prompt of the messages format. */
const readSystem = (fields: RequestFields, problems: DecodeState): readonly Message[] => {
  if (!fields.has('system')) return []
  problems.reshaped = true
  return decodeSystem(fields, problems)
}

const asOptional = (extra: Extra): Extra => ({ ...extra, optional: true })

/** Unknown members that change the request's meaning: web search, and answers other than text. */
const isEssential = (name: string, value: Json): boolean =>
  name === 'web_search_options' || (name === 'modalities' && list(value).some((kind) => kind !== 'text'))

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const EFFORTS: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] satisfies Effort[]
const isEffort = (value: string): value is Effort => EFFORTS.includes(value)

const readSettings = (fields: RequestFields, problems: DecodeState): GenerationSettings => {
  const limit = { least: 1, whole: true }
  const newer = fields.number('max_completion_tokens', limit)
  const older = fields.number('max_tokens', limit)
  const reasoning = readEffort(fields, problems)
  const all = {
    maxOutputTokens:
      newer !== undefined
        ? { value: newer, at: 'max_completion_tokens' }
        : older !== undefined
          ? { value: older, at: 'max_tokens' }
          : undefined,
    ...decodeSampling(fields),
    choices: settingAt('n', unless(1, fields.number('n', { least: 1, most: 128, whole: true }))),
    logprobs: settingAt('logprobs', fields.flag('logprobs') || undefined),
    topLogprobs: settingAt(
      'top_logprobs',
      fields.number('top_logprobs', { least: 0, most: 20, whole: true }) || undefined,
    ),
    toolChoice: readToolChoice(fields, problems),
    parallelToolCalls: settingAt('parallel_tool_calls', unless(true, fields.flag('parallel_tool_calls'))),
    format: readFormat(fields, problems),
    verbosity: settingAt('verbosity', fields.string('verbosity')),
    user: readUser(fields),
    promptCacheKey: settingAt('prompt_cache_key', fields.string('prompt_cache_key')),
    serviceTier: settingAt('service_tier', unless('auto', fields.string('service_tier'))),
    metadata: settingAt('metadata', readMetadata(fields)),
    store: settingAt('store', fields.flag('store')),
    ...reasoning,
  }
  // With the deprecated `functions` an answer can contain only one call. The client did not set it, so there is no path.
  const legacy = fields.any('functions') !== undefined && fields.any('tools') === undefined
  const settings = legacy ? { ...all, parallelToolCalls: { value: false, at: '' } } : all
  return presentSettings(settings)
}

const unless = <T>(usual: T, value: T | undefined): T | undefined => (value === usual ? undefined : value)

/** `reasoning_effort`, or the equivalents of OpenRouter (`reasoning`) and of Anthropic's endpoint, DeepSeek and others (`thinking`). */
const readEffort = (
  fields: RequestFields,
  problems: DecodeState,
): Pick<GenerationSettings, 'effort' | 'thinkingBudget'> => {
  const effort = fields.string('reasoning_effort')
  if (effort !== undefined) {
    if (isEffort(effort)) return { effort: { value: effort, at: 'reasoning_effort' } }
    if (effort !== DEFAULT_EFFORT) problems.spare.push(spare('reasoning_effort', effort))
    return {}
  }
  const reasoning = fields.any('reasoning')
  if (isObject(reasoning)) {
    const inner = requestFields(reasoning, 'reasoning', problems)
    const level = inner.string('effort')
    const budget = inner.number('max_tokens', { least: 0, whole: true })
    problems.spare.push(...inner.unread())
    if (level !== undefined && !isEffort(level)) problems.spare.push(spare('reasoning.effort', level))
    return {
      ...(level !== undefined && isEffort(level) && { effort: { value: level, at: 'reasoning.effort' } }),
      ...(budget !== undefined && { thinkingBudget: { value: budget, at: 'reasoning.max_tokens' } }),
    }
  }
  if (reasoning !== undefined) problems.spare.push(spare('reasoning', reasoning))
  const thinking = fields.any('thinking')
  if (thinking === undefined) return {}
  const mode = object(thinking)
  if (mode?.type === 'disabled') return { thinkingBudget: { value: 0, at: 'thinking' } }
  const budget = mode && requestFields(mode, 'thinking', problems).number('budget_tokens', { least: 0, whole: true })
  if (budget !== undefined) return { thinkingBudget: { value: budget, at: 'thinking.budget_tokens' } }
  problems.spare.push(spare('thinking', thinking))
  return {}
}

const spare = (at: string, value: Json): Extra => ({ at, name: at.split('.').at(-1) ?? at, value, essential: false })

const readUser = (fields: RequestFields): Setting<string> | undefined => {
  const user = fields.string('user')
  // The newer name. If both are given, it stays unread and becomes an extra.
  if (user !== undefined) return { value: user, at: 'user' }
  return settingAt('safety_identifier', fields.string('safety_identifier'))
}

const readMetadata = (fields: RequestFields): JsonObject | undefined => {
  const metadata = fields.object('metadata')
  if (metadata && Object.values(metadata).some((value) => typeof value !== 'string'))
    fields.invalid('metadata', 'an object whose members are strings')
  return unlessEmpty(metadata)
}

/** In chat the schema is nested one level deeper than in the other client formats. */
const SCHEMA_PATHS: MemberPaths = { schema: 'json_schema.schema' }

const readFormat = (fields: RequestFields, problems: DecodeState): Setting<OutputFormat> | undefined => {
  const at = fields.path('response_format')
  const format = fields.fields('response_format')
  if (!format) return undefined
  switch (format.string('type')) {
    case 'text':
      return undefined
    case 'json_object':
      problems.spare.push(...format.unread())
      return { value: { kind: 'json' }, at }
    case 'json_schema': {
      // llama.cpp and Together accept the schema's members at this level, as the responses format does.
      const isFlat = !format.has('json_schema') && format.has('schema')
      const inner = isFlat ? format : format.fields('json_schema')
      if (!inner) {
        if (!format.has('json_schema')) format.missing('json_schema', 'an object with name and schema')
        return undefined
      }
      const name = inner.string('name') || DEFAULT_FORMAT_NAME
      const description = inner.string('description')
      // A missing schema is valid and allows any JSON.
      const schema = inner.object('schema') ?? {}
      // The default is not strict, unlike in responses.
      const strict = inner.flag('strict') ?? false
      problems.spare.push(...format.unread(), ...(isFlat ? [] : inner.unread()))
      const described = description === undefined ? {} : { description }
      const paths = isFlat ? {} : { paths: SCHEMA_PATHS }
      return { value: { kind: 'schema', name, schema, ...described, strict }, at, ...paths }
    }
    case undefined:
      if (!format.has('type')) format.missing('type', 'text, json_object or json_schema')
      return undefined
    default:
      // A provider-specific kind, such as a grammar: no other format can express it.
      problems.spare.push({ ...spare(at, fields.object('response_format') ?? null), essential: true })
      return undefined
  }
}

const readToolChoice = (fields: RequestFields, problems: DecodeState): Setting<ToolChoice> | undefined => {
  const choice = fields.any('tool_choice')
  const reject = (at = 'tool_choice') => {
    fields.invalid(at, 'none, auto, required, or an object that names a tool or the allowed tools')
    return undefined
  }
  if (choice === undefined) return readFunctionCall(fields)
  if (choice === 'auto' || choice === 'none' || choice === 'required')
    return { value: { kind: choice }, at: 'tool_choice' }
  // Mistral's name for `required`.
  if (choice === 'any') return { value: { kind: 'required' }, at: 'tool_choice' }
  const value = object(choice)
  const name = value && chosenName(value)
  if (name !== undefined) {
    if (value?.name !== undefined) problems.reshaped = true
    return { value: { kind: 'tool', name }, at: 'tool_choice' }
  }
  const kindOfMessages = MESSAGES_CHOICES.get(value?.type)
  if (kindOfMessages) {
    problems.reshaped = true
    return { value: { kind: kindOfMessages }, at: 'tool_choice' }
  }
  if (value?.type === 'allowed_tools') {
    // The responses format has its members at the top.
    const allowed = object(value.allowed_tools) ?? value
    if (allowed === value) problems.reshaped = true
    const { mode } = allowed ?? {}
    const names = list(allowed?.tools).map((tool) => {
      const entry = object(tool)
      return text(object(entry?.function)?.name) ?? text(object(entry?.custom)?.name) ?? text(entry?.name)
    })
    const known = names.filter((name) => name !== undefined)
    if ((mode !== 'auto' && mode !== 'required') || known.length < names.length) return reject()
    return { value: { kind: 'allowed', mode, names: known }, at: 'tool_choice' }
  }
  const kind = value ? value.type : choice
  if (typeof kind !== 'string' || NAMED_KINDS.has(kind)) return reject()
  // A provider-specific choice: no other format can express it.
  problems.spare.push({ ...spare('tool_choice', choice), essential: true })
  return undefined
}

/** Choices that require a name: chat's two kinds, and that of the messages format. */
const NAMED_KINDS = new Set(['function', 'custom', 'tool'])

/** The tool named by a choice: chat's form, with or without its type, or the flat form of the other formats. */
const chosenName = ({ type, function: called, custom, name }: JsonObject): string | undefined => {
  if (type !== undefined && !(typeof type === 'string' && NAMED_KINDS.has(type))) return undefined
  return text(object(type === 'custom' ? custom : called)?.name) ?? text(name)
}

/** `function_call`, the older name for `tool_choice`. */
const readFunctionCall = (fields: RequestFields): Setting<ToolChoice> | undefined => {
  const call = fields.any('function_call')
  if (call === undefined) return undefined
  if (call === 'auto' || call === 'none') return { value: { kind: call }, at: 'function_call' }
  const name = text(object(call)?.name)
  if (name !== undefined) return { value: { kind: 'tool', name }, at: 'function_call' }
  fields.invalid('function_call', 'none, auto, or an object with a name')
  return undefined
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const readTools = (fields: RequestFields, problems: DecodeState): Tool[] => {
  const tools = (fields.list('tools') ?? []).flatMap((entry, index): Tool[] => {
    const tool = entryOf(entry, `tools[${index}]`, problems)
    if (!tool) return []
    const type = tool.string('type')
    if (isFlatFunction(entry)) {
      problems.reshaped = true
      return [readFunction(tool, tool.at, [])]
    }
    // Some clients omit the type; the `function` member identifies it.
    if (type === 'function' || (type === undefined && tool.has('function'))) {
      const inner = tool.fields('function')
      if (!inner) {
        if (!tool.has('function')) tool.missing('function', 'an object with a name')
        return []
      }
      return [readFunction(inner, tool.at, tool.unread(), FUNCTION_PATHS)]
    }
    if (type === 'custom') {
      const isFlat = tool.has('name') && !tool.has('custom')
      if (isFlat) problems.reshaped = true
      const inner = isFlat ? tool : tool.fields('custom')
      const name = inner?.string('name')
      if (!inner || name === undefined) {
        if (!problems.first) tool.missing('custom.name', 'a string')
        return []
      }
      const description = inner.string('description')
      const format = inner.any('format')
      problems.spare.push(...tool.unread(), ...(isFlat ? [] : inner.unread()))
      return [
        {
          kind: 'custom',
          at: tool.at,
          name,
          ...(description !== undefined && { description }),
          ...(format !== undefined && { format, ...(isFlat ? {} : { paths: CUSTOM_PATHS }) }),
        },
      ]
    }
    if (type === undefined) {
      if (!problems.first) tool.missing('type', 'function or custom')
      return []
    }
    // A provider-specific kind stays unchanged and makes targets of other formats unfit.
    const raw = entry as JsonObject
    const spare = isHostedTool(raw) && isFreeChoice(fields.any('tool_choice'))
    return [{ kind: 'foreign', at: tool.at, protocol: 'openai-chat', raw, ...(spare && { optional: spare }) }]
  })
  const functions = (fields.list('functions') ?? []).flatMap((entry, index): Tool[] => {
    const inner = entryOf(entry, `functions[${index}]`, problems)
    return inner ? [readFunction(inner, inner.at, [])] : []
  })
  return [...tools, ...functions]
}

const FUNCTION_PATHS: MemberPaths = { strict: 'function.strict' }
const CUSTOM_PATHS: MemberPaths = { format: 'custom.format' }

/** A function in the shape of the responses or the messages format: its name is beside its type. */
const isFlatFunction = (entry: Json): boolean => {
  if (!isObject(entry) || isObject(entry.function) || isObject(entry.custom) || text(entry.name) === undefined)
    return false
  const { type = null, input_schema, parameters } = entry
  if (type === 'function') return true
  // The messages format has no type, or `custom`.
  return isObject(input_schema) ? type === null || type === 'custom' : type === null && isObject(parameters)
}

const readFunction = (inner: RequestFields, at: string, outer: readonly Extra[], paths?: MemberPaths): Tool => {
  const name = inner.string('name')
  if (!name) inner.missing('name', 'the name of the function')
  const description = inner.string('description')
  const parameters = inner.object('parameters') ?? inner.object('input_schema')
  const strict = inner.flag('strict') ?? false
  const extras = [...outer, ...inner.unread()]
  return {
    kind: 'function',
    at,
    name: name ?? '',
    ...(description !== undefined && { description }),
    ...(parameters && { parameters }),
    strict,
    ...(strict && paths && { paths }),
    ...(extras.length > 0 && { extras }),
  }
}
