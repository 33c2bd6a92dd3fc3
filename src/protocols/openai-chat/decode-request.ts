import type {
  ChatRequest,
  Effort,
  Extra,
  GenerationSettings,
  MediaSource,
  MemberPaths,
  Message,
  OutputFormat,
  Part,
  Setting,
  Tool,
  ToolChoice,
} from '../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { foreignPart } from '../shared/foreign-parts.ts'
import { isFreeChoice, isHostedTool } from '../shared/hosted-tools.ts'
import { mediaPart } from '../shared/media-part.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { detailsOf, readDetails } from '../shared/reasoning-members.ts'
import {
  describeValue,
  type Problems,
  type RequestFields,
  requestedModel,
  requestFields,
} from '../shared/request-fields.ts'
import { decodeSampling, presentSettings, settingAt, unlessEmpty } from '../shared/setting-decoders.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'

/** Problems found, and members that were read but have no canonical place. */
type DecodeState = Problems & { readonly spare: Extra[] }

/** Decodes a chat completions request, or returns the first problem. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: DecodeState = { spare: [] }
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const messages = readMessages(fields, problems)
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
  })
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
  if (name !== undefined) return { value: { kind: 'tool', name }, at: 'tool_choice' }
  if (value?.type === 'allowed_tools') {
    const allowed = object(value.allowed_tools)
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
      const inner = tool.fields('custom')
      const name = inner?.string('name')
      if (!inner || name === undefined) {
        if (!problems.first) tool.missing('custom.name', 'a string')
        return []
      }
      const description = inner.string('description')
      const format = inner.any('format')
      problems.spare.push(...tool.unread(), ...inner.unread())
      return [
        {
          kind: 'custom',
          at: tool.at,
          name,
          ...(description !== undefined && { description }),
          ...(format !== undefined && { format, paths: CUSTOM_PATHS }),
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

const readFunction = (inner: RequestFields, at: string, outer: readonly Extra[], paths?: MemberPaths): Tool => {
  const name = inner.string('name')
  if (!name) inner.missing('name', 'the name of the function')
  const description = inner.string('description')
  const parameters = inner.object('parameters')
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

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A list entry that must be an object. */
const entryOf = (entry: Json, at: string, problems: DecodeState): RequestFields | undefined => {
  if (isObject(entry)) return requestFields(entry, at, problems)
  problems.first ??= fail('invalid_value', `An entry of a list is ${describeValue(entry)}; it must be an object.`, {
    param: at,
  })
  return undefined
}

const readMessages = (fields: RequestFields, problems: DecodeState): Message[] => {
  const entries = fields.list('messages')
  if (!entries) {
    if (!fields.has('messages')) fields.missing('messages', 'a list with at least one message')
    return []
  }
  if (entries.length === 0) fields.invalid('messages', 'a list with at least one message')
  const calls: CallIds = { byName: new Map(), unnamed: [] }
  const messages: Message[] = []
  for (const [index, entry] of entries.entries()) {
    const plain = plainTextMessage(entry, 'messages', index)
    if (plain) messages.push(plain)
    else {
      const message = entryOf(entry, `messages[${index}]`, problems)
      if (message) append(messages, readMessage(message, { index, calls, problems }))
    }
  }
  return messages
}

/** Derived IDs of calls that have none, so that their results can refer to them. */
type CallIds = {
  /** IDs of deprecated `function_call`s by function name. */
  readonly byName: Map<string, string>
  /** IDs of calls with an empty ID (Gemini's compatible endpoint), in order, which is also the order of their results. */
  readonly unnamed: string[]
}

type MessageState = { readonly index: number; readonly calls: CallIds; readonly problems: DecodeState }

