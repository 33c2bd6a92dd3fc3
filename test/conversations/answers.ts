/** The scripted answer of a model, in each wire format. */
import type { Json, JsonObject } from '../../src/core/json.ts'
import { list } from '../../src/core/json.ts'
import type { Vendor } from './vendors.ts'

/** The scripted answer, independent of the vendor. */
export type Answer = {
  readonly thought: string
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly arguments: JsonObject }[]
}

export type Wire = 'chat' | 'responses' | 'messages' | 'converse' | 'gemini' | 'mistral' | 'cohere' | 'ollama'

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** Generates unique ids and signatures for one vendor, and records the signatures. */
export class VendorIds {
  readonly #slug: string
  readonly signatures = new Set<string>()
  readonly #ids = new Set<string>()
  #number = 0

  constructor(vendor: string) {
    this.#slug = vendor.replaceAll('-', '')
  }

  count(): number {
    return this.#number++
  }

  /** Returns a unique text of this many letters and digits. */
  letters(length: number): string {
    let state = 1
    for (const letter of `${this.#slug}:${this.count()}`) state = (state * 31 + letter.charCodeAt(0)) % 2_147_483_647
    let letters = ''
    while (letters.length < length) {
      state = (state * 48_271) % 2_147_483_647
      letters += LETTERS[state % LETTERS.length]
    }
    return letters
  }

  /** A reasoning signature, or encrypted reasoning. `prefix`: the beginning of all those of the vendor. */
  signature(prefix = ''): string {
    const signature = prefix + Buffer.from(`sealed by ${this.#slug} ${this.letters(40)}`).toString('base64')
    this.signatures.add(signature)
    return signature
  }

  /** The id of a reasoning item, which is valid at this vendor only. */
  reasoningId(): string {
    const id = `rs_${this.letters(32)}`
    this.signatures.add(id)
    return id
  }

  /** The id of a call that requires the reasoning item before it. */
  callItemId(): string {
    const id = `fc_${this.letters(32)}`
    this.#ids.add(id)
    return id
  }

  made(value: string): boolean {
    return this.signatures.has(value) || this.#ids.has(value)
  }
}

type Write = (answer: Answer, vendor: Vendor, ids: VendorIds, request: JsonObject) => JsonObject

const CREATED = 1_790_000_000

const called = ({ calls = [] }: Answer): boolean => calls.length > 0

/** The calls, each with an id in the vendor's form (empty if its calls have none) and its arguments as JSON text. */
const numbered = ({ calls = [] }: Answer, { callId }: Vendor, ids: VendorIds) =>
  calls.map((call) => ({ ...call, id: callId?.(ids, call.name) ?? '', json: JSON.stringify(call.arguments) }))

const chatCalls = (answer: Answer, vendor: Vendor, ids: VendorIds): JsonObject[] =>
  numbered(answer, vendor, ids).map(({ id, name, json }) => ({
    id,
    type: 'function',
    function: { name, arguments: json },
  }))

const chatCompletion = (answer: Answer, { model }: Vendor, ids: VendorIds, message: JsonObject): JsonObject => ({
  id: `chatcmpl-${ids.letters(24)}`,
  object: 'chat.completion',
  created: CREATED,
  model,
  choices: [{ index: 0, message, logprobs: null, finish_reason: called(answer) ? 'tool_calls' : 'stop' }],
  usage: { prompt_tokens: 40, completion_tokens: 20, total_tokens: 60 },
})

const chat: Write = (answer, vendor, ids) => {
  const thoughts: { [member: string]: Json } = {}
  for (const member of vendor.thinksIn ?? [])
    thoughts[member] =
      member === 'reasoning_details'
        ? [
            {
              type: 'reasoning.text',
              text: answer.thought,
              signature: ids.signature(),
              format: 'anthropic-claude-v1',
              index: 0,
            },
          ]
        : answer.thought
  return chatCompletion(answer, vendor, ids, {
    role: 'assistant',
    content: answer.text ?? null,
    refusal: null,
    ...thoughts,
    ...(called(answer) && { tool_calls: chatCalls(answer, vendor, ids) }),
  })
}

const mistral: Write = (answer, vendor, ids) =>
  chatCompletion(answer, vendor, ids, {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: [{ type: 'text', text: answer.thought }] },
      ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ],
    tool_calls: called(answer) ? chatCalls(answer, vendor, ids) : null,
  })

