import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { fitSchema } from '../shared/claude-schema.ts'
import { lost, lostUnlessNeutral, newLosses } from '../shared/losses.ts'
import { encodeOwnMember, type MemberChecks, newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import {
  conversationMember,
  encodeSettings,
  JSON_INSTRUCTION,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
} from '../shared/setting-encoders.ts'
import { encodeConversation } from './encode-messages.ts'
import { type ConverseThinking, decideThinking, isThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { type ConverseModelFamily, familyOf } from './family.ts'

/** Encodes a request in this format. The path contains the model and selects streaming or non-streaming. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const tools = encodeTools(request, family, losses)
  const { system: messagesSystem, turns } = encodeConversation(request.messages, family, losses)
  const { format } = request.settings
  const system = format?.value.kind === 'json' ? [...messagesSystem, { text: JSON_INSTRUCTION }] : messagesSystem
  const root = conversationMember(request)
  // The upstream would reject a request without turns.
  if (turns.length === 0) losses.unfit(root)
  const extra = request.extras.find(isThinking)
  const limit = outputLimitOf(request.settings, target)
  const thinking = decideThinking(
    { settings: request.settings, extra, family, forced: tools.forced, limit, turns },
    losses,
  )
  const draft = newConverseDraft({ request, target, family, thinking }, newRequestDraft(losses))
  draft.put('messages', turns, root)
  const first = request.messages.find(({ role }) => role === 'system') ?? format
  if (system.length > 0) draft.put('system', system, first?.at)
  if (tools.config) draft.put('toolConfig', tools.config, 'tools')
  for (const [name, value] of Object.entries(thinking.fields ?? {}))
    if (value !== undefined) draft.pass(name, value, thinking.at)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const other of request.extras) if (other !== extra) encodeExtra(other, draft)
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

/** The output limit in tokens: the client's or the model's, if known. */
const outputLimitOf = ({ maxOutputTokens }: GenerationSettings, { outputLimit }: EncodeTarget): number | undefined => {
  if (!maxOutputTokens) return outputLimit
  return Math.max(1, Math.min(Math.floor(maxOutputTokens.value), outputLimit ?? Number.POSITIVE_INFINITY))
}

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────────

type ConverseDraftInput = {
  readonly request: ChatRequest
  readonly target: EncodeTarget
  readonly family: ConverseModelFamily
  readonly thinking: ConverseThinking
}

type ConverseDraft = ConverseDraftInput &
  RequestDraft & {
    /** Adds to `inferenceConfig`. */
    infer(member: string, value: Json, at: string): void
    /** Adds to `additionalModelRequestFields`, the members of the model's vendor. */
    pass(member: string, value: Json, at: string | undefined): void
  }

const newConverseDraft = (input: ConverseDraftInput, draft: RequestDraft): ConverseDraft => ({
  ...input,
  ...draft,
  infer: (member, value, at) => draft.putIn('inferenceConfig', member, value, at),
  pass: (member, value, at) => draft.putIn('additionalModelRequestFields', member, value, at),
})

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const clamp = (value: number): number => Math.min(1, Math.max(0, value))

/** API reference: "Array Members: Minimum number of 0 items. Maximum number of 2500 items", not empty. */
const MAX_STOPS = 2_500
const TIERS: ReadonlySet<string> = new Set(['priority', 'flex', 'reserved'])
/** API reference: valid names and values of `requestMetadata`, at most 16. */
const METADATA = /^[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}$/
const MAX_METADATA = 16

const SETTING_ENCODERS: SettingEncoders<ConverseDraft> = {
  // Without a limit Bedrock uses the model's maximum (API reference, InferenceConfiguration).
  maxOutputTokens: ({ value, at }, { request, target, infer, losses }) => {
    const clamped = outputLimitOf(request.settings, target) ?? value
    if (clamped !== value) losses.lose(at)
    infer('maxTokens', clamped, at)
  },
  temperature: ({ value, at }, { infer, family, thinking, request, losses }) => {
    const clamped = clamp(value)
    if (clamped !== value) losses.lose(at)
    if (family.maker !== 'anthropic') return infer('temperature', clamped, at)
    if (!family.samples) return clamped === 1 ? undefined : losses.lose(at)
    // With thinking only the default of 1 is allowed.
    if (thinking.on && clamped !== 1) return losses.lose(at)
    const { topP } = request.settings
    if (clamped === 1 && topP && topP.value !== 1) return
    infer('temperature', clamped, at)
  },
  topP: ({ value, at }, { infer, family, thinking, request, losses }) => {
    const clamped = clamp(value)
    if (clamped !== value) losses.lose(at)
    if (family.maker !== 'anthropic') return infer('topP', clamped, at)
    if (!family.samples) return clamped === 1 ? undefined : losses.lose(at)
    if (thinking.on && clamped < 0.95) return losses.lose(at)
    // Claude: "`temperature` and `top_p` cannot both be specified for this model". If neither has its
    // default of 1, `top_p` is dropped.
    const { temperature } = request.settings
    if (temperature && clamped === 1) return
    if (temperature && temperature.value !== 1) return losses.lose(at)
    infer('topP', clamped, at)
  },
  topK: ({ value, at }, { pass, family, thinking, losses }) => {
    const topK = Math.max(0, Math.floor(value))
    if (family.topK === null || (family.maker === 'anthropic' && thinking.on)) losses.lose(at)
    else if (family.topK === 'top_k') pass('top_k', topK, at)
    else pass('inferenceConfig', { topK }, at)
  },
  stop: ({ value, at }, { infer, family, losses }) => {
    // Claude: "each stop sequence must contain non-whitespace".
    const fits = (sequence: string) => (family.maker === 'anthropic' ? sequence.trim() : sequence) !== ''
    const sequences = value.filter(fits).slice(0, MAX_STOPS)
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) infer('stopSequences', sequences, at)
  },
  seed: lost,
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => encodeFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
  serviceTier: ({ value, at }, { put, losses }) => {
    if (TIERS.has(value)) put('serviceTier', { type: value }, at)
    else if (value !== 'auto' && value !== 'default' && value !== 'standard_only') losses.lose(at)
  },
  metadata: ({ value, at }, { put, losses }) => {
    const kept: { [name: string]: string } = {}
    for (const [name, entry] of Object.entries(value)) {
      const fits = typeof entry === 'string' && METADATA.test(entry) && name !== '' && METADATA.test(name)
      if (fits && Object.keys(kept).length < MAX_METADATA) kept[name] = entry
      else losses.lose(at)
    }
    if (Object.keys(kept).length > 0) put('requestMetadata', kept, at)
  },
}

const encodeFormat = (format: Setting<OutputFormat>, { put, family, losses }: ConverseDraft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // `encodeRequest` adds an instruction to the system prompt.
      return
    case 'schema': {
      // All models support the same part of JSON Schema; an unknown keyword is a 400.
      const { schema, described, impossible } = fitSchema(value.schema)
      if (!family.schemas || impossible.length > 0 || !isObject(schema)) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      const { name, description } = value
      const jsonSchema = { schema: JSON.stringify(schema), name, ...(description && { description }) }
      // The schema is a JSON string (recording chat-with-schema-with-bedrock-claude-haiku-4-5).
      return put('outputConfig', { textFormat: { type: 'json_schema', structure: { jsonSchema } } }, at)
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members of this format only ──────────────────────────────────────────────────────────────────────────────────────

/** Checks of members without a field in `ChatRequest`, sent by clients of other formats. */
const MEMBER_CHECKS: MemberChecks = {
  guardrailConfig: isObject,
  performanceConfig: isObject,
  promptVariables: isObject,
  requestMetadata: isObject,
  additionalModelResponseFieldPaths: isList,
}

const encodeExtra = (extra: Extra, draft: ConverseDraft): void => {
  const { name, value, at } = extra
  if (name === 'additionalModelRequestFields' && isObject(value)) {
    for (const [member, entry] of Object.entries(value)) if (entry !== undefined) draft.pass(member, entry, at)
  } else encodeOwnMember(extra, MEMBER_CHECKS, draft)
}
