/** Example texts in every format: requests, complete and streamed responses, errors. */
import type { ClientProtocolName, UpstreamProtocolName } from '../../src/core/chat.ts'
import type { Json, JsonObject } from '../../src/core/json.ts'
import { answerBody, piecesOf } from '../../test/support/answers.ts'
import { event, exception } from '../../test/support/event-stream.ts'
import type { UpstreamRequest } from '../../test/support/upstream.ts'

const PATHS: { readonly [name in Exclude<UpstreamProtocolName, 'bedrock-converse' | 'mistral'>]: string } = {
  'openai-chat': '/v1/chat/completions',
  'openai-responses': '/v1/responses',
  'anthropic-messages': '/v1/messages',
  gemini: '/v1beta/models/m:generateContent',
  cohere: '/v2/chat',
  ollama: '/api/chat',
}

const requestTo = (path: string, stream: boolean): UpstreamRequest => ({
  number: 0,
  method: 'POST',
  path,
  headers: {},
  body: '{}',
  json: { model: 'm', stream, stream_options: { include_usage: true } },
  model: 'm',
  stream,
  key: undefined,
  connection: 0,
})

const REPLIES = [
  { text: 'Hello, wörld 😀: two\nlines.', input: 12, output: 7 },
  { text: 'I will look.', tools: [{ id: 'call_1', name: 'look_up', arguments: '{"place":"Ulm","n":3}' }] },
  {
    tools: [
      { id: 'call_1', name: 'a', arguments: '{}' },
      { id: 'call_2', name: 'b', arguments: '{"x":[1,2]}' },
    ],
  },
  { text: 'It was cut o', cut: true },
]