/** OpenAI and xAI return encrypted reasoning and a summary; DeepSeek returns plain text. */
const responses: Write = (answer, vendor, ids, request) => {
  const open = vendor.name === 'deepseek'
  const isEncrypted = list(request.include).includes('reasoning.encrypted_content')
  return {
    id: `resp_${ids.letters(32)}`,
    object: 'response',
    created_at: CREATED,
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: vendor.model,
    output: [
      {
        type: 'reasoning',
        id: ids.reasoningId(),
        summary: open ? [] : [{ type: 'summary_text', text: answer.thought }],
        ...(open && { content: [{ type: 'reasoning_text', text: answer.thought }] }),
        ...(isEncrypted && !open && { encrypted_content: ids.signature(vendor.signaturePrefix) }),
      },
      ...(answer.text === undefined
        ? []
        : [
            {
              type: 'message',
              id: `msg_${ids.letters(32)}`,
              status: 'completed',
              role: 'assistant',
              content: [{ type: 'output_text', text: answer.text, annotations: [], logprobs: [] }],
            },
          ]),
      ...numbered(answer, vendor, ids).map(({ id, name, json }) => ({
        type: 'function_call',
        id: ids.callItemId(),
        status: 'completed',
        call_id: id,
        name,
        arguments: json,
      })),
    ],
    parallel_tool_calls: true,
    previous_response_id: request.previous_response_id ?? null,
    store: request.store ?? true,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    usage: {
      input_tokens: 40,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 20,
      output_tokens_details: { reasoning_tokens: 10 },
      total_tokens: 60,
    },
    metadata: {},
  }
}

const messages: Write = (answer, vendor, ids) => ({
  id: `msg_${ids.letters(24)}`,
  type: 'message',
  role: 'assistant',
  model: vendor.model,
  content: [
    { type: 'thinking', thinking: answer.thought, signature: ids.signature() },
    ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ...numbered(answer, vendor, ids).map(({ id, name, arguments: input }) => ({ type: 'tool_use', id, name, input })),
  ],
  stop_reason: called(answer) ? 'tool_use' : 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 40, output_tokens: 20 },
})

const converse: Write = (answer, vendor, ids) => ({
  output: {
    message: {
      role: 'assistant',
      content: [
        { reasoningContent: { reasoningText: { text: answer.thought, signature: ids.signature() } } },
        ...(answer.text === undefined ? [] : [{ text: answer.text }]),
        ...numbered(answer, vendor, ids).map(({ id, name, arguments: input }) => ({
          toolUse: { toolUseId: id, name, input },
        })),
      ],
    },
  },
  stopReason: called(answer) ? 'tool_use' : 'end_turn',
  usage: { inputTokens: 40, outputTokens: 20, totalTokens: 60 },
  metrics: { latencyMs: 1 },
})

/** Of parallel calls only the first is signed. Without calls the text is signed. */
const gemini: Write = (answer, vendor, ids) => ({
  candidates: [
    {
      content: {
        role: 'model',
        parts: [
          { text: answer.thought, thought: true },
          ...(answer.text === undefined
            ? []
            : [{ text: answer.text, ...(!called(answer) && { thoughtSignature: ids.signature() }) }]),
          ...(answer.calls ?? []).map(({ name, arguments: args }, index) => ({
            functionCall: { name, args },
            ...(index === 0 && { thoughtSignature: ids.signature() }),
          })),
        ],
      },
      finishReason: 'STOP',
      index: 0,
    },
  ],
  usageMetadata: { promptTokenCount: 40, candidatesTokenCount: 10, thoughtsTokenCount: 10, totalTokenCount: 60 },
  modelVersion: vendor.model,
  responseId: ids.letters(20),
})

const cohere: Write = (answer, vendor, ids) => ({
  id: ids.letters(24),
  message: {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: answer.thought },
      ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ],
    ...(called(answer) && { tool_calls: chatCalls(answer, vendor, ids) }),
  },
  finish_reason: called(answer) ? 'TOOL_CALL' : 'COMPLETE',
  usage: { tokens: { input_tokens: 40, output_tokens: 20 } },
})

const ollama: Write = (answer, vendor, ids) => ({
  model: vendor.model,
  created_at: '2026-11-21T12:00:00.123456Z',
  message: {
    role: 'assistant',
    content: answer.text ?? '',
    thinking: answer.thought,
    ...(called(answer) && {
      tool_calls: numbered(answer, vendor, ids).map(({ id, name, arguments: given }) => ({
        id,
        function: { name, arguments: given },
      })),
    }),
  },
  done: true,
  done_reason: 'stop',
  prompt_eval_count: 40,
  eval_count: 20,
})

export const wires: { readonly [wire in Wire]: Write } = {
  chat,
  responses,
  messages,
  converse,
  gemini,
  mistral,
  cohere,
  ollama,
}