const readMessage = (message: RequestFields, state: MessageState): Message[] => {
  const { at } = message
  const { calls, problems } = state
  const role = message.string('role')
  switch (role) {
    case 'system':
    case 'developer': {
      const content = readContent(message, problems, true)
      return [{ role: 'system', at, as: role, content, ...rest(message) }]
    }
    case 'user': {
      const content = readContent(message, problems, true)
      return [{ role, at, content, ...rest(message) }]
    }
    case 'assistant': {
      const content = [
        ...readReasoning(message),
        ...readContent(message, problems, false),
        ...readRefusal(message),
        ...readCalls(message, state),
      ]
      return [{ role, at, content, ...rest(message, callExtras(message)) }]
    }
    case 'tool': {
      const callId = message.string('tool_call_id')
      if (callId === undefined) message.missing('tool_call_id', 'the id of the call this is the result of')
      const content = readContent(message, problems, true)
      // The function's name is redundant: the call has it.
      message.any('name')
      return [{ role, at, callId: callId || calls.unnamed.shift() || '', content, ...rest(message) }]
    }
    case 'function': {
      const name = message.string('name')
      if (name === undefined) message.missing('name', 'the name of the function')
      const callId = calls.byName.get(name ?? '') ?? derivedCallId('function', name ?? '')
      const content = readContent(message, problems, false)
      return [{ role: 'tool', at, callId, content, ...rest(message) }]
    }
    case undefined:
      if (!message.has('role')) message.missing('role', 'system, developer, user, assistant, tool or function')
      return []
    default:
      message.invalid('role', 'system, developer, user, assistant, tool or function')
      return []
  }
}

const rest = (message: RequestFields, more: readonly Extra[] = []): { extras?: readonly Extra[] } => {
  // Clients send an answer's message back unchanged; an empty list of annotations is no loss.
  const unknown = message.unread().filter(({ name, value }) => name !== 'annotations' || list(value).length > 0)
  const extras = [...unknown, ...more]
  return extras.length > 0 ? { extras } : {}
}

const readReasoning = (message: RequestFields): Part[] => {
  const details = detailsOf({ reasoning_details: message.any('reasoning_details') })
  const plain = message.any('reasoning_content')
  const other = message.any('reasoning')
  const detailed = readDetails(details).map((block, index) => ({
    ...block,
    at: `${message.path('reasoning_details')}[${index}]`,
  }))
  const reasoning = text(plain) || text(other)
  // The details may hold signatures only; then the text is in the plain member.
  if (!reasoning || detailed.some((block) => block.text !== '')) return detailed
  const at = message.path(text(plain) ? 'reasoning_content' : 'reasoning')
  return [{ type: 'reasoning', at, text: reasoning }, ...detailed]
}

const readRefusal = (message: RequestFields): Part[] => {
  const refusal = message.string('refusal')
  return refusal ? [{ type: 'refusal', at: message.path('refusal'), text: refusal }] : []
}

const readCalls = (message: RequestFields, { index, calls, problems }: MessageState): Part[] => {
  const parts = (message.list('tool_calls') ?? []).flatMap((entry, place): Part[] => {
    const call = entryOf(entry, `${message.path('tool_calls')}[${place}]`, problems)
    if (!call) return []
    const custom = call.string('type') === 'custom'
    const inner = call.fields(custom ? 'custom' : 'function')
    if (!inner) {
      if (!problems.first) call.missing(custom ? 'custom' : 'function', 'an object with a name')
      return []
    }
    const name = inner.string('name')
    if (name === undefined) inner.missing('name', 'a string')
    const text = inner.string(custom ? 'input' : 'arguments') ?? ''
    const known = call.string('id')
    const id = known || derivedCallId(index, place, name)
    if (!known) calls.unnamed.push(id)
    return [{ type: 'tool-call', at: call.at, id, name: name ?? '', arguments: text, ...(custom && { custom: true }) }]
  })
  const legacy = message.fields('function_call')
  if (!legacy) return parts
  const name = legacy.string('name')
  if (name === undefined) legacy.missing('name', 'a string')
  const id = derivedCallId('function', index, name)
  calls.byName.set(name ?? '', id)
  return [
    ...parts,
    { type: 'tool-call', at: legacy.at, id, name: name ?? '', arguments: legacy.string('arguments') ?? '' },
  ]
}

const CALL_MEMBERS: ReadonlySet<string> = new Set(['id', 'type', 'function', 'custom', 'index'])

/** Provider-specific members of calls: Gemini's endpoint stores a signature in `extra_content`. */
const callExtras = (message: RequestFields): Extra[] =>
  list(message.any('tool_calls')).flatMap((entry, place) =>
    Object.entries(object(entry) ?? {}).flatMap(([name, value]) =>
      CALL_MEMBERS.has(name) || value === undefined || value === null
        ? []
        : [{ at: `${message.path('tool_calls')}[${place}].${name}`, name, value, essential: false }],
    ),
  )

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

