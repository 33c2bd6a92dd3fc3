/**
 * The result of each feature at every upstream format, as one table. A cell is one request of a client format, encoded for
 * an upstream:
 *
 *   c  carried without a loss
 *   l  carried, and another part is reported as lost
 *   m  carried in another position: system messages move to the front where the format requires it
 *   d  dropped, and reported with the client's path
 *   u  unfit, with the client's path: another target is tried
 *   =  the same format on both sides: passed through
 *   -  the client's format cannot express it
 *
 * Every encoded request is valid by the vendor's published schema, and every reported path exists in the client's body. A
 * feature that is neither carried nor reported fails the test.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ClientProtocolName, UpstreamProtocolName } from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject, object } from '../../src/core/json.ts'
import type { EncodeTarget } from '../../src/core/protocol.ts'
import { protocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { ACCEPTS_ALL } from '../support/accepts-all.ts'
import { problemsIfPresent, requireSchemas, type SchemaName } from '../support/schemas.ts'
import { pathExists } from './request-members.ts'

// ── Upstreams ────────────────────────────────────────────────────────────────────────────────────────────────────

type Upstream = readonly [name: UpstreamProtocolName, target: EncodeTarget, schema: SchemaName, definition: string]

/** Each with a model that supports what the format can express. */
const UPSTREAMS: readonly Upstream[] = [
  [
    'openai-chat',
    { model: 'gpt-5', supportsCustomTools: true, reasons: true, ...ACCEPTS_ALL },
    'openai',
    'CreateChatCompletionRequest',
  ],
  ['openai-responses', { model: 'gpt-5', reasons: true }, 'openai', 'CreateResponse'],
  ['anthropic-messages', { model: 'claude-sonnet-4-5', outputLimit: 64_000 }, 'anthropic', 'BetaCreateMessageParams'],
  ['gemini', { model: 'gemini-3-pro-preview', outputLimit: 64_000 }, 'gemini', 'GenerateContentRequest'],
  [
    'bedrock-converse',
    { model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0', outputLimit: 64_000 },
    'bedrock',
    'ConverseRequest',
  ],
  ['cohere', { model: 'command-a-reasoning-08-2025', outputLimit: 32_000 }, 'cohere', 'Request'],
  ['mistral', { model: 'magistral-medium-latest' }, 'mistral', 'ChatCompletionRequest'],
  ['ollama', { model: 'qwen3' }, 'ollama', 'ChatRequest'],
]

const STYLES = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
] as const satisfies readonly ClientProtocolName[]
type Style = (typeof STYLES)[number]

// ── Features ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A value for each client format. An absent one: the format cannot express the feature. */
type ByStyle<T> = { readonly chat?: T; readonly responses?: T; readonly messages?: T }

/** One feature: the members it adds to a minimal body of each client format. */
type Row = ByStyle<JsonObject> & {
  readonly name: string
  /** Matches the encoded request (JSON without white space) if the feature is carried. */
  readonly carried: RegExp
  /** Matches if it is also in its original position. */
  readonly inPlace?: RegExp
}

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const PDF = 'JVBERi0xLjQKJcOkw7zDtsOfCg=='
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEA'
const TEXT = 'VGhlIHdvcmQgaXMga2l3aS4='
const TEXT_CARRIED = /The word is kiwi\.|VGhlIHdvcmQgaXMga2l3aS4=/
const URL = 'https://h.example/cat.png'

const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const LONG = 'n'.repeat(100)

const hello = {
  chat: [{ role: 'user', content: 'hello' }],
  responses: 'hello',
  messages: [{ role: 'user', content: 'hello' }],
}

/** A content part after a text in a user message. */
const part = (name: string, carried: RegExp, { chat, responses, messages }: ByStyle<Json>): Row => {
  const turn = (text: Json, one: Json): Json => [{ role: 'user', content: [text, one] }]
  return {
    name,
    carried,
    ...(chat && { chat: { messages: turn({ type: 'text', text: 'look' }, chat) } }),
    ...(responses && { responses: { input: turn({ type: 'input_text', text: 'look' }, responses) } }),
    ...(messages && { messages: { messages: turn({ type: 'text', text: 'look' }, messages) } }),
  }
}

