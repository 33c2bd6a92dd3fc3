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
  SettingName,
  Tool,
  ToolChoice,
} from '../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, object, sourceOf, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { isFreeChoice, isHostedTool } from '../shared/hosted-tools.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { detailsOf, readDetails } from '../shared/reasoning-members.ts'
import {
  describeValue,
  type Problems,
  type RequestFields,
  requestedModel,
  requestFields,
} from '../shared/request-fields.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'

/** What is wrong, and what was read but has no place of its own in our words. */
type Reading = Problems & { readonly spare: Extra[] }

/** A chat-completions request in our words, or what is wrong with it. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: Reading = { spare: [] }
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const messages = readMessages(fields, problems)
  const tools = readTools(fields, problems)
  const settings = readSettings(fields, problems)
  const streamRest = fields.fields('stream_options')
  const usage = streamRest?.flag('include_usage')
  const free = isFreeChoice(fields.any('tool_choice'))
  const rest = fields.unread(isEssential).map((one) => (free && one.name === 'web_search_options' ? sparing(one) : one))
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

const sparing = (extra: Extra): Extra => ({ ...extra, optional: true })

/** What a request would mean something else without: a search of the web, an answer that is not text. */
const isEssential = (name: string, value: Json): boolean =>
  name === 'web_search_options' || (name === 'modalities' && list(value).some((kind) => kind !== 'text'))

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const EFFORTS: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] satisfies Effort[]
const isEffort = (value: string): value is Effort => EFFORTS.includes(value)

const readSettings = (fields: RequestFields, problems: Reading): GenerationSettings => {
  const limit = { least: 1, whole: true }
  const newer = fields.number('max_completion_tokens', limit)
  const older = fields.number('max_tokens', limit)
  const reasoning = readEffort(fields, problems)
  const wishes = {
    maxOutputTokens:
      newer !== undefined
        ? { value: newer, at: 'max_completion_tokens' }
        : older !== undefined
          ? { value: older, at: 'max_tokens' }
          : undefined,
    temperature: put('temperature', fields.number('temperature')),
    topP: put('top_p', fields.number('top_p')),
    topK: put('top_k', fields.number('top_k', { whole: true })),
    stop: put('stop', readStop(fields)),
    seed: put('seed', readSeed(fields)),
    // What every format does unless told otherwise is no wish: it would only be named as lost.
    presencePenalty: put('presence_penalty', fields.number('presence_penalty') || undefined),
    frequencyPenalty: put('frequency_penalty', fields.number('frequency_penalty') || undefined),
    logitBias: put('logit_bias', unlessEmpty(fields.object('logit_bias'))),
    choices: put('n', unless(1, fields.number('n', { least: 1, most: 128, whole: true }))),
    logprobs: put('logprobs', fields.flag('logprobs') || undefined),
    topLogprobs: put('top_logprobs', fields.number('top_logprobs', { least: 0, most: 20, whole: true }) || undefined),
    toolChoice: readToolChoice(fields, problems),
    parallelToolCalls: put('parallel_tool_calls', unless(true, fields.flag('parallel_tool_calls'))),
    format: readFormat(fields, problems),
    verbosity: put('verbosity', fields.string('verbosity')),
    user: readUser(fields),
    promptCacheKey: put('prompt_cache_key', fields.string('prompt_cache_key')),
    serviceTier: put('service_tier', unless('auto', fields.string('service_tier'))),
    metadata: put('metadata', readMetadata(fields)),
    store: put('store', fields.flag('store')),
    ...reasoning,
  }
  // With the deprecated `functions` an answer has room for one call. The client did not write that wish: no path.
  const legacy = fields.any('functions') !== undefined && fields.any('tools') === undefined
  const settings = legacy ? { ...wishes, parallelToolCalls: { value: false, at: '' } } : wishes
  return wished(settings)
}

/** Without what is not wished. */
const wished = (
  all: { readonly [name in keyof GenerationSettings]: GenerationSettings[name] | undefined },
): GenerationSettings => {
  const settings: { [name: string]: unknown } = {}
  for (const name in all) if (all[name as SettingName] !== undefined) settings[name] = all[name as SettingName]
  // Only absent members are left out, so what remains has the types of Settings without undefined.
  return settings as GenerationSettings
}

const put = <T>(at: string, value: T | undefined): Setting<T> | undefined =>
  value === undefined ? undefined : { value, at }
const unless = <T>(usual: T, value: T | undefined): T | undefined => (value === usual ? undefined : value)
const unlessEmpty = (value: JsonObject | undefined): JsonObject | undefined =>
  value && Object.keys(value).length > 0 ? value : undefined

