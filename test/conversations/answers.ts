/** A scripted turn of a model, as each wire format returns it. */
import type { Json, JsonObject } from '../../src/core/json.ts'
import { list } from '../../src/core/json.ts'
import type { Vendor } from './vendors.ts'

/** What a model answers, whatever the vendor. */
export type Answer = {
  readonly thought: string
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly arguments: JsonObject }[]
}

export type Wire = 'chat' | 'responses' | 'messages' | 'converse' | 'gemini' | 'mistral' | 'cohere' | 'ollama'

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** Makes a vendor's ids and seals, all different, and remembers the seals. */
export class Mint {
  readonly #slug: string
  readonly seals = new Set<string>()
  readonly #ids = new Set<string>()
  #number = 0

  constructor(vendor: string) {
    this.#slug = vendor.replaceAll('-', '')
  }

  count(): number {
    return this.#number++
  }

  /** So many letters and digits, never the same twice. */
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

  /** A signature, or the sealed form of a thought; `prefix`: how those of its maker begin. */
  seal(prefix = ''): string {
    const seal = prefix + Buffer.from(`sealed by ${this.#slug} ${this.letters(40)}`).toString('base64')
    this.seals.add(seal)
    return seal
  }

  /** The id of a reasoning item, which no other vendor knows. */
  reasoningId(): string {
    const id = `rs_${this.letters(32)}`
    this.seals.add(id)
    return id
  }

  /** The id of a call that needs the reasoning before it. */
  callItemId(): string {
    const id = `fc_${this.letters(32)}`
    this.#ids.add(id)
    return id
  }

  made(seal: string): boolean {
    return this.seals.has(seal) || this.#ids.has(seal)
  }
}

type Write = (answer: Answer, vendor: Vendor, mint: Mint, request: JsonObject) => JsonObject

const CREATED = 1_790_000_000

const called = ({ calls = [] }: Answer): boolean => calls.length > 0

/** Calls with the ids of the vendor. */
const numbered = ({ calls = [] }: Answer, { callId }: Vendor, mint: Mint) =>
  calls.map((call) => ({ ...call, id: callId?.(mint, call.name) ?? '', json: JSON.stringify(call.arguments) }))

const chatCalls = (answer: Answer, vendor: Vendor, mint: Mint): JsonObject[] =>
  numbered(answer, vendor, mint).map(({ id, name, json }) => ({
    id,
    type: 'function',
    function: { name, arguments: json },
  }))

const chatCompletion = (answer: Answer, { model }: Vendor, mint: Mint, message: JsonObject): JsonObject => ({
  id: `chatcmpl-${mint.letters(24)}`,
  object: 'chat.completion',
  created: CREATED,
  model,
  choices: [{ index: 0, message, logprobs: null, finish_reason: called(answer) ? 'tool_calls' : 'stop' }],
  usage: { prompt_tokens: 40, completion_tokens: 20, total_tokens: 60 },
})

const chat: Write = (answer, vendor, mint) => {
  const thoughts: { [member: string]: Json } = {}
  for (const member of vendor.thinksIn ?? [])
    thoughts[member] =
      member === 'reasoning_details'
        ? [
            {
              type: 'reasoning.text',
              text: answer.thought,
              signature: mint.seal(),
              format: 'anthropic-claude-v1',
              index: 0,
            },
          ]
        : answer.thought
  return chatCompletion(answer, vendor, mint, {
    role: 'assistant',
    content: answer.text ?? null,
    refusal: null,
    ...thoughts,
    ...(called(answer) && { tool_calls: chatCalls(answer, vendor, mint) }),
  })
}

const mistral: Write = (answer, vendor, mint) =>
  chatCompletion(answer, vendor, mint, {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: [{ type: 'text', text: answer.thought }] },
      ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ],
    tool_calls: called(answer) ? chatCalls(answer, vendor, mint) : null,
  })