const CONVERSE: readonly JsonObject[] = [
  {
    output: { message: { role: 'assistant', content: [{ text: 'Hello, wörld 😀.' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 12, outputTokens: 7, totalTokens: 19, cacheReadInputTokens: 2 },
    metrics: { latencyMs: 200 },
  },
  {
    output: {
      message: {
        role: 'assistant',
        content: [
          { reasoningContent: { reasoningText: { text: 'hm', signature: 's' } } },
          { toolUse: { toolUseId: 't_1', name: 'look_up', input: { place: 'Ulm' } } },
        ],
      },
    },
    stopReason: 'tool_use',
    usage: { inputTokens: 12, outputTokens: 7, totalTokens: 19 },
  },
]

/** A message of a Converse stream: type and payload. */
export type ConverseMessage = { readonly name: string; readonly payload: JsonObject }
export const CONVERSE_STREAMS: readonly (readonly ConverseMessage[])[] = [
  [
    { name: 'messageStart', payload: { role: 'assistant' } },
    { name: 'contentBlockDelta', payload: { contentBlockIndex: 0, delta: { text: 'Hello, ' } } },
    { name: 'contentBlockDelta', payload: { contentBlockIndex: 0, delta: { text: 'wörld 😀' } } },
    { name: 'contentBlockStop', payload: { contentBlockIndex: 0 } },
    {
      name: 'contentBlockStart',
      payload: { contentBlockIndex: 1, start: { toolUse: { toolUseId: 't_1', name: 'look_up' } } },
    },
    { name: 'contentBlockDelta', payload: { contentBlockIndex: 1, delta: { toolUse: { input: '{"place":"Ulm"}' } } } },
    { name: 'contentBlockStop', payload: { contentBlockIndex: 1 } },
    { name: 'messageStop', payload: { stopReason: 'tool_use' } },
    { name: 'metadata', payload: { usage: { inputTokens: 12, outputTokens: 7, totalTokens: 19 }, metrics: {} } },
  ],
  [
    { name: 'messageStart', payload: { role: 'assistant' } },
    { name: 'contentBlockDelta', payload: { contentBlockIndex: 0, delta: { reasoningContent: { text: 'hm' } } } },
    { name: 'contentBlockDelta', payload: { contentBlockIndex: 0, delta: { reasoningContent: { signature: 's' } } } },
    { name: 'contentBlockStop', payload: { contentBlockIndex: 0 } },
    { name: 'exception:throttlingException', payload: { message: 'Too many requests.' } },
  ],
]
export const converseBytes = ({ name, payload }: ConverseMessage): Uint8Array =>
  name.startsWith('exception:') ? exception(name.slice(10), payload) : event(name, payload)

/** Responses with less common content. */
const RICH: { readonly [name in UpstreamProtocolName]?: readonly JsonObject[] } = {
  'openai-chat': [
    {
      id: 'c1',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: null, refusal: 'No.', reasoning_content: 'hm', annotations: [] },
          logprobs: { content: [{ token: 'N', logprob: -0.1, bytes: [78], top_logprobs: [] }], refusal: null },
          finish_reason: 'content_filter',
        },
        { index: 1, message: { role: 'assistant', content: 'two' }, finish_reason: 'stop' },
      ],
      usage: {
        prompt_tokens: 12,
        completion_tokens: 7,
        total_tokens: 19,
        prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
      service_tier: 'default',
    },
  ],
  'anthropic-messages': [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
        { type: 'redacted_thinking', data: 'eA==' },
        {
          type: 'text',
          text: 'It is so.',
          citations: [
            {
              type: 'char_location',
              cited_text: 'so',
              document_index: 0,
              document_title: 'D',
              start_char_index: 0,
              end_char_index: 2,
            },
          ],
        },
        { type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { place: 'Ulm', big: 1 } },
        { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 12, output_tokens: 7, cache_creation_input_tokens: 5, cache_read_input_tokens: 2 },
    },
  ],
  gemini: [
    {
      candidates: [
        {
          content: {
            role: 'model',
            parts: [
              { text: 'hm', thought: true },
              { text: 'Hello.', thoughtSignature: 'c2ln' },
              { functionCall: { name: 'f', args: { a: 1 } } },
            ],
          },
          finishReason: 'STOP',
          index: 0,
          safetyRatings: [],
          groundingMetadata: {
            groundingChunks: [{ web: { uri: 'https://example.com', title: 'E' } }],
            groundingSupports: [{ segment: { startIndex: 0, endIndex: 5, text: 'Hello' }, groundingChunkIndices: [0] }],
          },
        },
      ],
      usageMetadata: {
        promptTokenCount: 12,
        candidatesTokenCount: 7,
        thoughtsTokenCount: 3,
        totalTokenCount: 22,
        cachedContentTokenCount: 4,
      },
      modelVersion: 'm',
      responseId: 'r',
    },
    { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 3, totalTokenCount: 3 } },
  ],
  'openai-responses': [
    {
      id: 'resp_1',
      object: 'response',
      created_at: 1,
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      model: 'm',
      output: [
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'eA==' },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          content: [
            {
              type: 'output_text',
              text: 'Hel',
              annotations: [
                { type: 'url_citation', url: 'https://example.com', title: 'E', start_index: 0, end_index: 2 },
              ],
              logprobs: [],
            },
            { type: 'refusal', refusal: 'No.' },
          ],
        },
        { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '{}', status: 'completed' },
        { type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_2', name: 'g', input: 'free text' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed' },
      ],
      usage: {
        input_tokens: 12,
        input_tokens_details: { cached_tokens: 2 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: 19,
      },
    },
  ],
  ollama: [
    {
      model: 'm',
      created_at: '2026-11-21T12:00:00Z',
      message: {
        role: 'assistant',
        content: 'x',
        thinking: 'hm',
        tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }],
      },
      done: true,
      done_reason: 'stop',
      prompt_eval_count: 5,
      eval_count: 2,
    },
  ],
  mistral: [
    {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
              { type: 'text', text: 'Hi' },
              { type: 'reference', reference_ids: [1] },
            ],
            tool_calls: [{ id: 'abcdefghi', function: { name: 'f', arguments: '{}' } }],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    },
  ],
}

/** Complete responses of a format. */
export const answersOf = (name: UpstreamProtocolName): readonly JsonObject[] => {
  const plain =
    name === 'bedrock-converse'
      ? CONVERSE
      : REPLIES.map((reply) => answerBody(requestTo(PATHS[name === 'mistral' ? 'openai-chat' : name], false), reply))
  return [...plain, ...(RICH[name] ?? [])]
}

/** Streams of a format, message by message. Streams of Converse are binary, see above. */
export const streamsOf = (name: Exclude<UpstreamProtocolName, 'bedrock-converse'>): readonly (readonly string[])[] =>
  REPLIES.map((reply) => {
    const path = PATHS[name === 'mistral' ? 'openai-chat' : name]
    return piecesOf(requestTo(name === 'gemini' ? path.replace(':generate', ':streamGenerate') : path, true), reply)
  })