/** `reasoning_effort`, and what OpenRouter (`reasoning`) and Anthropic's endpoint, DeepSeek and others (`thinking`) have for it. */
const readEffort = (
  fields: RequestFields,
  problems: Reading,
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
    const wish = inner.string('effort')
    const budget = inner.number('max_tokens', { least: 0, whole: true })
    problems.spare.push(...inner.unread())
    if (wish !== undefined && !isEffort(wish)) problems.spare.push(spare('reasoning.effort', wish))
    return {
      ...(wish !== undefined && isEffort(wish) && { effort: { value: wish, at: 'reasoning.effort' } }),
      ...(budget !== undefined && { thinkingBudget: { value: budget, at: 'reasoning.max_tokens' } }),
    }
  }
  if (reasoning !== undefined) problems.spare.push(spare('reasoning', reasoning))
  const thinking = fields.any('thinking')
  if (thinking === undefined) return {}
  const wish = object(thinking)
  if (wish?.type === 'disabled') return { thinkingBudget: { value: 0, at: 'thinking' } }
  const budget = wish && requestFields(wish, 'thinking', problems).number('budget_tokens', { least: 0, whole: true })
  if (budget !== undefined) return { thinkingBudget: { value: budget, at: 'thinking.budget_tokens' } }
  problems.spare.push(spare('thinking', thinking))
  return {}
}

const spare = (at: string, value: Json): Extra => ({ at, name: at.split('.').at(-1) ?? at, value, essential: false })

const readStop = (fields: RequestFields): readonly string[] | undefined => {
  const stop = fields.any('stop')
  if (stop === undefined) return undefined
  if (typeof stop === 'string') return [stop]
  const words = list(stop).filter((word) => typeof word === 'string')
  if (!isList(stop) || words.length < stop.length) fields.invalid('stop', 'a string or a list of strings')
  return words.length > 0 ? words : undefined
}

/** An integer of 64 bits: larger ones than a double holds are kept as they were written. */
const readSeed = (fields: RequestFields): Json | undefined => {
  const seed = fields.any('seed')
  if (seed === undefined || Number.isInteger(seed) || sourceOf(seed) !== undefined) return seed
  fields.invalid('seed', 'a whole number')
  return undefined
}

const readUser = (fields: RequestFields): Setting<string> | undefined => {
  const user = fields.string('user')
  // Its newer name. Given both, the newer one stays unread and so comes out as an extra.
  if (user !== undefined) return { value: user, at: 'user' }
  return put('safety_identifier', fields.string('safety_identifier'))
}

const readMetadata = (fields: RequestFields): JsonObject | undefined => {
  const metadata = fields.object('metadata')
  if (metadata && Object.values(metadata).some((value) => typeof value !== 'string'))
    fields.invalid('metadata', 'an object whose members are strings')
  return unlessEmpty(metadata)
}

/** The schema's members are one level further down than in the other styles. */
const SCHEMA_PATHS: MemberPaths = { schema: 'json_schema.schema' }

const readFormat = (fields: RequestFields, problems: Reading): Setting<OutputFormat> | undefined => {
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
      // llama.cpp and Together have the schema's members here, as the responses style does.
      const isFlat = !format.has('json_schema') && format.has('schema')
      const inner = isFlat ? format : format.fields('json_schema')
      if (!inner) {
        if (!format.has('json_schema')) format.missing('json_schema', 'an object with name and schema')
        return undefined
      }
      const name = inner.string('name') || DEFAULT_FORMAT_NAME
      const description = inner.string('description')
      // No schema is legal and allows everything.
      const schema = inner.object('schema') ?? {}
      // Absent means not strict here, unlike in responses.
      const strict = inner.flag('strict') ?? false
      problems.spare.push(...format.unread(), ...(isFlat ? [] : inner.unread()))
      const said = description === undefined ? {} : { description }
      const paths = isFlat ? {} : { paths: SCHEMA_PATHS }
      return { value: { kind: 'schema', name, schema, ...said, strict }, at, ...paths }
    }
    case undefined:
      if (!format.has('type')) format.missing('type', 'text, json_object or json_schema')
      return undefined
    default:
      // A kind only some vendors know, such as a grammar: no other style can state it.
      problems.spare.push({ ...spare(at, fields.object('response_format') ?? null), essential: true })
      return undefined
  }
}

