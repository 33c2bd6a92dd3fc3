import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { thinksByBudgetOnly } from '../shared/claude.ts'
import { fitSchema } from '../shared/claude-schema.ts'
import { type Losses, lost, lostUnlessNeutral, newLosses } from '../shared/losses.ts'
import {
  conversationMember,
  encodeSettings,
  JSON_INSTRUCTION,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
  withFormatLabels,
} from '../shared/setting-encoders.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking, isThinking, type Thinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'

/**
 * What an answer may be long when neither the client nor the catalogue says it. This format demands a limit; every
 * model since Claude 3.5 can write so much.
 */
export const DEFAULT_MAX_TOKENS = 8_192

/** A request in this format, and whatever of it could not be carried. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const root = conversationMember(request)
  const { system: said, turns } = encodeConversation(request.messages, losses)
  const { format } = request.settings
  const system = format?.value.kind === 'json' ? [...said, { type: 'text', text: JSON_INSTRUCTION }] : said
  // Without a single turn nothing is asked; the upstream would refuse it.
  if (turns.length === 0) losses.unfit(root)
  const tools = encodeTools(request, losses)
  const maxTokens = limitOf(request.settings, target)
  const thinking = decideThinking(
    {
      settings: request.settings,
      extra: request.extras.find(isThinking),
      maxTokens,
      byBudget: thinksByBudgetOnly(target.model),
      forced: tools.forced,
      turns,
    },
    losses,
  )
  const draft = newDraft({ request, thinking, maxTokens, losses })
  draft.put('model', target.model, 'model')
  draft.put('max_tokens', maxTokens, request.settings.maxOutputTokens?.at)
  if (system.length > 0) draft.put('system', systemOf(system), (request.messages.find(isSystem) ?? format)?.at)
  draft.put('messages', turns, root)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.choice) {
    const { toolChoice, parallelToolCalls } = request.settings
    draft.put('tool_choice', tools.choice, (toolChoice ?? parallelToolCalls)?.at)
  }
  if (thinking.member) draft.put('thinking', thinking.member, thinking.at)
  const { reasoningSummary } = request.settings
  if (thinking.member?.display !== undefined && reasoningSummary) draft.tell('thinking.display', reasoningSummary.at)
  if (thinking.effort) draft.config({ effort: thinking.effort }, request.settings.effort?.at)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const extra of request.extras) carryExtra(extra, draft)
  if (request.stream) draft.put('stream', true, 'stream')
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

const isSystem = ({ role }: { readonly role: string }): boolean => role === 'system'

/** One plain text is a string; anything more is blocks. */
const systemOf = (blocks: readonly JsonObject[]): Json => {
  const [only] = blocks
  return blocks.length === 1 && only && Object.keys(only).length === 2 ? (only.text ?? null) : blocks
}

const limitOf = ({ maxOutputTokens, thinkingBudget }: GenerationSettings, { outputLimit }: EncodeTarget): number => {
  const most = outputLimit ?? Number.POSITIVE_INFINITY
  if (maxOutputTokens) return Math.max(1, Math.min(Math.floor(maxOutputTokens.value), most))
  // Thoughts count as output, so a budget comes on top.
  return outputLimit ?? DEFAULT_MAX_TOKENS + Math.max(0, thinkingBudget?.value ?? 0)
}

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────

type Facts = {
  readonly request: ChatRequest
  readonly thinking: Thinking
  readonly maxTokens: number
  readonly losses: Losses
}

type Draft = Facts & {
  readonly body: { readonly [member: string]: Json }
  readonly from: { readonly [member: string]: string }
  put(member: string, value: Json, at: string | undefined): void
  /** Says where a member inside another came from. */
  tell(path: string, at: string): void
  /** Adds to `output_config`. */
  config(members: JsonObject, at: string | undefined): void
}

