import type { OptionalMember, ReasoningMember } from '../../core/accepts.ts'
import type {
  ChatRequest,
  GenerationSettings,
  Message,
  OutputFormat,
  Part,
  ReasoningSignature,
  SettingName,
  Tool,
  ToolChoice,
} from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { object } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { shortId } from '../shared/call-ids.ts'
import { dataUrl } from '../shared/data-url.ts'
import { withEffort } from '../shared/effort.ts'
import { type Losses, loseExtras, newLosses } from '../shared/losses.ts'
import { mediaTypeOf, textOfFile } from '../shared/media.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { markErrorResult } from '../shared/tool-results.ts'
import { withFunctions } from './legacy-functions.ts'

/** A request in our words as chat completions; what that format has no place for is named as lost. */
export const encodeRequest = (asked: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const from: { [member: string]: string } = {}
  const note = (at: string, members: JsonObject): JsonObject => {
    for (const member of Object.keys(members)) from[member] = at
    return members
  }
  const request = withEffort(withFunctions(asked, target.supportsCustomTools === true, losses), target)
  loseExtras(request.extras, losses)
  const messages = writeMessages(request.messages, losses, target)
  const tools = request.tools.flatMap((tool) => writeTool(tool, losses))
  const { toolChoice } = request.settings
  // Of a choice among no tools only a call that had to be made is a loss.
  if (tools.length === 0 && toolChoice && toolChoice.value.kind !== 'auto' && toolChoice.value.kind !== 'none')
    losses.lose(toolChoice.at)
  const body: JsonObject = {
    model: target.model,
    ...note(headOf(request.messages.at(-1)?.at, 'messages'), { messages }),
    ...(tools.length > 0 && note(headOf(request.tools[0]?.at, 'tools'), { tools })),
    // A choice is one among the tools that are sent.
    ...writeSettings({ ...request, tools: request.tools.filter(isSent) }, losses, note, target.accepts?.takes ?? NONE),
    ...(request.stream && { stream: true, stream_options: { include_usage: true } }),
  }
  return { body, losses: losses.all(), from }
}

