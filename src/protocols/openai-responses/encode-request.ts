import type {
  ChatRequest,
  Extra,
  MediaSource,
  Message,
  Part,
  ProtocolName,
  ReasoningSignature,
  Setting,
  Tool,
} from '../../core/chat.ts'
import { isItemReference } from '../../core/item-reference.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { mapMember } from '../../core/json-edit.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { isChatShaped } from '../client-parts/chat-messages.ts'
import { shortId } from '../shared/call-ids.ts'
import { dataUrl, withMediaType } from '../shared/data-url.ts'
import { withEffort } from '../shared/effort.ts'
import { CLOSED_PARAMETERS, completeParameters } from '../shared/function-parameters.ts'
import { encodedElsewhere, loseExtras, lost, lostUnlessNeutral, newLosses } from '../shared/losses.ts'
import { mediaTypeOf, mediaTypeOfUrl } from '../shared/media.ts'
import { newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import { encodeSettings, type SettingEncoders, topMember, UNSUPPORTED_SETTINGS } from '../shared/setting-encoders.ts'
import { asMember } from '../shared/setting-rows.ts'
import { toolName } from '../shared/tool-names.ts'
import { compactedMessage } from './compaction.ts'
import { isForeignReasoning, OWN_REASONING, reasoningTexts, signedReasoning } from './signatures.ts'

/** `reasoning`: the reasoning items, with the client's paths. A provider may remove them later. */
type ResponsesDraft = RequestDraft & {
  readonly request: ChatRequest
  readonly reasoning: Map<JsonObject, string>
  readonly target: EncodeTarget
}

/** Encodes a request in this format. */
export const encodeRequest = (original: ChatRequest, target: EncodeTarget): Encoded => {
  const request = withEffort(original, target)
  const draft: ResponsesDraft = { ...newRequestDraft(newLosses()), request, reasoning: new Map(), target }
  draft.put('model', target.model, 'model')
  const input = encodeInput(draft)
  draft.put('input', input, topMember(request.messages.at(-1)) || 'input')
  if (draft.reasoning.size > 0)
    for (const [index, item] of input.entries()) {
      const at = draft.reasoning.get(item)
      if (at !== undefined) draft.setFrom(`input[${index}]`, at)
    }
  const tools = request.tools.flatMap((tool) => encodeTool(draft, tool))
  if (tools.length > 0) draft.put('tools', tools, topMember(request.tools[0]) || 'tools')
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  if (target.encryptsReasoning) include(draft, ENCRYPTED_REASONING, 'include')
  // This format stores answers by default; only the client may request that.
  draft.put('store', request.settings.store?.value === true, request.settings.store?.at ?? 'store')
  if (request.stream) draft.put('stream', true, 'stream')
  for (const extra of request.extras) encodeExtra(draft, extra)
  if (request.mayTruncate) draft.put('truncation', 'auto', 'truncation')
  return { body: draft.body, losses: draft.losses.all(), from: draft.from }
}

/** Members of this format without a field in `ChatRequest`. */
const OWN_MEMBERS = new Set([
  'background',
  'context_management',
  'conversation',
  'max_tool_calls',
  'moderation',
  'previous_response_id',
  'prompt',
  'prompt_cache_options',
  'prompt_cache_retention',
  'tool_choice',
  'truncation',
])

const encodeExtra = (draft: ResponsesDraft, extra: Extra) => {
  const { at, name, value } = extra
  // Anthropic's member of this name is an object with another meaning.
  const isAnthropic = name === 'context_management' && !isList(value)
  // Unknown strings are dropped. Objects are kept, since they may name a hosted tool.
  const isUnknownChoice = name === 'tool_choice' && typeof value === 'string'
  const isOwn = at === name && OWN_MEMBERS.has(name) && !isAnthropic && !isUnknownChoice
  if (isOwn && draft.body[name] === undefined) draft.put(name, value, at)
  else if (name === 'include') include(draft, value, at)
  else draft.losses.loseExtra(extra)
}

const carriedExtras = (extras: readonly Extra[] | undefined, names: readonly string[]): JsonObject =>
  Object.fromEntries((extras ?? []).flatMap(({ name, value }) => (names.includes(name) ? [[name, value]] : [])))

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A member of a member: `text.verbosity`. The object has the path of the first setting in it. */
const within =
  (member: string, inner: string) =>
  ({ value, at }: Setting<Json>, { putIn, setFrom, from }: RequestDraft): void => {
    if (from[member] === undefined) setFrom(member, at)
    putIn(member, inner, value, at)
  }
const putFormat = within('text', 'format')

/** Without it and with `store: false`, older reasoning models return nothing that the next turn can send back. */
const ENCRYPTED_REASONING = 'reasoning.encrypted_content'

/** Adds an entry to `include`, once. */
const include = ({ body, from, put }: RequestDraft, entry: Json, at: string): void => {
  const before = list(body.include)
  if (!before.includes(entry)) put('include', [...before, entry], from.include ?? at)
}

const included =
  (entry: string) =>
  ({ value, at }: Setting<boolean>, draft: RequestDraft): void => {
    if (value) include(draft, entry, at)
  }

/** The lowest output limit OpenAI accepts, in tokens. */
const MIN_OUTPUT = 16

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'])

const SETTING_ENCODERS: SettingEncoders<ResponsesDraft> = {
  maxOutputTokens: ({ value, at }, { put, losses }) => {
    // Raised instead of rejected, because clients probe with `max_tokens: 1`. The change is reported as a loss.
    const raised = value >= 0 && value < MIN_OUTPUT
    if (raised) losses.lose(at)
    put('max_output_tokens', raised ? MIN_OUTPUT : value, at)
  },
  temperature: asMember('temperature'),
  topP: asMember('top_p'),
  topK: lost,
  stop: ({ value, at }, { losses }) => {
    if (value.length > 0) losses.lose(at)
  },
  seed: lost,
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  logprobs: included('message.output_text.logprobs'),
  topLogprobs: asMember('top_logprobs'),
  toolChoice: ({ value, at }, { put, request }) => {
    if (value.kind === 'tool') put('tool_choice', toolNamed(request)(value.name), at)
    else if (value.kind === 'allowed') {
      const tools = value.names.map(toolNamed(request))
      put('tool_choice', { type: 'allowed_tools', mode: value.mode, tools }, at)
    } else put('tool_choice', value.kind, at)
  },
  parallelToolCalls: asMember('parallel_tool_calls'),
  format: ({ value, at }, draft) => {
    switch (value.kind) {
      case 'text':
        return
      case 'json':
        return putFormat({ value: { type: 'json_object' }, at }, draft)
      case 'schema': {
        const { name, schema, description, strict = false } = value
        if (!object(schema)) return draft.losses.unfit(at)
        const described = description === undefined ? {} : { description }
        return putFormat({ value: { type: 'json_schema', name, schema, ...described, strict }, at }, draft)
      }
      default:
        throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
    }
  },
  effort: within('reasoning', 'effort'),
  // A token budget has no equivalent effort.
  thinkingBudget: lost,
  reasoningSummary: within('reasoning', 'summary'),
  encryptedReasoning: included(ENCRYPTED_REASONING),
  verbosity: within('text', 'verbosity'),
  // Compatible servers know only `user`.
  user: ({ value, at }, { put }) => put(at === 'safety_identifier' ? at : 'user', value, at),
  promptCacheKey: asMember('prompt_cache_key'),
  serviceTier: ({ value, at }, { put, losses }) => {
    if (TIERS.has(value)) put('service_tier', value, at)
    else losses.lose(at)
  },
  metadata: asMember('metadata'),
  // `encodeRequest` writes it for every request.
  store: encodedElsewhere,
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const TOOL_EXTRAS = ['defer_loading', 'allowed_callers', 'output_schema']

const encodeTool = (draft: ResponsesDraft, tool: Tool): JsonObject[] => {
  switch (tool.kind) {
    case 'function': {
      const { at, name, description, strict = false, extras } = tool
      loseExtras(extras, draft.losses, TOOL_EXTRAS)
      const parameters = completeParameters(tool.parameters ?? CLOSED_PARAMETERS)
      if (!object(parameters)) {
        draft.losses.unfit(at)
        return []
      }
      const described = description === undefined ? {} : { description }
      // Always written, because the default of this format is `strict: true`.
      return [
        {
          type: 'function',
          name: toolName(name),
          ...described,
          parameters,
          strict,
          ...carriedExtras(extras, TOOL_EXTRAS),
        },
      ]
    }
    case 'custom': {
      const { name, description, format } = tool
      const described = description === undefined ? {} : { description }
      return [
        {
          type: 'custom',
          name: toolName(name),
          ...described,
          ...(format !== undefined && { format: flatFormat(format) }),
        },
      ]
    }
    case 'foreign':
      if (tool.protocol === 'openai-responses') return [tool.raw]
      draft.losses.unfit(tool.at)
      return []
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

/** Chat completions nest a grammar one level deeper. */
const flatFormat = (format: Json): Json => {
  const grammar = object(object(format)?.grammar)
  return grammar ? { type: 'grammar', ...grammar } : format
}

const toolNamed = ({ tools }: ChatRequest): ((name: string) => JsonObject) => {
  const custom = new Set(tools.flatMap((tool) => (tool.kind === 'custom' ? [tool.name] : [])))
  return (name) => ({ type: custom.has(name) ? 'custom' : 'function', name: toolName(name) })
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const encodeInput = (draft: ResponsesDraft): JsonObject[] => {
  const custom = new Set<string>()
  return draft.request.messages.flatMap((message, index): JsonObject[] => {
    switch (message.role) {
      case 'system':
        return [encodeMessage(draft, message, message.as)]
      case 'user':
        return [encodeMessage(draft, message, 'user')]
      case 'assistant':
        for (const part of message.content) if (part.type === 'tool-call' && part.custom) custom.add(part.id)
        return encodeTurn(draft, message, index)
      case 'tool': {
        const { callId, content, isError, extras } = message
        loseExtras(extras, draft.losses)
        const type = custom.has(callId) ? 'custom_tool_call_output' : 'function_call_output'
        // This format has no error flag, so the text marks a failed call.
        const output = isError ? withErrorText(content) : content
        return [{ type, call_id: shortId(callId), output: encodeContent(draft, output) }]
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  })
}

/** Prepends `Error:` unless the first 40 characters contain "error". */
const withErrorText = ([first, ...rest]: readonly Part[]): readonly Part[] => {
  if (first?.type === 'text')
    return /error/i.test(first.text.slice(0, 40))
      ? [first, ...rest]
      : [{ ...first, text: `Error: ${first.text}` }, ...rest]
  return [{ type: 'text', at: '', text: 'Error:' }, ...(first ? [first] : []), ...rest]
}

const encodeMessage = (draft: ResponsesDraft, message: Message, role: string): JsonObject => {
  loseExtras(message.extras, draft.losses)
  return { type: 'message', role, content: encodeContent(draft, message.content) }
}

const TEXT_EXTRAS = ['prompt_cache_breakpoint']

/** A string for a single text, otherwise a list of input parts. */
const encodeContent = (draft: ResponsesDraft, content: readonly Part[]): Json => {
  const parts = content.flatMap((part) => encodePart(draft, part))
  const [only] = parts
  if (parts.length === 0) return ''
  return parts.length === 1 && only?.type === 'input_text' && Object.keys(only).length === 2 ? (only.text ?? '') : parts
}

const encodePart = (draft: ResponsesDraft, part: Part): JsonObject[] => {
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, draft.losses, TEXT_EXTRAS)
      return [{ type: 'input_text', text: part.text, ...carriedExtras(part.extras, TEXT_EXTRAS) }]
    case 'refusal':
      return [{ type: 'input_text', text: part.text }]
    case 'image': {
      loseExtras(part.extras, draft.losses, TEXT_EXTRAS)
      const source = encodeSource(draft, part, { data: 'image_url', url: 'image_url' })
      const detail = part.detail ?? 'auto'
      return source ? [{ type: 'input_image', ...source, detail, ...carriedExtras(part.extras, TEXT_EXTRAS) }] : []
    }
    case 'file': {
      const carried = [...TEXT_EXTRAS, 'detail']
      loseExtras(part.extras, draft.losses, carried)
      const source = encodeSource(draft, part, { data: 'file_data', url: 'file_url' })
      const { source: from } = part
      const type = from.kind === 'data' ? mediaTypeOf(from.mediaType, from.data) : undefined
      const { filename = type === undefined ? undefined : defaultFilename(type) } = part
      const nameMember = filename === undefined ? {} : { filename }
      return source ? [{ type: 'input_file', ...nameMember, ...source, ...carriedExtras(part.extras, carried) }] : []
    }
    case 'foreign':
      if (part.protocol === 'openai-responses') return [part.raw]
      break
    // The published format has no audio input; older documents are outdated.
    case 'audio':
    case 'reasoning':
    case 'tool-call':
      break
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
  draft.losses.unfit(part.at)
  return []
}

/** OpenAI requires a name for inline data and reads the type from its extension. */
const defaultFilename = (mediaType: string): string => {
  const [, kind = 'pdf'] = mediaType.split('/')
  return `file.${kind === 'plain' ? 'txt' : kind}`
}

/** Encodes a media source under the member names of its part type. */
const encodeSource = (
  draft: ResponsesDraft,
  { source, at }: { readonly source: MediaSource; readonly at: string },
  members: { readonly data: string; readonly url: string },
) => {
  switch (source.kind) {
    case 'data': {
      const mediaType = mediaTypeOf(source.mediaType, source.data) || (members.data === 'image_url' ? 'image/png' : '')
      return { [members.data]: mediaType === '' ? source.data : dataUrl({ ...source, mediaType }) }
    }
    case 'url':
      return { [members.url]: source.url }
    case 'id':
      // Both OpenAI formats share file ids.
      if (source.protocol === 'openai-responses' || source.protocol === 'openai-chat') return { file_id: source.id }
      draft.losses.unfit(at)
      return undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(source satisfies never)}`)
  }
}

/** Encodes an assistant turn as items: messages, reasoning and calls, in order. */
const encodeTurn = (draft: ResponsesDraft, message: Message, index: number): JsonObject[] => {
  const items: JsonObject[] = []
  let texts: JsonObject[] = []
  let phase: JsonObject = {}
  const endText = () => {
    const [only] = texts
    if (only && texts.length === 1 && only.type === 'output_text')
      items.push({ type: 'message', role: 'assistant', content: only.text ?? '', ...phase })
    else if (only) {
      const id = `msg_hg${index}x${items.length}`
      items.push({ id, type: 'message', role: 'assistant', status: 'completed', content: texts, ...phase })
    }
    texts = []
    phase = {}
  }
  loseExtras(message.extras, draft.losses)
  const lastOutput = message.content.findLastIndex(isOutput)
  for (const [place, part] of message.content.entries())
    switch (part.type) {
      case 'text':
        loseExtras(part.extras, draft.losses, ['phase'])
        if (part.extras?.some(({ name }) => name === 'phase')) {
          endText()
          phase = carriedExtras(part.extras, ['phase'])
        }
        // Some servers reject an empty text.
        if (part.text !== '') texts.push({ type: 'output_text', text: part.text, annotations: [], logprobs: [] })
        break
      case 'refusal':
        texts.push({ type: 'refusal', refusal: part.text })
        break
      case 'reasoning': {
        const { signature } = part
        // Without a signature of this format the item would be looked up by its id and not found. Reasoning must also be
        // followed by the output it led to (400 "without its required following item").
        if (signature?.origin === 'openai-responses' && mayRead(draft, signature) && place < lastOutput) {
          endText()
          const item = {
            type: 'reasoning',
            id: signature.id ?? `${OWN_REASONING}${index}x${items.length}`,
            summary: part.summary && part.text !== '' ? [{ type: 'summary_text', text: part.text }] : [],
            ...(!part.summary && part.text !== '' && { content: [{ type: 'reasoning_text', text: part.text }] }),
            encrypted_content: signature.value,
          }
          items.push(item)
          draft.reasoning.set(item, part.at)
        } else if (part.text !== '' || signature) draft.losses.lose(part.at)
        break
      }
      case 'tool-call': {
        endText()
        const call_id = shortId(part.id)
        const name = toolName(part.name)
        items.push(
          part.custom
            ? { type: 'custom_tool_call', call_id, name, input: part.arguments }
            : { type: 'function_call', call_id, name, arguments: part.arguments || '{}' },
        )
        break
      }
      case 'foreign':
        endText()
        if (part.protocol === 'openai-responses' && !isUnresolved(draft.request, part.raw)) items.push(part.raw)
        else draft.losses.unfit(part.at)
        break
      case 'image':
      case 'file':
      case 'audio':
        draft.losses.unfit(part.at)
        break
      default:
        throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
    }
  endText()
  return items
}

/**
 * Whether this is a reference that the gateway has not replaced by its item. Those of a client's own body are checked; one in
 * a body of another shape would be looked up among the items of all clients that share the provider's key.
 */
const isUnresolved = ({ reshaped }: ChatRequest, raw: JsonObject): boolean => reshaped === true && isItemReference(raw)

/** Whether the target can read this encrypted reasoning, as far as is known. */
const mayRead = ({ target }: ResponsesDraft, { issuer, value }: ReasoningSignature): boolean =>
  issuer === undefined || target.instance === undefined
    ? target.isEncryptedElsewhere?.(value) !== true
    : issuer === target.instance

const isOutput = (part: Part): boolean => part.type !== 'reasoning' && !(part.type === 'text' && part.text === '')

// ── Same format on both sides ────────────────────────────────────────────────────────────────────────────────────────

/**
 * Changes the model's name, replaces the gateway's compaction items with messages and files in image parts with file parts,
 * and removes foreign reasoning. An upstream would reject that (400 invalid_encrypted_content, "Item not found"); one that
 * reads plain reasoning gets its text.
 */
export const adaptRequest = (body: JsonObject, target: EncodeTarget): JsonObject => {
  const items = list(body.input)
  const kept = items.flatMap((item, index) => {
    const members = object(item) ?? {}
    if (!isForeignReasoning(members, target))
      return [compactedMessage(members) ?? (isObject(item) ? withFileParts(item) : item)]
    return isOmitted(members, target) ? [] : [asPlainReasoning(members, index)]
  })
  if (kept.length < items.length || kept.some((item, at) => item !== items[at]))
    return { ...body, model: target.model, input: kept }
  return body.model === target.model ? body : { ...body, model: target.model }
}

/** The item with image parts that hold no image as file parts. Returns the same item if it has none. */
const withFileParts = (item: JsonObject): JsonObject =>
  mapMember(mapMember(item, 'content', asFilePart), 'output', asFilePart)

const asFilePart = (part: Json): Json => {
  if (!isObject(part) || part.type !== 'input_image') return part
  const url = text(part.image_url) ?? ''
  const mediaType = mediaTypeOfUrl(url) ?? ''
  if (mediaType === '' || /^(?:image|audio)\//.test(mediaType)) return part
  const { image_url: _url, detail: _detail, ...rest } = part
  return { ...rest, type: 'input_file', filename: defaultFilename(mediaType), file_data: withMediaType(url, mediaType) }
}

/** True for foreign reasoning, unless the upstream reads its text. */
const isOmitted = (item: JsonObject, target: EncodeTarget): boolean =>
  isForeignReasoning(item, target) && !(target.acceptsReasoning && plainReasoning(item) !== '')

/** The text of a foreign reasoning item. The gateway writes raw reasoning as a summary if the client asked for one. */
const plainReasoning = (item: JsonObject): string => {
  const { summary, reasoning } = reasoningTexts(item)
  return reasoning || summary || signedReasoning(text(item.encrypted_content) ?? '').text
}

/** A foreign item for an upstream that reads `content`, without the ID and the encryption of its provider. */
const asPlainReasoning = (item: JsonObject, index: number): JsonObject => {
  const plain = { ...item, id: `${OWN_REASONING}_${index}`, encrypted_content: null }
  return reasoningTexts(item).reasoning === ''
    ? { ...plain, summary: [], content: [{ type: 'reasoning_text', text: plainReasoning(item) }] }
    : plain
}

/** Paths of the items that `adaptRequest` removes. */
export const omittedItems = ({ input }: JsonObject, target: EncodeTarget): readonly string[] =>
  list(input).flatMap((item, index) => (isOmitted(object(item) ?? {}, target) ? [`input[${index}]`] : []))

/**
 * The body of a request that has parts in the shape of another format, in this format's own. A stored turn keeps its
 * `input`, and the response repeats its tools and settings.
 */
export const inOwnShape = (request: ChatRequest, body: JsonObject): JsonObject => {
  // `instructions` stays a member of its own.
  const messages = request.messages.filter(({ at }) => at !== 'instructions')
  const { input, store: _, ...encoded } = encodeRequest({ ...request, messages }, { model: request.model }).body
  const { instructions, store, input: given } = body
  const isOwn =
    typeof given === 'string' || (isList(given) && !given.some((item) => isObject(item) && isChatShaped(item)))
  return {
    ...encoded,
    ...(instructions !== undefined && { instructions }),
    ...(store !== undefined && { store }),
    input: (isOwn ? given : input) ?? [],
  }
}

/** Members that refer to data stored at one provider. */
const STORED_MEMBERS = ['previous_response_id', 'conversation', 'prompt'] as const

/**
 * Removes references to stored data and `store` from a body. Some upstreams would ignore such a reference and answer
 * without the earlier turns; some reject `store`, which the gateway implements for clients of this format.
 */
export const withoutKeeping = (
  body: JsonObject,
  client: ProtocolName,
  lost: (path: string, unfit?: boolean) => void,
): JsonObject => {
  const unknown = STORED_MEMBERS.filter((name) => (body[name] ?? null) !== null)
  for (const name of unknown) lost(name, true)
  if (body.store !== true && unknown.length === 0) return body
  if (body.store === true && client !== 'openai-responses') lost('store')
  const removed: ReadonlySet<string> = new Set(['store', ...unknown])
  return Object.fromEntries(Object.entries(body).filter(([name]) => !removed.has(name)))
}