/** Errors of upstreams. */
export const ERRORS: readonly Json[] = [
  { error: { message: 'Rate limit reached for m.', type: 'requests', code: 'rate_limit_exceeded', param: null } },
  {
    error: {
      message: 'Incorrect API key provided: sk-0123456789abcdefghij.',
      type: 'invalid_request_error',
      code: 'invalid_api_key',
    },
  },
  { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' }, request_id: 'req_1' },
  {
    error: {
      code: 429,
      message: 'Quota exceeded.',
      status: 'RESOURCE_EXHAUSTED',
      details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '14s' }],
    },
  },
  [
    {
      error: {
        code: 400,
        message: 'API key not valid.',
        status: 'INVALID_ARGUMENT',
        details: [{ reason: 'API_KEY_INVALID' }],
      },
    },
  ],
  { message: 'Input is too long for requested model.', __type: 'ValidationException' },
  { id: 'x', message: 'invalid request: too many tokens' },
  {
    object: 'error',
    message: { detail: [{ type: 'missing', loc: ['body', 'model'], msg: 'Field required' }] },
    type: 'invalid_request_error',
    code: null,
  },
  { error: 'model "m" not found, try pulling it first' },
  {
    error: {
      message: 'Provider returned error',
      code: 502,
      metadata: { provider_name: 'x', headers: { 'Retry-After': '3' }, raw: '{"error":"busy"}' },
    },
  },
  { detail: 'Not found' },
  'upstream connect error or disconnect/reset before headers',
]

const IMAGE = 'data:image/png;base64,iVBORw0KGgo='