/** The outermost member of a path. */
const headOf = (at: string | undefined, otherwise: string): string => /^[^.[]+/.exec(at ?? '')?.[0] ?? otherwise

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a setting is in this format; undefined: this value has no place here. */
type Row<T> = (value: T, request: ChatRequest, takes: Takes) => JsonObject | undefined
type Takes = readonly OptionalMember[]

/** A member that not every vendor takes: to the others it is lost, unless its value says the same as its absence. */
const optional =
  <T extends Json>(member: OptionalMember, isUsual: (value: T) => boolean): Row<T> =>
  (value, _request, takes) =>
    takes.includes(member) ? { [member]: value } : isUsual(value) ? {} : undefined

const nothing = (): undefined => undefined

/** A row for every setting there is: one without a row is a compile error. */
const SETTINGS: { readonly [name in SettingName]: Row<NonNullable<GenerationSettings[name]>['value']> } = {
  maxOutputTokens: (value) => ({ max_completion_tokens: value }),
  temperature: (value) => ({ temperature: value }),
  topP: (value) => ({ top_p: value }),
  topK: nothing,
  stop: (value) => ({ stop: value }),
  seed: (value) => ({ seed: value }),
  presencePenalty: (value) => ({ presence_penalty: value }),
  frequencyPenalty: (value) => ({ frequency_penalty: value }),
  logitBias: (value) => ({ logit_bias: value }),
  choices: (value) => ({ n: value }),
  logprobs: (value) => ({ logprobs: value }),
  // Refused without its companion.
  topLogprobs: (value) => ({ logprobs: true, top_logprobs: value }),
  // Both are refused when there are no tools, and say nothing then.
  toolChoice: (value, { tools }) => (tools.length > 0 ? { tool_choice: writeToolChoice(value, tools) } : {}),
  parallelToolCalls: (value, { tools }) => (tools.length > 0 ? { parallel_tool_calls: value } : {}),
  format: (value) => ({ response_format: writeFormat(value) }),
  effort: (value) => ({ reasoning_effort: value }),
  thinkingBudget: nothing,
  reasoningSummary: nothing,
  encryptedReasoning: nothing,
  verbosity: optional('verbosity', (value) => value === 'medium'),
  user: (value) => ({ user: value }),
  promptCacheKey: optional('prompt_cache_key', () => false),
  serviceTier: (value, request, takes) =>
    TIERS.has(value)
      ? optional<string>('service_tier', (tier) => tier === 'auto' || tier === 'default')(value, request, takes)
      : undefined,
  metadata: optional('metadata', (value) => Object.keys(value).length === 0),
  // A provider without this member stores nothing.
  store: optional('store', (value) => !value),
  // Always asked of the upstream.
  streamUsage: () => ({}),
}

const NONE: Takes = []
const TIERS: ReadonlySet<string> = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast'])

const writeSettings = (
  request: ChatRequest,
  losses: Losses,
  note: (at: string, members: JsonObject) => JsonObject,
  takes: Takes,
): JsonObject =>
  Object.assign(
    {},
    ...Object.entries(request.settings).map(([name, setting]) => {
      // The names of Settings are the names of the table, and each row takes its own setting's value.
      const row = SETTINGS[name as SettingName] as Row<unknown>
      const members = row(setting.value, request, takes)
      if (members) return note(setting.at, members)
      losses.lose(setting.at)
      return {}
    }),
  )

const writeFormat = (format: OutputFormat): JsonObject => {
  switch (format.kind) {
    case 'text':
      return { type: 'text' }
    case 'json':
      return { type: 'json_object' }
    case 'schema': {
      const { name, schema, description, strict } = format
      return {
        type: 'json_schema',
        json_schema: {
          name: name || 'answer',
          ...(description !== undefined && { description }),
          schema,
          ...(strict !== undefined && { strict }),
        },
      }
    }
  }
}

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
      const { name, description, parameters, strict } = tool
      loseExtras(tool.extras, losses)
      // In responses a function is strict unless it says otherwise, and is let off where its schema does not keep
      // strict mode's rules; here such a schema would be refused.
      const exact = strict === true && allowsStrict(parameters)
      return [
        {
          type: 'function',
          function: {
            name,
            ...(description !== undefined && { description }),
            ...(parameters !== undefined && { parameters }),
            ...(exact && { strict: true }),
          },
        },
      ]
    }
    case 'custom': {
      const { name, description, format } = tool
      const given = writeGrammar(format)
      return [
        {
          type: 'custom',
          custom: {
            name,
            ...(description !== undefined && { description }),
            ...(given !== undefined && { format: given }),
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

/** A grammar lies flat in responses (`{type, syntax, definition}`) and in a member of its own here. */
const writeGrammar = (format: Json | undefined): Json | undefined => {
  const flat = object(format)
  if (flat?.type !== 'grammar' || flat.grammar !== undefined) return format
  const { type, ...grammar } = flat
  return { type, grammar }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const writeMessages = (messages: readonly Message[], losses: Losses, target: EncodeTarget): JsonObject[] => {
  const written: JsonObject[] = []
  /** Images and files that tools gave: a `tool` message holds text only, so they follow the last of the results. */
  let shown: JsonObject[] = []
  const show = () => {
    if (shown.length > 0) written.push({ role: 'user', content: shown })
    shown = []
  }
  for (const message of messages) {
    loseExtras(message.extras, losses)
    if (message.role !== 'tool') show()
    switch (message.role) {
      case 'system':
        // Never `developer`: OpenAI reads both alike, and most others know this one only.
        written.push({ role: 'system', content: writeContent(message.content, TEXT_ONLY, losses) })
        break
      case 'user':
        written.push({ role: 'user', content: writeContent(message.content, USER_PARTS, losses) })
        break
      case 'assistant':
        written.push(...writeAssistant(message.content, losses, target))
        break
      case 'tool': {
        const said = message.content.filter(({ type }) => type === 'text' || type === 'refusal')
        const seen = message.content.filter(({ type }) => type !== 'text' && type !== 'refusal')
        const parts = seen.flatMap((part) => writePart(part, USER_PARTS, losses))
        const result = said.length === 0 && parts.length > 0 ? 'The result is in the next user message.' : undefined
        written.push({
          role: 'tool',
          tool_call_id: shortId(message.callId, LONGEST_ID),
          content: result ?? markErrorResult(writeContent(said, TEXT_ONLY, losses), message.isError),
        })
        for (const part of parts) shown.push(part)
        break
      }
    }
  }
  show()
  return written
}

type Kinds = ReadonlySet<Part['type']>
const TEXT_ONLY: Kinds = new Set(['text', 'refusal', 'foreign'])
const USER_PARTS: Kinds = new Set(['text', 'refusal', 'image', 'file', 'audio', 'foreign'])

/** A single text is a plain string, which every server understands. */
const writeContent = (content: readonly Part[], kinds: Kinds, losses: Losses): Json => {
  const parts = content.flatMap((part) => writePart(part, kinds, losses))
  const [only] = parts
  if (!only) return ''
  return parts.length === 1 && only.type === 'text' ? (only.text ?? '') : parts
}

/** A part of a system, user or tool message. */
const writePart = (part: Part, kinds: Kinds, losses: Losses): JsonObject[] => {
  if (!kinds.has(part.type)) {
    // Reasoning is the model's own affair; anything else is something the message is about.
    if (part.type === 'reasoning') losses.lose(part.at)
    else losses.unfit(part.at)
    return []
  }
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, losses)
      return [{ type: 'text', text: part.text }]
    case 'refusal':
      return [{ type: 'text', text: part.text }]
    case 'image': {
      loseExtras(part.extras, losses)
      const { source, detail } = part
      if (source.kind === 'id') {
        losses.unfit(part.at)
        return []
      }
      // Bytes that say nothing of their kind are most often PNG; an address without a type is none.
      const url =
        source.kind === 'url'
          ? source.url
          : dataUrl({ ...source, mediaType: mediaTypeOf(source.mediaType, source.data) || 'image/png' })
      return [{ type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } }]
    }
    case 'file': {
      loseExtras(part.extras, losses)
      const { source, filename } = part
      const named = filename === undefined ? {} : { filename }
      // OpenAI takes PDFs only, and most other servers no files at all.
      const words = textOfFile(part)
      if (words !== undefined) return [{ type: 'text', text: filename ? `${filename}:\n\n${words}` : words }]
      if (source.kind === 'data') {
        const mediaType = mediaTypeOf(source.mediaType, source.data, filename) || 'application/octet-stream'
        const name = filename ?? (mediaType === 'application/pdf' ? 'file.pdf' : 'file')
        return [{ type: 'file', file: { filename: name, file_data: dataUrl({ ...source, mediaType }) } }]
      }
      if (source.kind === 'id' && source.protocol === 'openai-chat')
        return [{ type: 'file', file: { file_id: source.id, ...named } }]
      // No addresses here, and another's file ids lead nowhere.
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
      // Among nobody's kinds.
      return []
  }
}

/** The member in which this vendor takes the reasoning of earlier turns; undefined: none is written. */
const reasoningMember = ({ accepts, acceptsReasoning }: EncodeTarget): ReasoningMember | undefined =>
  accepts?.reasoning
    ? accepts.reasoning.find((member) => member !== 'reasoning_details')
    : acceptsReasoning
      ? 'reasoning_content'
      : undefined

/** Reasoning in the open, of a vendor of chat completions: what another format sealed is that vendor's own. */
const isOpen = (proof: ReasoningSignature | undefined): boolean => proof === undefined || proof.origin === 'openai-chat'

/** Characters of a call's id that OpenAI takes here (github.com/agno-agi/agno/issues/5382); in responses they are 64. */
const LONGEST_ID = 40

const writeAssistant = (content: readonly Part[], losses: Losses, target: EncodeTarget): JsonObject[] => {
  const texts: string[] = []
  const refusals: string[] = []
  const thoughts: string[] = []
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
        // Many servers refuse the member. Text alone is written; a proof belongs to another format.
        if (member && part.text !== '' && (target.acceptsReasoning || isOpen(part.signature))) thoughts.push(part.text)
        else losses.lose(part.at)
        break
      case 'tool-call':
        calls.push(
          part.custom
            ? { id: shortId(part.id, LONGEST_ID), type: 'custom', custom: { name: part.name, input: part.arguments } }
            : {
                id: shortId(part.id, LONGEST_ID),
                type: 'function',
                // A call without arguments still has to be JSON.
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
  if (texts.length + refusals.length + calls.length + others.length + thoughts.length === 0) return []
  // Texts that another format keeps apart (around citations, calls) are one text here.
  const said = texts.length > 0 ? texts.join('') : null
  const parts = [...(said === null ? [] : [{ type: 'text', text: said }]), ...others]
  return [
    {
      role: 'assistant',
      content: others.length > 0 ? parts : said,
      ...(refusals.length > 0 && { refusal: refusals.join('') }),
      ...(member && thoughts.length > 0 && { [member]: thoughts.join('\n\n') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}

/** The client's own body for an upstream of the same format: the model's name, and usage in streams. */
export const adaptRequest = (body: JsonObject, target: EncodeTarget): JsonObject => {
  const named = body.model === target.model ? body : { ...body, model: target.model }
  if (body.stream !== true) return named
  const options = object(body.stream_options)
  if (options?.include_usage === true) return named
  return { ...named, stream_options: { ...options, include_usage: true } }
}