const newDraft = (facts: Facts): Draft => {
  const body: { [member: string]: Json } = {}
  const from: { [member: string]: string } = {}
  const put = (member: string, value: Json, at: string | undefined) => {
    body[member] = value
    if (at !== undefined) from[member] = at
  }
  const tell = (path: string, at: string) => {
    from[path] = at
  }
  return {
    ...facts,
    body,
    from,
    put,
    tell,
    config(members, at) {
      put('output_config', { ...(isObject(body.output_config) && body.output_config), ...members }, at)
      if (at !== undefined) for (const name of Object.keys(members)) tell(`output_config.${name}`, at)
    },
  }
}

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────

const SETTING_ENCODERS: SettingEncoders<Draft> = {
  maxOutputTokens: ({ value, at }, { maxTokens, losses }) => {
    if (value !== maxTokens) losses.lose(at)
  },
  temperature: ({ value, at }, { put, thinking, request, losses }) => {
    const fitting = Math.min(1, Math.max(0, value))
    if (fitting !== value) losses.lose(at)
    // One is what goes without saying, and nothing else goes with thinking.
    if (thinking.on && fitting !== 1) return losses.lose(at)
    if (fitting === 1 && request.settings.topP && request.settings.topP.value !== 1) return
    put('temperature', fitting, at)
  },
  topP: ({ value, at }, { put, thinking, request, losses }) => {
    const fitting = Math.min(1, Math.max(0, value))
    if (fitting !== value) losses.lose(at)
    const { temperature } = request.settings
    if (thinking.on && fitting < 0.95) return losses.lose(at)
    // Newer models refuse the two together. The whole is what goes without saying; otherwise temperature is the one
    // most people mean.
    if (temperature && fitting === 1) return
    if (temperature && temperature.value !== 1) return losses.lose(at)
    put('top_p', fitting, at)
  },
  topK: ({ value, at }, { put, thinking, losses }) => {
    if (thinking.on) losses.lose(at)
    else put('top_k', Math.max(0, Math.floor(value)), at)
  },
  stop: ({ value, at }, { put, losses }) => {
    // "each stop sequence must contain non-whitespace".
    const sequences = value.filter((sequence) => sequence.trim() !== '')
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) put('stop_sequences', sequences, at)
  },
  seed: lost,
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => carryFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
  user: ({ value, at }, { put, losses }) => {
    // "user_id appears to contain an email address", and longer than 512 is refused.
    if (value === '' || value.length > 512 || value.includes('@')) return losses.lose(at)
    put('metadata', { user_id: value }, at)
  },
  serviceTier: ({ value, at }, { put, losses }) => {
    const tier = TIERS.get(value)
    if (tier) put('service_tier', tier, at)
    else losses.lose(at)
  },
}

const TIERS: ReadonlyMap<string, string> = new Map([
  ['auto', 'auto'],
  ['default', 'standard_only'],
  ['standard_only', 'standard_only'],
])

const carryFormat = (format: Setting<OutputFormat>, { config, losses }: Draft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // A line of the system prompt asks for it.
      return
    case 'schema': {
      const { schema, described, impossible } = fitSchema(value.schema)
      if (impossible.length > 0 || !isObject(schema)) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      config({ format: { type: 'json_schema', schema: withFormatLabels(schema, value) } }, at)
      return
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members nobody else has ──────────────────────────────────────────────────────────────────────────────────────

/** Members of this format that clients of others send through, and its own clients' that the middle has no word for. */
const EXTRAS: { readonly [name: string]: (value: Json) => boolean } = {
  cache_control: isObject,
  container: (value) => isObject(value) || typeof value === 'string',
  context_management: isObject,
  inference_geo: (value) => typeof value === 'string',
  mcp_servers: isList,
  speed: (value) => typeof value === 'string',
  user_profile_id: (value) => typeof value === 'string',
}

const carryExtra = (extra: Extra, draft: Draft): void => {
  const { name, value, at } = extra
  if (isThinking(extra)) return
  if (name === 'task_budget' && at === 'output_config.task_budget') draft.config({ task_budget: value }, at)
  else if (Object.hasOwn(EXTRAS, name) && EXTRAS[name]?.(value)) draft.put(name, value, at)
  else draft.losses.loseExtra(extra)
}