/** Requests in every style, with most fields of the style. */
export const REQUESTS: { readonly [name in ClientProtocolName]: readonly JsonObject[] } = {
  'openai-chat': [
    { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
    {
      model: 'auto',
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: 'system', content: 'Be short.' },
        { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
        {
          role: 'user',
          name: 'Eve',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: IMAGE, detail: 'low' } },
            { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"place":"Ulm"}' } },
            { id: 'call_2', type: 'custom', custom: { name: 'run', input: 'x = 1' } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'It rains.' },
        { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: '1' }] },
        { role: 'assistant', content: 'So.', refusal: null, reasoning_content: 'hm' },
        { role: 'user', content: 'And now?' },
      ],
      tools: [
        {
          type: 'function',
          function: {
            name: 'look_up',
            description: 'Looks up.',
            strict: true,
            parameters: {
              type: 'object',
              properties: { place: { type: 'string' }, n: { type: ['integer', 'null'] } },
              required: ['place'],
              additionalProperties: false,
            },
          },
        },
        {
          type: 'custom',
          custom: {
            name: 'run',
            description: 'Runs.',
            format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } },
          },
        },
      ],
      tool_choice: { type: 'function', function: { name: 'look_up' } },
      parallel_tool_calls: false,
      temperature: 0.2,
      top_p: 0.9,
      n: 1,
      seed: 7,
      stop: ['END', '\n\n'],
      max_completion_tokens: 400,
      frequency_penalty: 0.1,
      presence_penalty: -0.1,
      logit_bias: { '50256': -100 },
      logprobs: true,
      top_logprobs: 3,
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'answer',
          strict: true,
          schema: { type: 'object', properties: { a: { type: 'number' } } },
        },
      },
      reasoning_effort: 'low',
      verbosity: 'low',
      service_tier: 'auto',
      user: 'u1',
      metadata: { a: 'b' },
      prediction: { type: 'content', content: 'x' },
    },
  ],
  'openai-responses': [
    { model: 'm', input: 'Hello' },
    {
      model: 'm',
      instructions: 'Be short.',
      stream: true,
      store: false,
      include: ['reasoning.encrypted_content'],
      previous_response_id: null,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What?' },
            { type: 'input_image', image_url: IMAGE, detail: 'auto' },
            { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'eA==' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'So.', annotations: [] }] },
        { type: 'function_call', call_id: 'call_1', name: 'look_up', arguments: '{}' },
        { type: 'function_call_output', call_id: 'call_1', output: 'It rains.' },
        { type: 'custom_tool_call', call_id: 'call_2', name: 'run', input: 'x' },
        { type: 'custom_tool_call_output', call_id: 'call_2', output: [{ type: 'input_text', text: '1' }] },
        { type: 'item_reference', id: 'msg_1' },
      ],
      tools: [
        {
          type: 'function',
          name: 'look_up',
          description: 'd',
          strict: false,
          parameters: { type: 'object', properties: {} },
        },
        { type: 'custom', name: 'run', format: { type: 'text' } },
        { type: 'web_search' },
        { type: 'namespace', name: 'n', description: 'd', tools: [{ type: 'function', name: 'f', parameters: null }] },
      ],
      tool_choice: 'required',
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format: { type: 'json_object' }, verbosity: 'low' },
      max_output_tokens: 100,
      temperature: 1,
      top_logprobs: 2,
      truncation: 'auto',
      prompt_cache_key: 'k',
      safety_identifier: 's',
      background: false,
    },
  ],
  'anthropic-messages': [
    { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
    {
      model: 'm',
      max_tokens: 2_000,
      stream: true,
      system: [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What?' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
            {
              type: 'document',
              title: 'D',
              source: { type: 'text', media_type: 'text/plain', data: 'x' },
              citations: { enabled: true },
            },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
            { type: 'redacted_thinking', data: 'eA==' },
            { type: 'text', text: 'So.' },
            { type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { place: 'Ulm' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', is_error: true, content: [{ type: 'text', text: 'No.' }] },
            { type: 'text', text: 'Go on' },
          ],
        },
      ],
      tools: [
        {
          name: 'look_up',
          description: 'd',
          input_schema: { type: 'object', properties: { place: { type: 'string' } } },
          cache_control: { type: 'ephemeral' },
        },
        { type: 'web_search_20250305', name: 'web_search', max_uses: 2 },
      ],
      tool_choice: { type: 'tool', name: 'look_up', disable_parallel_tool_use: true },
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      temperature: 1,
      top_k: 5,
      top_p: 0.9,
      stop_sequences: ['END'],
      metadata: { user_id: 'u' },
      service_tier: 'auto',
    },
  ],
  gemini: [
    { model: 'm', contents: [{ parts: [{ text: 'Hi' }] }] },
    {
      model: 'm',
      stream: true,
      systemInstruction: { role: 'user', parts: [{ text: 'Be brief.' }] },
      contents: [
        {
          role: 'user',
          parts: [
            { text: 'Look' },
            { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } },
            { inline_data: { mime_type: 'audio/wav', data: 'UklGRg==' } },
            { fileData: { mimeType: 'application/pdf', fileUri: 'https://files.example/a.pdf' } },
            { fileData: { fileUri: 'gs://bucket/a.mp4' }, videoMetadata: { fps: 1 } },
          ],
        },
        {
          role: 'model',
          parts: [
            { text: 'Thinking', thought: true, thoughtSignature: 'c2ln' },
            { text: 'I look it up.' },
            { functionCall: { id: 'c1', name: 'look_up', args: { place: 'Oslo' } }, thoughtSignature: 'c2lnMg==' },
            { functionCall: { name: 'look_up', args: {} } },
            { executableCode: { language: 'PYTHON', code: 'print(1)' } },
          ],
        },
        {
          role: 'function',
          parts: [
            { functionResponse: { id: 'c1', name: 'look_up', response: { output: 'rain' } } },
            {
              functionResponse: {
                name: 'look_up',
                response: { error: 'none' },
                parts: [{ inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } }],
              },
            },
          ],
        },
      ],
      tools: [
        {
          functionDeclarations: [
            {
              name: 'look_up',
              description: 'd',
              parameters: { type: 'OBJECT', nullable: true, properties: { place: { type: 'STRING', minLength: '1' } } },
            },
          ],
        },
        { googleSearch: {} },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look_up'] } },
      generationConfig: {
        maxOutputTokens: 100,
        temperature: 1,
        topP: 0.9,
        topK: 40,
        stopSequences: ['END'],
        seed: 7,
        candidateCount: 1,
        responseLogprobs: true,
        logprobs: 2,
        responseMimeType: 'application/json',
        responseSchema: { type: 'OBJECT', properties: { a: { type: 'INTEGER' } }, propertyOrdering: ['a'] },
        thinkingConfig: { includeThoughts: true, thinkingBudget: -1 },
      },
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
    },
    {
      model: 'm',
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      generation_config: {
        max_output_tokens: 5,
        thinking_config: { thinking_level: 'LOW' },
        response_mime_type: 'text/x.enum',
      },
      tool_config: { function_calling_config: { mode: 'VALIDATED' } },
      cachedContent: 'cachedContents/1',
    },
  ],
  'openai-completions': [
    { model: 'm', prompt: 'Once' },
    {
      model: 'm',
      prompt: ['Once', 'Twice'],
      max_tokens: 5,
      n: 1,
      echo: false,
      logprobs: 2,
      stop: '\n',
      stream: true,
      suffix: null,
      best_of: 1,
      temperature: 0,
    },
  ],
}