const tool = (
  name: string,
  more: JsonObject = {},
): { chat: JsonObject; responses: JsonObject; messages: JsonObject } => ({
  chat: { type: 'function', function: { name, description: 'd', parameters: SCHEMA, ...more } },
  responses: { type: 'function', name, description: 'd', parameters: SCHEMA, strict: false, ...more },
  messages: { name, description: 'd', input_schema: SCHEMA, ...more },
})
const tools = (...all: readonly ReturnType<typeof tool>[]) => ({
  chat: { tools: all.map(({ chat }) => chat) },
  responses: { tools: all.map(({ responses }) => responses) },
  messages: { tools: all.map(({ messages }) => messages) },
})
const TWO = tools(tool('first'), tool('second'))

/** Members beside a one-word user message. */
const members = (name: string, carried: RegExp, styles: ByStyle<JsonObject>): Row => ({ name, carried, ...styles })

/** Members beside two tools. */
const choosing = (name: string, carried: RegExp, { chat, responses, messages }: ByStyle<JsonObject>): Row => ({
  name,
  carried,
  ...(chat && { chat: { ...TWO.chat, ...chat } }),
  ...(responses && { responses: { ...TWO.responses, ...responses } }),
  ...(messages && { messages: { ...TWO.messages, ...messages } }),
})

type ToolCallCase = {
  readonly id: string
  readonly name?: string
  readonly given: string
  readonly result: Json
  readonly failed?: true
}
const chatTurn = (calls: readonly ToolCallCase[]): JsonObject => ({
  messages: [
    message('user', 'hello'),
    {
      role: 'assistant',
      content: null,
      tool_calls: calls.map(({ id, name = 'first', given }) => ({
        id,
        type: 'function',
        function: { name, arguments: given },
      })),
    },
    ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
  ],
})

const responsesTurn = (calls: readonly ToolCallCase[]): JsonObject => ({
  input: [
    message('user', 'hello'),
    ...calls.map(({ id, name = 'first', given }) => ({ type: 'function_call', call_id: id, name, arguments: given })),
    ...calls.map(({ id, result }) => ({
      type: 'function_call_output',
      call_id: id,
      output:
        typeof result === 'string'
          ? result
          : [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'auto' }],
    })),
  ],
})

const messagesTurn = (calls: readonly ToolCallCase[]): JsonObject => ({
  messages: [
    message('user', 'hello'),
    message(
      'assistant',
      calls.map(({ id, name = 'first', given }) => ({ type: 'tool_use', id, name, input: parsed(given) })),
    ),
    message(
      'user',
      calls.map(({ id, result, failed }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: result,
        ...(failed && { is_error: true }),
      })),
    ),
  ],
})

/** Calls of one turn, and their results in the next. */
const toolTurn = (name: string, carried: RegExp, ...calls: readonly ToolCallCase[]): Row => {
  const offered = tools(...[...new Set(calls.map((call) => call.name ?? 'first'))].map((each) => tool(each)))
  const succeeded = calls.every(({ failed }) => !failed)
  const hasTexts = calls.every(({ result }) => typeof result === 'string')
  // The schemas of responses and messages forbid empty ids.
  const hasIds = calls.every(({ id }) => id !== '')
  return {
    name,
    carried,
    ...(succeeded && hasTexts && { chat: { ...offered.chat, ...chatTurn(calls) } }),
    ...(succeeded && hasIds && { responses: { ...offered.responses, ...responsesTurn(calls) } }),
    ...(hasIds && { messages: { ...offered.messages, ...messagesTurn(calls) } }),
  }
}
const parsed = (text: string): Json => {
  try {
    return JSON.parse(text || '{}')
  } catch {
    // Invalid JSON cannot be the input of a messages call.
    return { raw: text }
  }
}

/** A conversation, and members beside it. */
const conversation = (
  name: string,
  carried: RegExp,
  { chat, responses, messages }: ByStyle<Json>,
  more: ByStyle<JsonObject> = {},
): Row => ({
  name,
  carried,
  ...(chat && { chat: { messages: chat, ...more.chat } }),
  ...(responses && { responses: { input: responses, ...more.responses } }),
  ...(messages && { messages: { messages, ...more.messages } }),
})
const message = (role: string, content: Json): JsonObject => ({ role, content })