const readContent = (message: RequestFields, problems: DecodeState, needed: boolean): Part[] => {
  const content = message.any('content')
  const at = message.path('content')
  if (content === undefined) {
    if (needed) message.missing('content', 'a string or a list of parts')
    return []
  }
  if (typeof content === 'string') return content === '' && !needed ? [] : [{ type: 'text', at, text: content }]
  if (!isList(content)) {
    message.invalid('content', 'a string or a list of parts')
    return []
  }
  return content.flatMap((entry, index): Part[] => {
    // Several servers accept plain strings in the list.
    if (typeof entry === 'string') return [{ type: 'text', at: `${at}[${index}]`, text: entry }]
    const part = entryOf(entry, `${at}[${index}]`, problems)
    return part ? readPart(part, entry as JsonObject, problems) : []
  })
}

const IMAGE_PATHS: MemberPaths = { detail: 'image_url.detail' }
const FILE_PATHS: MemberPaths = { filename: 'file.filename' }

const readPart = (part: RequestFields, raw: JsonObject, problems: DecodeState): Part[] => {
  const { at } = part
  const type = part.string('type')
  switch (type) {
    case 'text': {
      const content = part.string('text')
      if (content === undefined) part.missing('text', 'a string')
      return [{ type, at, text: content ?? '', ...rest(part) }]
    }
    case 'refusal': {
      const refusal = part.string('refusal')
      if (refusal === undefined) part.missing('refusal', 'a string')
      problems.spare.push(...part.unread())
      return [{ type, at, text: refusal ?? '' }]
    }
    case 'image_url': {
      // Some clients send the URL instead of the object.
      const direct = text(part.any('image_url'))
      const inner = direct === undefined ? part.fields('image_url') : undefined
      const url = direct ?? inner?.string('url')
      if (url === undefined && !problems.first) part.missing('image_url.url', 'a URL or a data URL')
      const detail = inner?.string('detail')
      const extras = [...part.unread(), ...(inner?.unread() ?? [])]
      return [
        mediaPart({
          type: 'image',
          at,
          source: mediaSourceOf(url ?? ''),
          ...(detail !== undefined && { detail, paths: IMAGE_PATHS }),
          ...(extras.length > 0 && { extras }),
        }),
      ]
    }
    case 'input_audio': {
      const inner = part.fields('input_audio')
      const data = inner?.string('data')
      const format = inner?.string('format')
      if ((data === undefined || format === undefined) && !problems.first)
        part.missing(data === undefined ? 'input_audio.data' : 'input_audio.format', 'a string')
      problems.spare.push(...part.unread(), ...(inner?.unread() ?? []))
      return [{ type: 'audio', at, data: data ?? '', format: format ?? '' }]
    }
    case 'file':
      return readFile(part, problems)
    case 'thinking': {
      // Mistral's reasoning part.
      const thinking = thinkingText(part.any('thinking'))
      problems.spare.push(...part.unread())
      return [{ type: 'reasoning', at, text: thinking }]
    }
    case undefined:
      if (!problems.first) part.missing('type', 'text, image_url, input_audio, file or refusal')
      return []
    default:
      return [foreignPart(raw, { at, protocol: 'openai-chat', by: 'client' })]
  }
}

const readFile = (part: RequestFields, problems: DecodeState): Part[] => {
  const inner = part.fields('file')
  const data = inner?.string('file_data')
  const id = inner?.string('file_id')
  const filename = inner?.string('filename')
  if (data === undefined && id === undefined) {
    if (!problems.first) part.missing('file.file_data', 'a data URL, unless there is a file_id')
    return []
  }
  const source: MediaSource =
    data !== undefined ? sourceOfData(data) : { kind: 'id', id: id ?? '', protocol: 'openai-chat' }
  const extras = [...part.unread(), ...(inner?.unread() ?? [])]
  return [
    mediaPart({
      type: 'file',
      at: part.at,
      source,
      ...(filename !== undefined && { filename, paths: FILE_PATHS }),
      ...(extras.length > 0 && { extras }),
    }),
  ]
}

/** The text of Mistral's `thinking`: a string or a list of text parts. */
export const thinkingText = (thinking: Json | undefined): string =>
  text(thinking) ??
  list(thinking)
    .map((part) => text(object(part)?.text) ?? '')
    .join('')

/** The source in `file_data`: a data URL, or plain base64 from older clients. */
const sourceOfData = (data: string): MediaSource => {
  const source = mediaSourceOf(data)
  return source.kind === 'data' || /^(data:|https?:)/i.test(data.slice(0, 6))
    ? source
    : { kind: 'data', mediaType: '', data }
}