const readToolChoice = (fields: RequestFields, problems: Reading): Setting<ToolChoice> | undefined => {
  const choice = fields.any('tool_choice')
  const wrong = (at = 'tool_choice') => {
    fields.invalid(at, 'none, auto, required, or an object that names a tool or the allowed tools')
    return undefined
  }
  if (choice === undefined) return readFunctionCall(fields)
  if (choice === 'auto' || choice === 'none' || choice === 'required')
    return { value: { kind: choice }, at: 'tool_choice' }
  // Mistral's word for it.
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
    if ((mode !== 'auto' && mode !== 'required') || known.length < names.length) return wrong()
    return { value: { kind: 'allowed', mode, names: known }, at: 'tool_choice' }
  }
  const kind = value ? value.type : choice
  if (typeof kind !== 'string' || NAMING.has(kind)) return wrong()
  // A choice only some vendors know: no other style can state it.
  problems.spare.push({ ...spare('tool_choice', choice), essential: true })
  return undefined
}

/** Choices that need a name: chat's own two, and the type of the messages style. */
const NAMING = new Set(['function', 'custom', 'tool'])

/** The tool a choice names: chat's form, with or without its type, or the flat form of the other two styles. */
const chosenName = ({ type, function: called, custom, name }: JsonObject): string | undefined => {
  if (type !== undefined && !(typeof type === 'string' && NAMING.has(type))) return undefined
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

const readTools = (fields: RequestFields, problems: Reading): Tool[] => {
  const tools = (fields.list('tools') ?? []).flatMap((entry, index): Tool[] => {
    const tool = entryOf(entry, `tools[${index}]`, problems)
    if (!tool) return []
    const type = tool.string('type')
    // Some clients leave the type out; with a function inside there is no doubt.
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
    // A kind only some vendor knows: it stays whole and makes targets of other formats unfit.
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

/** An entry of a list that has to be an object. */
const entryOf = (entry: Json, at: string, problems: Reading): RequestFields | undefined => {
  if (isObject(entry)) return requestFields(entry, at, problems)
  problems.first ??= fail('invalid_value', `An entry of a list is ${describeValue(entry)}; it must be an object.`, {
    param: at,
  })
  return undefined
}

const readMessages = (fields: RequestFields, problems: Reading): Message[] => {
  const entries = fields.list('messages')
  if (!entries) {
    if (!fields.has('messages')) fields.missing('messages', 'a list with at least one message')
    return []
  }
  if (entries.length === 0) fields.invalid('messages', 'a list with at least one message')
  const called: Called = { byName: new Map(), unnamed: [] }
  const messages: Message[] = []
  for (const [index, entry] of entries.entries()) {
    const plain = plainTextMessage(entry, 'messages', index)
    if (plain) messages.push(plain)
    else {
      const message = entryOf(entry, `messages[${index}]`, problems)
      if (message) append(messages, readMessage(message, index, called, problems))
    }
  }
  return messages
}

/** Ids made here for calls that have none, for what they gave to be found by. */
type Called = {
  /** Calls made in the old way, by the function's name. */
  readonly byName: Map<string, string>
  /** Calls whose id is empty, as Gemini's compatible endpoint has answered, in their order: so is that of their results. */
  readonly unnamed: string[]
}

const readMessage = (message: RequestFields, index: number, called: Called, problems: Reading): Message[] => {
  const { at } = message
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
        ...readCalls(message, index, called, problems),
      ]
      return [{ role, at, content, ...rest(message, callExtras(message)) }]
    }
    case 'tool': {
      const callId = message.string('tool_call_id')
      if (callId === undefined) message.missing('tool_call_id', 'the id of the call this is the result of')
      const content = readContent(message, problems, true)
      // Its function's name says nothing the call has not said.
      message.any('name')
      return [{ role, at, callId: callId || called.unnamed.shift() || '', content, ...rest(message) }]
    }
    case 'function': {
      const name = message.string('name')
      if (name === undefined) message.missing('name', 'the name of the function')
      const callId = called.byName.get(name ?? '') ?? derivedCallId('function', name ?? '')
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
  // Clients send an answer's message back as it was; no annotations are nothing to lose.
  const said = message.unread().filter(({ name, value }) => name !== 'annotations' || list(value).length > 0)
  const extras = [...said, ...more]
  return extras.length > 0 ? { extras } : {}
}

const readReasoning = (message: RequestFields): Part[] => {
  const said = { reasoning_details: message.any('reasoning_details') }
  const plain = message.any('reasoning_content')
  const other = message.any('reasoning')
  const detailed = readDetails(detailsOf(said)).map((block, index) => ({
    ...block,
    at: `${message.path('reasoning_details')}[${index}]`,
  }))
  const thought = text(plain) || text(other)
  // Details may be seals only; the text is beside them then.
  if (!thought || detailed.some((block) => block.text !== '')) return detailed
  const at = message.path(text(plain) ? 'reasoning_content' : 'reasoning')
  return [{ type: 'reasoning', at, text: thought }, ...detailed]
}

const readRefusal = (message: RequestFields): Part[] => {
  const refusal = message.string('refusal')
  return refusal ? [{ type: 'refusal', at: message.path('refusal'), text: refusal }] : []
}

const readCalls = (message: RequestFields, index: number, called: Called, problems: Reading): Part[] => {
  const calls = (message.list('tool_calls') ?? []).flatMap((entry, place): Part[] => {
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
    const given = inner.string(custom ? 'input' : 'arguments') ?? ''
    const known = call.string('id')
    const id = known || derivedCallId(index, place, name)
    if (!known) called.unnamed.push(id)
    return [{ type: 'tool-call', at: call.at, id, name: name ?? '', arguments: given, ...(custom && { custom: true }) }]
  })
  const legacy = message.fields('function_call')
  if (!legacy) return calls
  const name = legacy.string('name')
  if (name === undefined) legacy.missing('name', 'a string')
  const id = derivedCallId('function', index, name)
  called.byName.set(name ?? '', id)
  return [
    ...calls,
    { type: 'tool-call', at: legacy.at, id, name: name ?? '', arguments: legacy.string('arguments') ?? '' },
  ]
}

const CALL_MEMBERS: ReadonlySet<string> = new Set(['id', 'type', 'function', 'custom', 'index'])

/** What vendors hang on to a call: Gemini's endpoint keeps a signature in `extra_content`. */
const callExtras = (message: RequestFields): Extra[] =>
  list(message.any('tool_calls')).flatMap((entry, place) =>
    Object.entries(object(entry) ?? {}).flatMap(([name, value]) =>
      CALL_MEMBERS.has(name) || value === undefined || value === null
        ? []
        : [{ at: `${message.path('tool_calls')}[${place}].${name}`, name, value, essential: false }],
    ),
  )

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

const readContent = (message: RequestFields, problems: Reading, needed: boolean): Part[] => {
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
    // A bare string in the list is understood by several servers.
    if (typeof entry === 'string') return [{ type: 'text', at: `${at}[${index}]`, text: entry }]
    const part = entryOf(entry, `${at}[${index}]`, problems)
    return part ? readPart(part, entry as JsonObject, problems) : []
  })
}

const IMAGE_PATHS: MemberPaths = { detail: 'image_url.detail' }
const FILE_PATHS: MemberPaths = { filename: 'file.filename' }

const readPart = (part: RequestFields, raw: JsonObject, problems: Reading): Part[] => {
  const { at } = part
  const type = part.string('type')
  switch (type) {
    case 'text': {
      const said = part.string('text')
      if (said === undefined) part.missing('text', 'a string')
      return [{ type, at, text: said ?? '', ...rest(part) }]
    }
    case 'refusal': {
      const said = part.string('refusal')
      if (said === undefined) part.missing('refusal', 'a string')
      problems.spare.push(...part.unread())
      return [{ type, at, text: said ?? '' }]
    }
    case 'image_url': {
      // Some clients write the address itself where the object should be.
      const direct = text(part.any('image_url'))
      const inner = direct === undefined ? part.fields('image_url') : undefined
      const url = direct ?? inner?.string('url')
      if (url === undefined && !problems.first) part.missing('image_url.url', 'an address or a data URL')
      const detail = inner?.string('detail')
      const extras = [...part.unread(), ...(inner?.unread() ?? [])]
      return [
        {
          type: 'image',
          at,
          source: mediaSourceOf(url ?? ''),
          ...(detail !== undefined && { detail, paths: IMAGE_PATHS }),
          ...(extras.length > 0 && { extras }),
        },
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
      // Mistral's own way to say reasoning.
      const thought = thinkingText(part.any('thinking'))
      problems.spare.push(...part.unread())
      return [{ type: 'reasoning', at, text: thought }]
    }
    case undefined:
      if (!problems.first) part.missing('type', 'text, image_url, input_audio, file or refusal')
      return []
    default:
      return [{ type: 'foreign', at, protocol: 'openai-chat', raw }]
  }
}

const readFile = (part: RequestFields, problems: Reading): Part[] => {
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
    {
      type: 'file',
      at: part.at,
      source,
      ...(filename !== undefined && { filename, paths: FILE_PATHS }),
      ...(extras.length > 0 && { extras }),
    },
  ]
}

/** Mistral's `thinking`: a list of text parts, or the text itself. */
export const thinkingText = (thinking: Json | undefined): string =>
  text(thinking) ??
  list(thinking)
    .map((piece) => text(object(piece)?.text) ?? '')
    .join('')

/** `file_data`: a data URL, or bare base64 as older clients send it. */
const sourceOfData = (data: string): MediaSource => {
  const source = mediaSourceOf(data)
  return source.kind === 'data' || /^(data:|https?:)/i.test(data.slice(0, 6))
    ? source
    : { kind: 'data', mediaType: '', data }
}
