import type { OptionalMember, ReasoningMember } from '../../core/accepts.ts'
import type { CacheMark } from '../../core/cache-mark.ts'
import type {
  ChatRequest,
  Extra,
  Message,
  Part,
  ReasoningSignature,
  Setting,
  Tool,
  ToolChoice,
} from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { object } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { shortId } from '../shared/call-ids.ts'
import { dataUrl } from '../shared/data-url.ts'
import { withEffort } from '../shared/effort.ts'
import { CLOSED_PARAMETERS, completeParameters } from '../shared/function-parameters.ts'
import {
  defaultTierOnly,
  encodedElsewhere,
  type Losses,
  loseExtras,
  lost,
  lostUnlessNeutral,
  newLosses,
} from '../shared/losses.ts'
import { mediaTypeOf, textOfFile } from '../shared/media.ts'
import { newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import { chatResponseFormat, encodeSettings, type SettingEncoders, topMember } from '../shared/setting-encoders.ts'
import { asMember } from '../shared/setting-rows.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { markErrorResult } from '../shared/tool-results.ts'
import { withFunctions } from './legacy-functions.ts'

/** Encodes a request as chat completions; the result lists the losses. */
export const encodeRequest = (original: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const request = withEffort(withFunctions(original, target.supportsCustomTools === true, losses), target)
  const caching = target.cacheMark === 'prompt_cache_breakpoint' ? CACHING : []
  loseExtras(request.extras, losses, caching)
  const messages = writeMessages(request.messages, losses, target)
  const tools = request.tools.flatMap((tool) => writeTool(tool, losses))
  const { toolChoice } = request.settings
  // Without tools only a required call is a loss.
  if (tools.length === 0 && toolChoice && toolChoice.value.kind !== 'auto' && toolChoice.value.kind !== 'none')
    losses.lose(toolChoice.at)
  const draft: ChatDraft = {
    ...newRequestDraft(losses),
    // A tool choice may only name tools that are sent.
    tools: request.tools.filter(isSent),
    takes: target.accepts?.takes ?? [],
  }
  draft.put('model', target.model, undefined)
  draft.put('messages', messages, topMember(request.messages.at(-1)) || 'messages')
  if (tools.length > 0) draft.put('tools', tools, topMember(request.tools[0]) || 'tools')
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const { name, value, at } of request.extras) if (caching.includes(name)) draft.put(name, value, at)
  if (request.stream) {
    draft.put('stream', true, undefined)
    draft.put('stream_options', { include_usage: true }, undefined)
  }
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

/** Members about the prompt cache, beside its marks. */
const CACHING: readonly string[] = ['prompt_cache_options', 'prompt_cache_retention']

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

type ChatDraft = RequestDraft & {
  readonly tools: readonly Tool[]
  /** Optional members that the provider accepts. */
  readonly takes: readonly OptionalMember[]
}

/** A member that only some providers accept. For others, `otherwise` reports it as lost unless it has no effect. */
const optional =
  <T extends Json>(member: OptionalMember, otherwise: (setting: Setting<T>, draft: ChatDraft) => void) =>
  (setting: Setting<T>, draft: ChatDraft): void =>
    (draft.takes.includes(member) ? asMember(member) : otherwise)(setting, draft)

const optionalTier = optional('service_tier', defaultTierOnly)

const SETTING_ENCODERS: SettingEncoders<ChatDraft> = {
  maxOutputTokens: asMember('max_completion_tokens'),
  temperature: asMember('temperature'),
  topP: asMember('top_p'),
  topK: lost,
  stop: asMember('stop'),
  seed: asMember('seed'),
  presencePenalty: asMember('presence_penalty'),
  frequencyPenalty: asMember('frequency_penalty'),
  logitBias: asMember('logit_bias'),
  choices: asMember('n'),
  logprobs: asMember('logprobs'),
  topLogprobs: ({ value, at }, { put }) => {
    // Rejected without `logprobs`.
    put('logprobs', true, at)
    put('top_logprobs', value, at)
  },
  // Both are rejected without tools.
  toolChoice: ({ value, at }, { put, tools }) => {
    if (tools.length > 0) put('tool_choice', writeToolChoice(value, tools), at)
  },
  parallelToolCalls: ({ value, at }, { put, tools }) => {
    if (tools.length > 0) put('parallel_tool_calls', value, at)
  },
  format: ({ value, at }, { put }) => put('response_format', chatResponseFormat(value), at),
  effort: asMember('reasoning_effort'),
  thinkingBudget: lost,
  reasoningSummary: lost,
  encryptedReasoning: lost,
  verbosity: optional('verbosity', ({ value, at }, { losses }) => {
    if (value !== 'medium') losses.lose(at)
  }),
  user: asMember('user'),
  promptCacheKey: optional('prompt_cache_key', lost),
  serviceTier: (setting, draft) => (TIERS.has(setting.value) ? optionalTier : lost)(setting, draft),
  metadata: optional('metadata', lostUnlessNeutral),
  // A provider without this member stores nothing.
  store: optional('store', lostUnlessNeutral),
  // Usage is always requested from the upstream.
  streamUsage: encodedElsewhere,
}

const TIERS: ReadonlySet<string> = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast'])

const writeToolChoice = (choice: ToolChoice, tools: readonly Tool[]): Json => {
  const custom = new Set(tools.flatMap((tool) => (tool.kind === 'custom' ? [tool.name] : [])))
  const named = (name: string): JsonObject =>
    custom.has(name) ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } }
  switch (choice.kind) {
    case 'auto':
    case 'none':
    case 'required':
      return choice.kind
    case 'tool':
      return named(choice.name)
    case 'allowed':
      return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools: choice.names.map(named) } }
  }
}