const image = (url: string, detail?: string) => ({
  chat: { type: 'image_url', image_url: { url, ...(detail && { detail }) } },
  responses: { type: 'input_image', image_url: url, detail: detail ?? 'auto' },
})
const picture = image(`data:image/png;base64,${PNG}`)
const inline = (media_type: string, data: string, type = 'image') => ({
  type,
  source: { type: 'base64', media_type, data },
})
const PNG_CARRIED = /iVBORw0KGgoAAAANSUhEUg/

const ROWS: readonly Row[] = [
  // ── Media ──────────────────────────────────────────────────────────────────────────────────────────────────────
  part('image, data', PNG_CARRIED, {
    chat: picture.chat,
    responses: picture.responses,
    messages: inline('image/png', PNG),
  }),
  part('image, data without a type', PNG_CARRIED, {
    chat: image(`data:;base64,${PNG}`).chat,
    responses: image(`data:;base64,${PNG}`).responses,
  }),
  part('image, data with parameters', PNG_CARRIED, {
    chat: image(`data:image/png;name=a;charset=x;base64,${PNG}`).chat,
    responses: image(`data:image/png;name=a;charset=x;base64,${PNG}`).responses,
  }),
  part('image, URL', /h\.example/, {
    chat: image(URL).chat,
    responses: image(URL).responses,
    messages: {
      type: 'image',
      source: { type: 'url', url: URL },
    },
  }),
  part('image, detail', /"detail":"low"|"mediaResolution"|MEDIA_RESOLUTION_LOW/, {
    chat: image(`data:image/png;base64,${PNG}`, 'low').chat,
    responses: image(`data:image/png;base64,${PNG}`, 'low').responses,
  }),
  part('image, file id', /file-abc/, {
    responses: { type: 'input_image', file_id: 'file-abc', detail: 'auto' },
    messages: { type: 'image', source: { type: 'file', file_id: 'file-abc' } },
  }),
  part('PDF, data', /JVBERi0xLjQK/, {
    chat: { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` } },
    responses: { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
    messages: inline('application/pdf', PDF, 'document'),
  }),
  part('PDF, URL', /h\.example/, {
    responses: { type: 'input_file', file_url: 'https://h.example/a.pdf' },
    messages: { type: 'document', source: { type: 'url', url: 'https://h.example/a.pdf' } },
  }),
  part('text document', TEXT_CARRIED, {
    chat: { type: 'file', file: { filename: 'a.txt', file_data: `data:text/plain;base64,${TEXT}` } },
    responses: { type: 'input_file', filename: 'a.txt', file_data: `data:text/plain;base64,${TEXT}` },
    messages: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'The word is kiwi.' } },
  }),
  part('file id', /file-abc/, {
    chat: { type: 'file', file: { file_id: 'file-abc' } },
    responses: { type: 'input_file', file_id: 'file-abc' },
    messages: { type: 'document', source: { type: 'file', file_id: 'file-abc' } },
  }),
  part('audio, wav', /UklGRiQAAABXQVZF/, {
    chat: { type: 'input_audio', input_audio: { data: WAV, format: 'wav' } },
    responses: { type: 'input_audio', input_audio: { data: WAV, format: 'wav' } },
  }),
  part('audio, mp3', /SUQzBAAAAAAA/, {
    chat: { type: 'input_audio', input_audio: { data: 'SUQzBAAAAAAA', format: 'mp3' } },
    responses: { type: 'input_audio', input_audio: { data: 'SUQzBAAAAAAA', format: 'mp3' } },
  }),
  toolTurn('image in a result', PNG_CARRIED, {
    id: 'call_1',
    given: '{"city":"Bern"}',
    result: [inline('image/png', PNG)],
  }),

  // ── Calls and results ──────────────────────────────────────────────────────────────────────────────────────────
  toolTurn(
    'parallel calls',
    /Bern.*Rome/,
    { id: 'call_1', given: '{"city":"Bern"}', result: 'one' },
    { id: 'call_2', given: '{"city":"Rome"}', result: 'two' },
  ),
  toolTurn('a failed result', /"is_error":true|"status":"error"|[Ee]rror/, {
    id: 'call_1',
    given: '{"city":"Bern"}',
    result: 'no',
    failed: true,
  }),
  toolTurn('a call id with special characters', /Bern/, { id: 'call é/|1:2', given: '{"city":"Bern"}', result: 'one' }),
  toolTurn('a call id of 200 characters', /Bern/, { id: 'i'.repeat(200), given: '{"city":"Bern"}', result: 'one' }),
  toolTurn(
    'an empty call id',
    /Bern/,
    { id: '', given: '{"city":"Rome"}', result: 'two' },
    { id: '', given: '{"city":"Bern"}', result: 'one' },
  ),
  toolTurn('a tool name with dots', /Bern/, {
    id: 'call_1',
    name: 'files.read',
    given: '{"city":"Bern"}',
    result: 'one',
  }),
  toolTurn('a tool name of 100 characters', /Bern/, {
    id: 'call_1',
    name: LONG,
    given: '{"city":"Bern"}',
    result: 'one',
  }),
  toolTurn('no arguments', /first/, { id: 'call_1', given: '', result: 'one' }),
  toolTurn('arguments that are invalid JSON', /Bern/, { id: 'call_1', given: '{"city":"Bern', result: 'one' }),

  // ── Tools ──────────────────────────────────────────────────────────────────────────────────────────────────────
  members('custom tool', /sqlite/, {
    chat: { tools: [{ type: 'custom', custom: { name: 'sqlite', description: 'd' } }] },
    responses: { tools: [{ type: 'custom', name: 'sqlite', description: 'd' }] },
  }),
  choosing('tool choice: required', /"required"|"any"|"ANY"|"REQUIRED"/, {
    chat: { tool_choice: 'required' },
    responses: { tool_choice: 'required' },
    messages: { tool_choice: { type: 'any' } },
  }),
  choosing(
    'tool choice: one tool',
    /(?:toolChoice|tool_choice|allowedFunctionNames)".{0,60}"second"|^(?!.*"first").*"second"/,
    {
      chat: { tool_choice: { type: 'function', function: { name: 'second' } } },
      responses: { tool_choice: { type: 'function', name: 'second' } },
      messages: { tool_choice: { type: 'tool', name: 'second' } },
    },
  ),
  choosing('tool choice: allowed tools', /allowed_tools|allowedFunctionNames":\["second"|^(?!.*"first").*"second"/, {
    chat: {
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'second' } }] },
      },
    },
    responses: { tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'second' }] } },
  }),
  choosing('tool choice: none', /"none"|"NONE"|^(?!.*"first")/, {
    chat: { tool_choice: 'none' },
    responses: { tool_choice: 'none' },
    messages: { tool_choice: { type: 'none' } },
  }),
  choosing('no parallel calls', /"parallel_tool_calls":false|"disable_parallel_tool_use":true/, {
    chat: { parallel_tool_calls: false },
    responses: { parallel_tool_calls: false },
    messages: { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
  }),
  members('strict tool', /"strict":true|"strict_tools":true|"VALIDATED"/, {
    chat: tools(tool('first', { strict: true })).chat,
    responses: tools(tool('first', { strict: true })).responses,
    messages: tools(tool('first', { strict: true })).messages,
  }),

  // ── Form of the answer ─────────────────────────────────────────────────────────────────────────────────────────
  members('JSON mode', /"json_object"|"application\/json"|"format":"json"|valid JSON object/, {
    chat: { response_format: { type: 'json_object' }, messages: [message('user', 'JSON')] },
    responses: { text: { format: { type: 'json_object' } }, input: 'JSON' },
  }),
  members('structured output', /"city\\?"/, {
    chat: { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA, strict: true } } },
    responses: { text: { format: { type: 'json_schema', name: 'a', schema: SCHEMA, strict: true } } },
    messages: { output_config: { format: { type: 'json_schema', schema: SCHEMA } } },
  }),
  members('stop', /STOPWORD/, { chat: { stop: ['STOPWORD'] }, messages: { stop_sequences: ['STOPWORD'] } }),
  members('two choices', /"n":2|"candidateCount":2/, { chat: { n: 2 } }),
  members('seed', /4711/, { chat: { seed: 4711 } }),
  members('log probabilities', /"logprobs":true|"responseLogprobs":true|output_text\.logprobs/, {
    chat: { logprobs: true },
    responses: { include: ['message.output_text.logprobs'] },
  }),
  members('token limit', /1234/, {
    chat: { max_completion_tokens: 1234 },
    responses: { max_output_tokens: 1234 },
    messages: { max_tokens: 1234 },
  }),
  members('temperature above 1', /"temperature":/, { chat: { temperature: 1.5 }, responses: { temperature: 1.5 } }),

  // ── Reasoning ──────────────────────────────────────────────────────────────────────────────────────────────────
  members('reasoning effort', /effort|thinking|"think"/i, {
    chat: { reasoning_effort: 'high' },
    responses: { reasoning: { effort: 'high' } },
    messages: { output_config: { effort: 'high' } },
  }),
  members('reasoning budget', /4321|effort|thinking|"think"/i, {
    messages: {
      thinking: { type: 'enabled', budget_tokens: 4321 },
      max_tokens: 9000,
    },
  }),
  conversation(
    // The signature is valid for its provider only; the text may be carried.
    'reasoning signed by Claude',
    /U0lHTkVE|"hm"/,
    {
      chat: [
        message('user', 'hello'),
        {
          role: 'assistant',
          content: 'hi',
          reasoning_details: [
            { type: 'reasoning.text', text: 'hm', signature: 'U0lHTkVE', format: 'anthropic-claude-v1', index: 0 },
          ],
        },
        message('user', 'go on'),
      ],
      messages: [
        message('user', 'hello'),
        message('assistant', [
          { type: 'thinking', thinking: 'hm', signature: 'U0lHTkVE' },
          { type: 'text', text: 'hi' },
        ]),
        message('user', 'go on'),
      ],
    },
  ),
  conversation('reasoning encrypted by OpenAI', /U0VBTEVE/, {
    chat: [
      message('user', 'hello'),
      {
        role: 'assistant',
        content: 'hi',
        reasoning_details: [
          { type: 'reasoning.encrypted', data: 'U0VBTEVE', id: 'rs_1', format: 'openai-responses-v1', index: 0 },
        ],
      },
      message('user', 'go on'),
    ],
    responses: [
      message('user', 'hello'),
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'U0VBTEVE' },
      {
        type: 'message',
        id: 'msg_1',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'hi', annotations: [] }],
      },
      message('user', 'go on'),
    ],
  }),
  conversation('reasoning signed by Gemini', /R0VNSU5J/, {
    chat: [
      message('user', 'hello'),
      {
        role: 'assistant',
        content: 'hi',
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'R0VNSU5J', format: 'google-gemini-v1', index: 0 }],
      },
      message('user', 'go on'),
    ],
  }),
  conversation('unsigned reasoning', /ponder/, {
    chat: [
      message('user', 'hello'),
      { role: 'assistant', content: 'hi', reasoning_content: 'ponder' },
      message('user', 'go on'),
    ],
  }),

  // ── Turns ──────────────────────────────────────────────────────────────────────────────────────────────────────
  conversation('an earlier refusal', /I will not/, {
    chat: [
      message('user', 'hello'),
      { role: 'assistant', content: null, refusal: 'I will not' },
      message('user', 'why'),
    ],
    responses: [
      message('user', 'hello'),
      {
        type: 'message',
        id: 'msg_1',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'refusal', refusal: 'I will not' }],
      },
      message('user', 'why'),
    ],
  }),
  {
    ...conversation('a system message in the middle', /MIDWAY/, {
      chat: [
        message('user', 'hello'),
        message('assistant', 'hi'),
        message('system', 'MIDWAY'),
        message('user', 'go on'),
      ],
      responses: [
        message('user', 'hello'),
        message('assistant', 'hi'),
        message('system', 'MIDWAY'),
        message('user', 'go on'),
      ],
    }),
    inPlace: /"hi".*MIDWAY.*go on/,
  },
  conversation('a system message alone', /ALONE/, {
    chat: [message('system', 'ALONE')],
    responses: [message('system', 'ALONE')],
  }),
  conversation(
    'a system message in front',
    /FRONT/,
    {
      chat: [message('system', 'FRONT'), message('user', 'hello')],
      responses: [message('system', 'FRONT'), message('user', 'hello')],
      messages: [message('user', 'hello')],
    },
    { messages: { system: 'FRONT' } },
  ),
  conversation('prefill', /BEGUN/, {
    chat: [message('user', 'hello'), message('assistant', 'BEGUN')],
    responses: [message('user', 'hello'), message('assistant', 'BEGUN')],
    messages: [message('user', 'hello'), message('assistant', 'BEGUN')],
  }),
  conversation('assistant message first', /BEGUN/, {
    chat: [message('assistant', 'BEGUN'), message('user', 'hello')],
    responses: [message('assistant', 'BEGUN'), message('user', 'hello')],
    messages: [message('assistant', 'BEGUN'), message('user', 'hello')],
  }),
  conversation('an empty text', /kiwi/, {
    chat: [
      message('user', [
        { type: 'text', text: '' },
        { type: 'text', text: 'kiwi' },
      ]),
    ],
    responses: [
      message('user', [
        { type: 'input_text', text: '' },
        { type: 'input_text', text: 'kiwi' },
      ]),
    ],
    messages: [
      message('user', [
        { type: 'text', text: '' },
        { type: 'text', text: 'kiwi' },
      ]),
    ],
  }),
  conversation('two user messages', /APPLE.*PEAR/, {
    chat: [message('user', 'APPLE'), message('user', 'PEAR')],
    responses: [message('user', 'APPLE'), message('user', 'PEAR')],
    messages: [message('user', 'APPLE'), message('user', 'PEAR')],
  }),
  conversation('a message name', /"alice"/, { chat: [{ ...message('user', 'hello'), name: 'alice' }] }),

  // ── Others ─────────────────────────────────────────────────────────────────────────────────────────────────────
  members('metadata', /tracing/, {
    chat: { metadata: { trace: 'tracing' } },
    responses: { metadata: { trace: 'tracing' } },
  }),
  members('user', /"alice"/, {
    chat: { user: 'alice' },
    responses: { user: 'alice' },
    messages: { metadata: { user_id: 'alice' } },
  }),
  members('service tier', /"flex"/i, { chat: { service_tier: 'flex' }, responses: { service_tier: 'flex' } }),
  members('stored by the provider', /"store":true/, { chat: { store: true }, responses: { store: true } }),
  members('verbosity', /"verbosity":"low"/, { chat: { verbosity: 'low' }, responses: { text: { verbosity: 'low' } } }),
  members('cache control', /ephemeral|cachePoint/, {
    messages: {
      messages: [message('user', [{ type: 'text', text: 'hello', cache_control: { type: 'ephemeral' } }])],
    },
  }),
  members('hosted web search', /web_search|googleSearch/, {
    responses: { tools: [{ type: 'web_search' }] },
    messages: { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
  }),
]

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────

const BASE: { readonly [style in Style]: JsonObject } = {
  'openai-chat': { model: 'm', messages: hello.chat },
  'openai-responses': { model: 'm', input: hello.responses },
  'anthropic-messages': { model: 'm', messages: hello.messages, max_tokens: 1_000 },
}
const OF: { readonly [style in Style]: 'chat' | 'responses' | 'messages' } = {
  'openai-chat': 'chat',
  'openai-responses': 'responses',
  'anthropic-messages': 'messages',
}

const cell = (row: Row, style: Style, [name, target, schema, definition]: Upstream): string => {
  const requested = row[OF[style]]
  if (requested === undefined) return '-'
  if (name === style) return '='
  const body: JsonObject = { ...BASE[style], ...requested }
  const request = protocols[style].decodeRequest(body)
  if (!request.ok) return `refused: ${request.failure.message}`
  const { body: sent, losses } = upstreamProtocols[name].encodeRequest(request.value, target)
  for (const { path: at } of losses) if (!pathExists(body, at)) return `reports ${at}, which is not in the body`
  if (losses.some(({ essential }) => essential)) return 'u'
  const problem = problemsIfPresent(schema, definition, JSON.parse(JSON.stringify(sent)))
  if (problem !== undefined) return `invalid: ${problem}`
  const links = linkProblem(name, sent)
  if (links !== undefined) return links
  const carried = row.carried.test(JSON.stringify(sent))
  if (carried && row.inPlace?.test(JSON.stringify(sent)) === false) return 'm'
  if (carried) return losses.length === 0 ? 'c' : 'l'
  return losses.length === 0 ? 'lost silently' : 'd'
}

/** Collects the ids of calls and results in a request of any format. */
const linksIn = (value: Json | undefined, found: { calls: string[]; results: string[] }): void => {
  if (isList(value)) for (const inner of value) linksIn(inner, found)
  if (!isObject(value)) return
  const { type, id, call_id, tool_call_id, tool_use_id, toolUse, toolResult, functionCall, functionResponse } = value
  const called = [
    isObject(value.function) ? id : undefined,
    type === 'tool_use' ? id : undefined,
    type === 'function_call' ? call_id : undefined,
    object(toolUse)?.toolUseId,
    object(functionCall)?.id,
  ]
  const given = [
    tool_call_id,
    tool_use_id,
    type === 'function_call_output' ? call_id : undefined,
    object(toolResult)?.toolUseId,
    object(functionResponse)?.id,
  ]
  found.calls.push(...called.filter((one) => typeof one === 'string'))
  found.results.push(...given.filter((one) => typeof one === 'string'))
  for (const inner of Object.values(value)) linksIn(inner, found)
}

/** The call ids that each upstream accepts; not all schemas state it. */
const IDS: { readonly [name in UpstreamProtocolName]?: RegExp } = {
  'openai-chat': /^.{1,64}$/,
  'openai-responses': /^.{1,64}$/,
  'anthropic-messages': /^[a-zA-Z0-9_-]+$/,
  'bedrock-converse': /^[a-zA-Z0-9_.:-]{1,64}$/,
  mistral: /^[a-zA-Z0-9]{9}$/,
}

const linkProblem = (name: UpstreamProtocolName, sent: JsonObject): string | undefined => {
  const calls: string[] = []
  const results: string[] = []
  linksIn(sent, { calls, results })
  if (results.join(' ') !== calls.join(' ')) return `calls ${calls.join(' ')}, results ${results.join(' ')}`
  const strange = calls.filter((id) => IDS[name]?.test(id) === false)
  return strange.length > 0 ? `ids ${strange.join(' ')}` : undefined
}

// ── Expected results ─────────────────────────────────────────────────────────────────────────────────────────────

/** Columns: chat, responses, messages, gemini, bedrock, cohere, mistral, ollama; one group each for chat, responses and messages clients. */
const EXPECTED: { readonly [row: string]: string } = {
  // Media. The gateway fetches no URLs (requests would come from the operator's network), so a format without URLs is unfit.
  // File ids belong to one provider and account. Chat has no file URLs, the published responses format has no audio input,
  // Claude no audio; Cohere and Ollama accept no PDF. OpenAI, Cohere and Mistral have `detail`. Gemini has no file names, and
  // Ollama none beside text.
  'image, data': '=ccccccc c=cccccc cc=ccccc',
  'image, data without a type': '=ccccccc c=cccccc --------',
  'image, data with parameters': '=ccccccc c=cccccc --------',
  'image, URL': '=cccuccu c=ccuccu cc=cuccu',
  'image, detail': '=cdddccd c=dddccd --------',
  'image, file id': '-------- u=uuuuuu uu=uuuuu',
  'PDF, data': '=cclcucu c=clcucu cc=ccucu',
  'PDF, URL': '-------- u=ccuucu uc=cuucu',
  'text document': '=cclcccl c=clcccl cc=ccccc',
  'file id': '=cuuuuuu u=uuuuuu uu=uuuuu',
  'audio, wav': '=uuccucu c=uccucu --------',
  'audio, mp3': '=uuccucu c=uccucu --------',
  'image in a result': '-------- c=cccccc cc=ccccc',
  // Calls. Ids and names are mapped to each vendor's rules. A failed result becomes text where the format has no flag. Where
  // the format cannot select one tool or no tool, the request has only that tool, or no tools.
  'parallel calls': '=ccccccc c=cccccc cc=ccccc',
  'a failed result': '-------- -------- cc=ccccc',
  'a call id with special characters': '=ccccccc c=cccccc cc=ccccc',
  'a call id of 200 characters': '=ccccccc c=cccccc cc=ccccc',
  'an empty call id': '=ccccccc -------- --------',
  'a tool name with dots': '=ccccccc c=cccccc cc=ccccc',
  'a tool name of 100 characters': '=ccccccc c=cccccc cc=ccccc',
  'no arguments': '=ccccccc c=cccccc cc=ccccc',
  'arguments that are invalid JSON': '=ccccccc c=cccccc cc=ccccc',
  'custom tool': '=ccccccc c=cccccc --------',
  'tool choice: required': '=ccccccl c=cccccl cc=ccccl',
  'tool choice: one tool': '=cccclcl c=ccclcl cc=cclcl',
  'tool choice: allowed tools': '=cccclcl c=ccclcl --------',
  'tool choice: none': '=ccclccl c=cclccl cc=clccl',
  'no parallel calls': '=ccdddcd c=cdddcd cc=dddcd',
  'strict tool': '=ccccccd c=cccccd cc=ccccd',
  // Output format and sampling. Anthropic and Bedrock have schemas but no JSON mode, so a line of the system prompt requests
  // JSON. Seeds, stop sequences, log probabilities and several choices exist only where they are carried. A temperature
  // above 1 is reduced to the maximum of the format.
  'JSON mode': '=ccccccc c=cccccc --------',
  'structured output': '=ccccccc c=cccccc cc=ccccc',
  stop: '=dcccccc -------- cd=ccccc',
  'two choices': '=uucuucu -------- --------',
  seed: '=ddcdccc -------- --------',
  'log probabilities': '=cdcdcdc c=dcdcdc --------',
  'token limit': '=ccccccc c=cccccc cc=ccccc',
  'temperature above 1': '=clcllcc c=lcllcc --------',
  // Reasoning. A signature is valid for its provider only; text is carried where unsigned reasoning is accepted. A budget
  // becomes an effort, unless the model is known not to reason.
  'reasoning effort': '=ccccccc c=cccccc cc=cdccc',
  'reasoning budget': '-------- -------- cc=cccll',
  'reasoning signed by Claude': '=dcdddcc -------- dd=dddcc',
  'reasoning encrypted by OpenAI': '=cdddddd d=dddddd --------',
  'reasoning signed by Gemini': '=ddcdddd -------- --------',
  'unsigned reasoning': '=ddddccc -------- --------',
  // Turns. Only chat has names on messages.
  'an earlier refusal': '=ccccccc c=cccccc --------',
  'a system message in the middle': '=cmmmmmc c=mmmmmc --------',
  'a system message alone': '=clllllc c=lllllc --------',
  'a system message in front': '=ccccccc c=cccccc cc=ccccc',
  prefill: '=ccccccc c=cccccc cc=ccccc',
  'assistant message first': '=clclccc c=lclccc cc=clccc',
  'an empty text': '=ccccccc c=cccccc cc=ccccc',
  'two user messages': '=ccccccc c=cccccc cc=ccccc',
  'a message name': '=ddddddd -------- --------',
  // Others. Hosted tools run at one provider.
  metadata: '=cddcdcd c=ddcdcd --------',
  user: '=ccddddd c=cddddd cc=ddddd',
  'service tier': '=cddcddd c=ddcddd --------',
  'stored by the provider': '=cdddddd c=dddddd --------',
  verbosity: '=cdddddd c=dddddd --------',
  'cache control': '-------- -------- dd=dcddd',
  'hosted web search': '-------- u=uuuuuu uu=uuuuu',
}

requireSchemas()

describe('portability of', () => {
  for (const row of ROWS)
    test(row.name, () => {
      const found = STYLES.map((style) => UPSTREAMS.map((upstream) => cell(row, style, upstream)))
      const faults = found.flatMap((cells, from) =>
        cells.flatMap((one, to) => (one.length > 1 ? [`${STYLES[from]} to ${UPSTREAMS[to]?.[0]}: ${one}`] : [])),
      )
      assert.deepEqual(faults, [])
      assert.equal(found.map((cells) => cells.join('')).join(' '), EXPECTED[row.name])
    })
  test('every row of the table has a request', () =>
    assert.deepEqual(
      Object.keys(EXPECTED),
      ROWS.map(({ name }) => name),
    ))
})
