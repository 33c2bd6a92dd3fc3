/**
 * Strict fake vendors. Each supports its own wire formats and refuses what the real vendor refuses (rules/). It answers
 * every other request with the scripted answer, with its own ids, signatures and encrypted reasoning.
 */
import { isObject, type JsonObject, list, text } from '../../src/core/json.ts'
import { type Answer, type VendorIds, type Wire, wires } from './answers.ts'
import type { Rules } from './rule.ts'
import * as chat from './rules/chat.ts'
import { anthropic, bedrock } from './rules/claude.ts'
import { gemini } from './rules/gemini.ts'
import { alibabaLimits, moonshotLimits, openrouterLimits, zaiLimits } from './rules/limits.ts'
import { deepseekResponses, openaiChat, openaiResponses, xaiResponses } from './rules/openai.ts'

export type Ability = 'tools' | 'pictures' | 'schemas'

export type Vendor = {
  readonly name: string
  readonly model: string
  /** Environment variables that it needs besides its key. */
  readonly env?: Readonly<Record<string, string>>
  readonly speaks: { readonly [wire in Wire]?: Rules }
  /** The members of a chat message that contain its reasoning. */
  readonly thinksIn?: readonly ('reasoning_content' | 'reasoning' | 'reasoning_details')[]
  /** Generates the id of a tool call; absent: its calls have none. */
  readonly callId?: (ids: VendorIds, name: string) => string
  /** The beginning of its encrypted reasoning. */
  readonly signaturePrefix?: string
  /** Abilities that its model lacks. */
  readonly lacks?: readonly Ability[]
  /** Meets OpenAI only: its rules are few, and each pair takes time. */
  readonly meetsOpenai?: true
}

const prefixed =
  (prefix: string, length: number) =>
  (ids: VendorIds): string =>
    prefix + ids.letters(length)

/** All recorded encrypted reasoning of OpenAI and Azure begins like this. */
const openai = {
  model: 'gpt-5.4-mini',
  speaks: { chat: openaiChat, responses: openaiResponses },
  signaturePrefix: 'gAAAA',
} as const

export const VENDORS: readonly Vendor[] = [
  { name: 'openai', ...openai, callId: prefixed('call_', 24) },
  {
    name: 'azure-openai',
    ...openai,
    env: { AZURE_OPENAI_ENDPOINT: 'https://azure-openai.test', AZURE_OPENAI_MODELS: 'gpt-5.4-mini' },
    callId: prefixed('call_', 24),
  },
  {
    name: 'anthropic',
    model: 'claude-sonnet-4-5',
    speaks: { messages: anthropic },
    callId: prefixed('toolu_01', 22),
  },
  {
    name: 'bedrock',
    model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    // Converse; Anthropic's own format is that of the vendor before.
    env: { BEDROCK_REGION: 'us-east-1', BEDROCK_STYLES: 'bedrock' },
    speaks: { converse: bedrock },
    callId: prefixed('tooluse_', 22),
  },
  { name: 'gemini', model: 'gemini-3-pro-preview', speaks: { gemini } },
  { name: 'mistral', model: 'magistral-medium-latest', speaks: { mistral: chat.mistral }, callId: prefixed('', 9) },
  {
    name: 'groq',
    model: 'openai/gpt-oss-120b',
    speaks: { chat: chat.groq },
    thinksIn: ['reasoning'],
    callId: prefixed('fc_', 36),
    lacks: ['pictures'],
  },
  {
    name: 'xai',
    model: 'grok-4.3',
    speaks: { chat: chat.xai, responses: xaiResponses },
    thinksIn: ['reasoning_content'],
    callId: prefixed('call_', 8),
  },
  {
    name: 'deepseek',
    model: 'deepseek-v4-flash',
    speaks: { chat: chat.deepseek, responses: deepseekResponses },
    thinksIn: ['reasoning_content'],
    callId: prefixed('call_00_', 24),
    lacks: ['pictures'],
  },
  {
    name: 'openrouter',
    model: 'anthropic/claude-sonnet-4.5',
    speaks: { chat: { ...chat.anyChat, ...openrouterLimits } },
    thinksIn: ['reasoning', 'reasoning_details'],
    callId: prefixed('toolu_01', 22),
  },
  {
    name: 'together',
    model: 'openai/gpt-oss-120b',
    speaks: { chat: { ...chat.anyChat, ...chat.noImages } },
    thinksIn: ['reasoning'],
    // Ids of Moonshot's models, which several hosts return unchanged.
    callId: (ids, name) => `functions.${name}:${ids.count()}`,
    lacks: ['pictures'],
  },
  {
    name: 'fireworks',
    model: 'accounts/fireworks/models/minimax-m3',
    speaks: { chat: chat.fireworks },
    thinksIn: ['reasoning_content'],
    callId: prefixed('call_', 24),
  },
  {
    name: 'cerebras',
    model: 'gpt-oss-120b',
    speaks: { chat: chat.cerebras },
    thinksIn: ['reasoning'],
    callId: prefixed('', 9),
    lacks: ['pictures'],
  },
  {
    name: 'cohere',
    model: 'command-a-plus-05-2026',
    speaks: { cohere: chat.cohere },
    callId: (ids, name) => `${name}_${ids.letters(12)}`,
  },
  { name: 'perplexity', model: 'sonar-pro', speaks: { chat: chat.perplexity }, lacks: ['tools'] },
  {
    name: 'vllm',
    model: 'mistral-small',
    env: { VLLM_BASE_URL: 'https://vllm.test/v1', VLLM_MODELS: 'mistral-small' },
    speaks: { chat: chat.vllm },
    thinksIn: ['reasoning_content'],
    callId: prefixed('chatcmpl-tool-', 32),
  },
  {
    name: 'ollama',
    model: 'qwen3-vl',
    env: { OLLAMA_BASE_URL: 'https://ollama.test', OLLAMA_MODELS: 'qwen3-vl' },
    speaks: { ollama: chat.ollama },
    callId: prefixed('call_', 8),
  },
  {
    name: 'zai',
    model: 'glm-4.7',
    speaks: { chat: { ...chat.anyChat, ...zaiLimits } },
    thinksIn: ['reasoning_content'],
    callId: prefixed('call_', 20),
    lacks: ['schemas', 'pictures'],
    meetsOpenai: true,
  },
  {
    name: 'moonshot',
    model: 'kimi-k2.6',
    speaks: { chat: { ...chat.anyChat, ...moonshotLimits } },
    thinksIn: ['reasoning_content'],
    callId: (ids, name) => `${name}:${ids.count()}`,
    meetsOpenai: true,
  },
  {
    name: 'alibaba',
    model: 'qwen3.5-plus',
    speaks: { chat: { ...chat.anyChat, ...alibabaLimits } },
    thinksIn: ['reasoning_content'],
    callId: prefixed('call_', 22),
    lacks: ['schemas'],
    meetsOpenai: true,
  },
]