const writeTool = (tool: Tool, losses: Losses): JsonObject[] => {
  switch (tool.kind) {
    case 'function': {
      const { name, description, strict } = tool
      loseExtras(tool.extras, losses)
      // In responses functions are strict by default, unless their schema violates the rules of strict mode. Here such
      // a schema would be rejected.
      const isStrict = strict === true && allowsStrict(completeParameters(tool.parameters ?? CLOSED_PARAMETERS))
      return [
        {
          type: 'function',
          function: {
            name,
            ...(description !== undefined && { description }),
            parameters: completeParameters(tool.parameters ?? (isStrict ? CLOSED_PARAMETERS : undefined)),
            ...(isStrict && { strict: true }),
          },
        },
      ]
    }
    case 'custom': {
      const { name, description, format } = tool
      const grammar = writeGrammar(format)
      return [
        {
          type: 'custom',
          custom: {
            name,
            ...(description !== undefined && { description }),
            ...(grammar !== undefined && { format: grammar }),
          },
        },
      ]
    }
    case 'foreign':
      if (isSent(tool)) return [tool.raw]
      losses.unfit(tool.at)
      return []
  }
}

const isSent = (tool: Tool): boolean => tool.kind !== 'foreign' || tool.protocol === 'openai-chat'

/** Nests a grammar, which is flat in the responses format (`{type, syntax, definition}`). */
const writeGrammar = (format: Json | undefined): Json | undefined => {
  const flat = object(format)
  if (flat?.type !== 'grammar' || flat.grammar !== undefined) return format
  const { type, ...grammar } = flat
  return { type, grammar }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const writeMessages = (messages: readonly Message[], losses: Losses, target: EncodeTarget): JsonObject[] => {
  const written: JsonObject[] = []
  const context: PartContext = { losses, mark: target.cacheMark }
  /** Images and files of tool results. A `tool` message holds text only, so they follow in a user message. */
  let attachments: JsonObject[] = []
  const addAttachments = () => {
    if (attachments.length > 0) written.push({ role: 'user', content: attachments })
    attachments = []
  }
  for (const message of messages) {
    loseExtras(message.extras, losses)
    if (message.role !== 'tool') addAttachments()
    switch (message.role) {
      case 'system':
        // Never `developer`: OpenAI treats both roles equally, and most other servers support only `system`.
        written.push({ role: 'system', content: writeContent(message.content, TEXT_ONLY, context) })
        break
      case 'user':
        written.push({ role: 'user', content: writeContent(message.content, USER_PARTS, context) })
        break
      case 'assistant':
        written.push(...writeAssistant(message.content, losses, target))
        break
      case 'tool': {
        const texts = message.content.filter(({ type }) => type === 'text' || type === 'refusal')
        const media = message.content.filter(({ type }) => type !== 'text' && type !== 'refusal')
        const parts = media.flatMap((part) => writePart(part, USER_PARTS, context))
        const result = texts.length === 0 && parts.length > 0 ? 'The result is in the next user message.' : undefined
        written.push({
          role: 'tool',
          tool_call_id: shortId(message.callId, MAX_ID_LENGTH),
          content: result ?? markErrorResult(writeContent(texts, TEXT_ONLY, context), message.isError),
        })
        for (const part of parts) attachments.push(part)
        break
      }
    }
  }
  addAttachments()
  return written
}

type PartTypes = ReadonlySet<Part['type']>
const TEXT_ONLY: PartTypes = new Set(['text', 'refusal', 'foreign'])
const USER_PARTS: PartTypes = new Set(['text', 'refusal', 'image', 'file', 'audio', 'foreign'])

type PartContext = { readonly losses: Losses; readonly mark: CacheMark | undefined }

/** A single text part becomes a string, which every server accepts. */
const writeContent = (content: readonly Part[], kinds: PartTypes, context: PartContext): Json => {
  const parts = content.flatMap((part) => writePart(part, kinds, context))
  const [only] = parts
  if (!only) return ''
  const isPlain = parts.length === 1 && only.type === 'text' && Object.keys(only).length === 2
  return isPlain ? (only.text ?? '') : parts
}

/** The cache mark of a part, if the provider takes it. Other extras are losses. */
const writeMark = (extras: readonly Extra[] | undefined, { losses, mark }: PartContext): JsonObject => {
  const found = mark === undefined ? undefined : extras?.find(({ name }) => name === mark)
  loseExtras(extras, losses, found ? [found.name] : [])
  return found ? { [found.name]: found.value } : {}
}

/** A part of a system, user or tool message. */
const writePart = (part: Part, kinds: PartTypes, context: PartContext): JsonObject[] => {
  const { losses } = context
  if (!kinds.has(part.type)) {
    // Reasoning can be dropped; any other part is essential to the message.
    if (part.type === 'reasoning') losses.lose(part.at)
    else losses.unfit(part.at)
    return []
  }
  switch (part.type) {
    case 'text':
      return [{ type: 'text', text: part.text, ...writeMark(part.extras, context) }]
    case 'refusal':
      return [{ type: 'text', text: part.text }]
    case 'image': {
      const marked = writeMark(part.extras, context)
      const { source, detail } = part
      if (source.kind === 'id') {
        losses.unfit(part.at)
        return []
      }
      // Unrecognised image data is most often PNG; a data URL requires a media type.
      const url =
        source.kind === 'url'
          ? source.url
          : dataUrl({ ...source, mediaType: mediaTypeOf(source.mediaType, source.data) || 'image/png' })
      return [{ type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) }, ...marked }]
    }
    case 'file': {
      const marked = writeMark(part.extras, context)
      const { source, filename } = part
      const named = filename === undefined ? {} : { filename }
      // OpenAI accepts only PDFs, and most other servers no files.
      const content = textOfFile(part)
      if (content !== undefined)
        return [{ type: 'text', text: filename ? `${filename}:\n\n${content}` : content, ...marked }]
      if (source.kind === 'data') {
        const mediaType = mediaTypeOf(source.mediaType, source.data, filename) || 'application/octet-stream'
        const name = filename ?? (mediaType === 'application/pdf' ? 'file.pdf' : 'file')
        return [{ type: 'file', file: { filename: name, file_data: dataUrl({ ...source, mediaType }) }, ...marked }]
      }
      if (source.kind === 'id' && source.protocol === 'openai-chat')
        return [{ type: 'file', file: { file_id: source.id, ...named }, ...marked }]
      // File URLs and file IDs of other providers are not supported.
      losses.unfit(part.at)
      return []
    }
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: part.data, format: part.format } }]
    case 'foreign':
      if (part.protocol === 'openai-chat') return [part.raw]
      losses.unfit(part.at)
      return []
    case 'reasoning':
    case 'tool-call':
      // Excluded by `kinds`.
      return []
  }
}