/** OpenAI and xAI seal reasoning and show a summary; DeepSeek shows the thoughts and seals nothing. */
const responses: Write = (answer, vendor, mint, request) => {
  const open = vendor.name === 'deepseek'
  const sealed = list(request.include).includes('reasoning.encrypted_content')
  return {
    id: `resp_${mint.letters(32)}`,
    object: 'response',
    created_at: CREATED,
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: vendor.model,
    output: [
      {
        type: 'reasoning',
        id: mint.reasoningId(),
        summary: open ? [] : [{ type: 'summary_text', text: answer.thought }],
        ...(open && { content: [{ type: 'reasoning_text', text: answer.thought }] }),
        ...(sealed && !open && { encrypted_content: mint.seal(vendor.sealPrefix) }),
      },
      ...(answer.text === undefined
        ? []
        : [
            {
              type: 'message',
              id: `msg_${mint.letters(32)}`,
              status: 'completed',
              role: 'assistant',
              content: [{ type: 'output_text', text: answer.text, annotations: [], logprobs: [] }],
            },
          ]),
      ...numbered(answer, vendor, mint).map(({ id, name, json }) => ({
        type: 'function_call',
        id: mint.callItemId(),
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

const messages: Write = (answer, vendor, mint) => ({
  id: `msg_${mint.letters(24)}`,
  type: 'message',
  role: 'assistant',
  model: vendor.model,
  content: [
    { type: 'thinking', thinking: answer.thought, signature: mint.seal() },
    ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ...numbered(answer, vendor, mint).map(({ id, name, arguments: input }) => ({ type: 'tool_use', id, name, input })),
  ],
  stop_reason: called(answer) ? 'tool_use' : 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 40, output_tokens: 20 },
})

const converse: Write = (answer, vendor, mint) => ({
  output: {
    message: {
      role: 'assistant',
      content: [
        { reasoningContent: { reasoningText: { text: answer.thought, signature: mint.seal() } } },
        ...(answer.text === undefined ? [] : [{ text: answer.text }]),
        ...numbered(answer, vendor, mint).map(({ id, name, arguments: input }) => ({
          toolUse: { toolUseId: id, name, input },
        })),
      ],
    },
  },
  stopReason: called(answer) ? 'tool_use' : 'end_turn',
  usage: { inputTokens: 40, outputTokens: 20, totalTokens: 60 },
  metrics: { latencyMs: 1 },
})

/** Of parallel calls only the first is signed; without calls the text is. */
const gemini: Write = (answer, vendor, mint) => ({
  candidates: [
    {
      content: {
        role: 'model',
        parts: [
          { text: answer.thought, thought: true },
          ...(answer.text === undefined
            ? []
            : [{ text: answer.text, ...(!called(answer) && { thoughtSignature: mint.seal() }) }]),
          ...(answer.calls ?? []).map(({ name, arguments: args }, index) => ({
            functionCall: { name, args },
            ...(index === 0 && { thoughtSignature: mint.seal() }),
          })),
        ],
      },
      finishReason: 'STOP',
      index: 0,
    },
  ],
  usageMetadata: { promptTokenCount: 40, candidatesTokenCount: 10, thoughtsTokenCount: 10, totalTokenCount: 60 },
  modelVersion: vendor.model,
  responseId: mint.letters(20),
})

const cohere: Write = (answer, vendor, mint) => ({
  id: mint.letters(24),
  message: {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: answer.thought },
      ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ],
    ...(called(answer) && { tool_calls: chatCalls(answer, vendor, mint) }),
  },
  finish_reason: called(answer) ? 'TOOL_CALL' : 'COMPLETE',
  usage: { tokens: { input_tokens: 40, output_tokens: 20 } },
})

const ollama: Write = (answer, vendor, mint) => ({
  model: vendor.model,
  created_at: '2026-11-21T12:00:00.123456Z',
  message: {
    role: 'assistant',
    content: answer.text ?? '',
    thinking: answer.thought,
    ...(called(answer) && {
      tool_calls: numbered(answer, vendor, mint).map(({ id, name, arguments: given }) => ({
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