/** Accepts every request. The last target of every conversation. */
export const LENIENT: Vendor = {
  name: 'lenient',
  model: 'any',
  env: { LENIENT_BASE_URL: 'https://lenient.test/v1', LENIENT_MODELS: 'any' },
  speaks: { chat: {} },
  thinksIn: ['reasoning_content'],
  callId: prefixed('call_', 24),
}

/** The prefix of a vendor's environment variables. */
export const variable = (name: string): string => name.toUpperCase().replaceAll('-', '_')

/** The wire format of a request to a vendor, by its path. */
export const wireOf = (vendor: Vendor, path: string): Wire => {
  const native = path.endsWith('/chat/completions') && vendor.speaks.mistral ? 'mistral' : undefined
  const found = native ?? PATHS.find(([pattern]) => pattern.test(path))?.[1]
  if (!found || !vendor.speaks[found]) throw new Error(`${vendor.name} has nothing at ${path}`)
  return found
}

const PATHS: readonly (readonly [RegExp, Wire])[] = [
  [/\/chat\/completions$/, 'chat'],
  [/\/responses$/, 'responses'],
  [/\/messages$/, 'messages'],
  [/\/converse(?:-stream)?$/, 'converse'],
  [/:(?:g|streamG)enerateContent$/, 'gemini'],
  [/\/v2\/chat$/, 'cohere'],
  [/\/api\/chat$/, 'ollama'],
]

/** The response of a fake vendor. `refusedBy`: the name of the refusing rule; absent: it answered. */
export type Result = {
  readonly status: number
  readonly body: JsonObject
  readonly wire: Wire
  readonly refusedBy?: string
  /** The request, preceded by the stored turns of the conversation. */
  readonly received: JsonObject
}

/** One vendor in one conversation, with its generated ids and its stored responses. */
export class FakeVendor {
  readonly vendor: Vendor
  readonly ids: VendorIds
  readonly #stored = new Map<string, readonly JsonObject[]>()

  constructor(vendor: Vendor, ids: VendorIds) {
    this.vendor = vendor
    this.ids = ids
  }

  answer(path: string, body: JsonObject, answer: Answer): Result {
    const wire = wireOf(this.vendor, path)
    const received = this.#withStored(body)
    const context = {
      model: this.vendor.model,
      isOwn: (signature: string) => this.ids.made(signature),
      isStored: (id: string) => this.#stored.has(id),
    }
    for (const [rule, refuses] of Object.entries(this.vendor.speaks[wire] ?? {})) {
      const refusal = refuses(received, context)
      if (refusal) return { ...refusal, wire, refusedBy: rule, received }
    }
    const answered = wires[wire](answer, this.vendor, this.ids, body)
    if (wire === 'responses' && body.store !== false) this.#store(answered, received)
    return { status: 200, body: answered, wire, received }
  }

  #withStored(body: JsonObject): JsonObject {
    const before = this.#stored.get(text(body.previous_response_id) ?? '')
    return before ? { ...body, input: [...before, ...itemsOf(body)] } : body
  }

  #store(response: JsonObject, received: JsonObject): void {
    const output = list(response.output).filter(isObject)
    this.#stored.set(text(response.id) ?? '', [...itemsOf(received), ...output])
    for (const item of output) this.#stored.set(text(item.id) ?? '', [])
  }
}

const itemsOf = ({ input }: JsonObject): readonly JsonObject[] =>
  typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : list(input).filter(isObject)