/** The member in which the provider accepts reasoning of earlier turns; undefined if it accepts none. */
const reasoningMember = ({ accepts, acceptsReasoning }: EncodeTarget): ReasoningMember | undefined =>
  accepts?.reasoning
    ? accepts.reasoning.find((member) => member !== 'reasoning_details')
    : acceptsReasoning
      ? 'reasoning_content'
      : undefined

/** Whether reasoning is plain text of a chat completions provider. Signatures of other formats are not portable. */
const isPortable = (signature: ReasoningSignature | undefined): boolean =>
  signature === undefined || signature.origin === 'openai-chat'

/** Maximum length of a call ID at OpenAI (github.com/agno-agi/agno/issues/5382); 64 in responses. */
const MAX_ID_LENGTH = 40

const writeAssistant = (content: readonly Part[], losses: Losses, target: EncodeTarget): JsonObject[] => {
  const texts: string[] = []
  const refusals: string[] = []
  const reasoning: string[] = []
  const calls: JsonObject[] = []
  const others: JsonObject[] = []
  const member = reasoningMember(target)
  for (const part of content)
    switch (part.type) {
      case 'text':
        loseExtras(part.extras, losses)
        texts.push(part.text)
        break
      case 'refusal':
        refusals.push(part.text)
        break
      case 'reasoning':
        // Many servers reject the member. Only text is written; signatures belong to other formats.
        if (member && part.text !== '' && (target.acceptsReasoning || isPortable(part.signature)))
          reasoning.push(part.text)
        else losses.lose(part.at)
        break
      case 'tool-call':
        calls.push(
          part.custom
            ? {
                id: shortId(part.id, MAX_ID_LENGTH),
                type: 'custom',
                custom: { name: part.name, input: part.arguments },
              }
            : {
                id: shortId(part.id, MAX_ID_LENGTH),
                type: 'function',
                // Empty arguments must still be valid JSON.
                function: { name: part.name, arguments: part.arguments === '' ? '{}' : part.arguments },
              },
        )
        break
      case 'foreign':
        if (part.protocol === 'openai-chat') others.push(part.raw)
        else losses.unfit(part.at)
        break
      case 'image':
      case 'file':
      case 'audio':
        losses.unfit(part.at)
        break
    }
  if (texts.length + refusals.length + calls.length + others.length + reasoning.length === 0) return []
  // Other formats split texts around citations and calls; they are joined.
  const joined = texts.length > 0 ? texts.join('') : null
  const parts = [...(joined === null ? [] : [{ type: 'text', text: joined }]), ...others]
  return [
    {
      role: 'assistant',
      content: others.length > 0 ? parts : joined,
      ...(refusals.length > 0 && { refusal: refusals.join('') }),
      ...(member && reasoning.length > 0 && { [member]: reasoning.join('\n\n') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}

/** Adapts a client's body for an upstream of the same format: sets the model and requests usage in streams. */
export const adaptRequest = (body: JsonObject, target: EncodeTarget): JsonObject => {
  const named = body.model === target.model ? body : { ...body, model: target.model }
  if (body.stream !== true) return named
  const options = object(body.stream_options)
  if (options?.include_usage === true) return named
  return { ...named, stream_options: { ...options, include_usage: true } }
}
