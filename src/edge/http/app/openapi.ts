/** This API described by itself: OpenAPI 3.1, made from the table of routes, so that neither can have what the other lacks. */
import { KINDS } from '../../../core/failure.ts'
import type { JsonObject } from '../../../core/json.ts'
import { pathsOf, protocolAt, ROUTES, type RouteName } from './routes.ts'

type Operation = {
  readonly summary: string
  readonly description?: string
  /** Name of the schema of the body. */
  readonly takes?: string
  readonly gives: { readonly [status: string]: { readonly description: string; readonly content: JsonObject } }
  /** Statuses of errors it may have, beside those every path has. */
  readonly errors?: readonly number[]
}

const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
const asJson = (name: string): JsonObject => ({ 'application/json': { schema: ref(name) } })
const asEither = (name: string, about: string): JsonObject => ({
  ...asJson(name),
  'text/event-stream': { schema: { type: 'string', description: about } },
})

/** What a call of a model can end with: its own fault, a busy gateway, and whatever is left when every upstream failed. */
const MODEL_ERRORS = [400, 404, 408, 409, 413, 415, 422, 429, 502, 503, 504]

const OPERATIONS: { readonly [name in RouteName]: Operation } = {
  chat: {
    summary: 'Answer in the chat completions style',
    description:
      'Any member OpenAI’s API knows is accepted; members nobody knows reach an upstream of the same style unchanged.',
    takes: 'ChatCompletionRequest',
    gives: {
      '200': {
        description: 'The answer; with `stream: true` as chunks, ending in `data: [DONE]`.',
        content: asEither(
          'ChatCompletion',
          'Chunks as server-sent events; an error in the middle is a chunk with `error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  responses: {
    summary: 'Answer in the responses style',
    description:
      'Turns are taken over a WebSocket at this path too (`GET` with `Upgrade: websocket`), as OpenAI and Open Responses have it: each text message `{"type":"response.create", …}` is a turn, answered one after another with one text message an event; an error is `{"type":"error","status","headers","error"}`. `background` has no place there.',
    takes: 'ResponseRequest',
    gives: {
      '200': {
        description: 'The response; with `stream: true` as named events with a gapless `sequence_number`.',
        content: asEither(
          'Response',
          'Named events, ending in `response.completed`, `.incomplete` or `.failed`, then `data: [DONE]`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  messages: {
    summary: 'Answer in the style of Anthropic’s messages',
    description:
      'Members nobody knows and the header `anthropic-beta` reach an upstream of the same style unchanged. Errors have Anthropic’s shape.',
    takes: 'MessageRequest',
    gives: {
      '200': {
        description: 'The message; with `stream: true` as named events.',
        content: asEither(
          'Message',
          'Named events from `message_start` to `message_stop`, `ping` among them; an error in the middle is `event: error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  compact: {
    summary: 'Make a conversation shorter',
    description:
      'Whoever would answer it summarizes it. What the user said stays; an opaque item stands for everything else and is sent back in front of what comes next.',
    takes: 'ResponseRequest',
    gives: { '200': { description: 'The shorter conversation.', content: asJson('Compaction') } },
    errors: [...MODEL_ERRORS, 426],
  },
  response: {
    summary: 'A stored response',
    description:
      'As it stands. With `stream=true` its events, those behind `starting_after` only; of one that is still being answered those to come too.',
    gives: {
      '200': { description: 'The response.', content: asEither('Response', 'Its events as server-sent events.') },
    },
    errors: [404, 503],
  },
  deleteResponse: {
    summary: 'Delete a stored response',
    gives: { '200': { description: 'It is gone.', content: asJson('Deleted') } },
    errors: [404, 503],
  },
  responseInput: {
    summary: 'What a stored response was asked',
    description:
      'The items of its turn and of those before it; `limit`, `order`, `after` and `before` choose among them.',
    gives: { '200': { description: 'The items, newest first.', content: asJson('ItemList') } },
    errors: [404, 503],
  },
  cancelResponse: {
    summary: 'Cancel a response that is answered in the background',
    gives: { '200': { description: 'The response as it stands.', content: asJson('Response') } },
    errors: [404, 503],
  },
  completions: {
    summary: 'Complete a text in OpenAI’s older style',
    description:
      'Asked of a chat model: the prompt is one user message, and reasoning is no part of the text. One prompt and one completion a request; tokens in place of text, `suffix` and `max_tokens: 0` are refused. Without `max_tokens` the model’s own limit holds.',
    takes: 'CompletionRequest',
    gives: {
      '200': {
        description: 'The text; with `stream: true` as chunks, ending in `data: [DONE]`.',
        content: asEither(
          'Completion',
          'Chunks as server-sent events; an error in the middle is a chunk with `error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  embeddings: {
    summary: 'Turn texts into vectors',
    description:
      'In OpenAI’s style, asked of providers that make embeddings. Another key or provider of the same model may stand in, never another model: a name no list has is asked for as it is, and `auto` is the usual model of the first provider that has one. `input_type` (`document`, `query`, `classification`, `clustering`) is understood for every provider that has a word for it.',
    takes: 'EmbeddingsRequest',
    gives: {
      '200': {
        description:
          'A vector for each input, in their order. `x-headgate-estimated`: the upstream did not count tokens.',
        content: asJson('Embeddings'),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  countTokens: {
    summary: 'Count the tokens of a request in the style of Anthropic’s messages',
    description:
      'Asked of the upstream that would be asked first, if it speaks this style; otherwise, or if it cannot say, estimated from the characters, and `x-headgate-estimated` says so.',
    takes: 'TokenCountRequest',
    gives: { '200': { description: 'The count.', content: asJson('TokenCount') } },
    errors: [...MODEL_ERRORS, 426],
  },
  models: {
    summary: 'List the models that can be asked for',
    gives: { '200': { description: 'The list, as last fetched from the providers.', content: asJson('ModelList') } },
  },
  model: {
    summary: 'One model of the list',
    gives: { '200': { description: 'The model.', content: asJson('Model') } },
    errors: [400, 404],
  },
  explain: {
    summary: 'Explain where a request would go',
    description:
      'The body of a model call; nothing is sent upstream. Its style is told by members only that style has, or by the header `anthropic-version`; `?style=chat`, `responses`, `messages`, `completions` or `embeddings` says it outright.',
    takes: 'AnyRequest',
    gives: { '200': { description: 'The plan.', content: asJson('Plan') } },
    errors: [400, 404, 408, 413, 415, 503],
  },
  health: {
    summary: 'How the gateway is',
    gives: {
      '200': { description: 'It serves.', content: asJson('Health') },
      '503': { description: 'It is shutting down.', content: asJson('Health') },
    },
  },
  live: {
    summary: 'Whether the process lives',
    gives: { '200': { description: 'It does.', content: asJson('State') } },
  },
  ready: {
    summary: 'Whether new requests should be sent here',
    gives: {
      '200': { description: 'They should.', content: asJson('State') },
      '503': { description: 'It is shutting down.', content: asJson('State') },
    },
  },
  providersStatus: {
    summary: 'Circuits, keys and models of every provider',
    gives: { '200': { description: 'All providers in their order.', content: asJson('ProviderList') } },
  },
  metrics: {
    summary: 'Counts and times for Prometheus',
    gives: { '200': { description: 'The text format.', content: { 'text/plain': { schema: { type: 'string' } } } } },
  },
  openapi: {
    summary: 'This description',
    gives: { '200': { description: 'OpenAPI 3.1.', content: { 'application/json': { schema: { type: 'object' } } } } },
  },
}

const nullable = (type: string): JsonObject => ({ type: [type, 'null'] })
const open = (properties: JsonObject, required: readonly string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: true,
})
const listOf = (items: JsonObject): JsonObject => ({ type: 'array', items })
const oneOf = (...values: readonly string[]): JsonObject => ({ type: 'string', enum: values })

const MODEL_NAME = {
  type: 'string',
  minLength: 1,
  description: 'A route’s name, `provider/model`, a listed model, or anything else for the default route.',
}

const circuit = open(
  {
    state: oneOf('closed', 'open', 'half_open'),
    failures: { type: 'integer' },
    successes: { type: 'integer' },
    error_rate: { type: 'number', description: 'In percent.' },
    opened_at: nullable('string'),
    retry_at: nullable('string'),
  },
  ['state'],
)

const STATUS = oneOf('available', 'degraded', 'unavailable')
const circuitState = open({ state: oneOf('closed', 'open', 'half_open'), retry_at: nullable('string') }, ['state'])

const MESSAGE_QUESTION: JsonObject = {
  model: MODEL_NAME,
  messages: {
    ...listOf(
      open(
        {
          role: oneOf('user', 'assistant', 'system'),
          content: { anyOf: [{ type: 'string' }, listOf({ type: 'object' })] },
        },
        ['role', 'content'],
      ),
    ),
    minItems: 1,
  },
  system: { anyOf: [{ type: 'string' }, listOf({ type: 'object' })] },
  temperature: { type: 'number' },
  top_p: { type: 'number' },
  top_k: { type: 'integer' },
  stop_sequences: listOf({ type: 'string' }),
  tools: listOf({ type: 'object' }),
  tool_choice: { type: 'object' },
  thinking: { type: 'object' },
  output_config: { type: 'object' },
  metadata: { type: 'object' },
}

const SCHEMAS: { readonly [name: string]: JsonObject } = {
  ChatCompletionRequest: open(
    {
      model: MODEL_NAME,
      messages: {
        ...listOf(
          open(
            {
              role: oneOf('system', 'developer', 'user', 'assistant', 'tool', 'function'),
              content: { anyOf: [{ type: 'string' }, listOf({ type: 'object' }), { type: 'null' }] },
            },
            ['role'],
          ),
        ),
        minItems: 1,
      },
      stream: nullable('boolean'),
      stream_options: { type: ['object', 'null'] },
      temperature: nullable('number'),
      top_p: nullable('number'),
      max_completion_tokens: nullable('integer'),
      max_tokens: nullable('integer'),
      n: nullable('integer'),
      stop: { anyOf: [{ type: 'string' }, listOf({ type: 'string' }), { type: 'null' }] },
      seed: nullable('integer'),
      tools: listOf({ type: 'object' }),
      tool_choice: { anyOf: [{ type: 'string' }, { type: 'object' }] },
      parallel_tool_calls: { type: 'boolean' },
      response_format: { type: 'object' },
      reasoning_effort: nullable('string'),
    },
    ['model', 'messages'],
  ),
  ChatCompletion: open(
    {
      id: { type: 'string' },
      object: { const: 'chat.completion' },
      created: { type: 'integer' },
      model: { type: 'string', description: 'What really answered.' },
      choices: listOf(
        open({ index: { type: 'integer' }, message: { type: 'object' }, finish_reason: nullable('string') }, [
          'index',
          'message',
          'finish_reason',
        ]),
      ),
      usage: open({ prompt_tokens: { type: 'integer' }, completion_tokens: { type: 'integer' } }, []),
    },
    ['id', 'object', 'created', 'model', 'choices'],
  ),
  CompletionRequest: open(
    {
      model: MODEL_NAME,
      prompt: {
        anyOf: [
          { type: 'string', minLength: 1 },
          { ...listOf({ type: 'string', minLength: 1 }), minItems: 1, maxItems: 1 },
        ],
      },
      stream: nullable('boolean'),
      max_tokens: { type: ['integer', 'null'], minimum: 1 },
      temperature: nullable('number'),
      top_p: nullable('number'),
      stop: { anyOf: [nullable('string'), listOf({ type: 'string' })] },
      logprobs: nullable('integer'),
      echo: nullable('boolean'),
    },
    ['model', 'prompt'],
  ),
  Completion: open(
    {
      id: { type: 'string' },
      object: { const: 'text_completion' },
      created: { type: 'integer' },
      model: { type: 'string', description: 'What really answered.' },
      choices: listOf({ type: 'object' }),
      usage: { type: 'object' },
    },
    ['id', 'object', 'created', 'model', 'choices'],
  ),
  Compaction: open(
    {
      id: { type: 'string' },
      object: { const: 'response.compaction' },
      created_at: { type: 'integer' },
      output: listOf({ type: 'object' }),
      usage: { type: 'object' },
    },
    ['id', 'object', 'created_at', 'output', 'usage'],
  ),
  Deleted: open({ id: { type: 'string' }, object: { const: 'response' }, deleted: { const: true } }, [
    'id',
    'object',
    'deleted',
  ]),
  ItemList: open(
    {
      object: { const: 'list' },
      data: listOf({ type: 'object' }),
      first_id: { type: 'string' },
      last_id: { type: 'string' },
      has_more: { type: 'boolean' },
    },
    ['object', 'data', 'has_more', 'first_id', 'last_id'],
  ),
  EmbeddingsRequest: open(
    {
      model: { type: 'string', minLength: 1 },
      input: {
        anyOf: [
          { type: 'string', minLength: 1 },
          { ...listOf({ type: 'string', minLength: 1 }), minItems: 1 },
          { ...listOf({ type: 'integer', minimum: 0 }), minItems: 1 },
          { ...listOf({ ...listOf({ type: 'integer', minimum: 0 }), minItems: 1 }), minItems: 1 },
        ],
      },
      encoding_format: { type: ['string', 'null'], enum: ['float', 'base64', null] },
      dimensions: { type: ['integer', 'null'], minimum: 1 },
      input_type: nullable('string'),
      user: nullable('string'),
    },
    ['model', 'input'],
  ),
  Embeddings: open(
    {
      object: { const: 'list' },
      data: listOf(
        open(
          {
            object: { const: 'embedding' },
            index: { type: 'integer' },
            embedding: {
              anyOf: [listOf({ type: 'number' }), { type: 'string', description: '32-bit floats, lowest byte first.' }],
            },
          },
          ['object', 'index', 'embedding'],
        ),
      ),
      model: { type: 'string', description: 'What really answered.' },
      usage: open({ prompt_tokens: { type: 'integer' }, total_tokens: { type: 'integer' } }, [
        'prompt_tokens',
        'total_tokens',
      ]),
    },
    ['object', 'data', 'model', 'usage'],
  ),
  ResponseRequest: open(
    {
      model: MODEL_NAME,
      input: { anyOf: [{ type: 'string' }, listOf({ type: 'object' })] },
      instructions: nullable('string'),
      stream: nullable('boolean'),
      temperature: nullable('number'),
      top_p: nullable('number'),
      max_output_tokens: nullable('integer'),
      tools: listOf({ type: 'object' }),
      tool_choice: { anyOf: [{ type: 'string' }, { type: 'object' }] },
      parallel_tool_calls: nullable('boolean'),
      text: { type: 'object' },
      reasoning: { type: ['object', 'null'] },
    },
    ['model'],
  ),
  Response: open(
    {
      id: { type: 'string' },
      object: { const: 'response' },
      created_at: { type: 'number' },
      status: oneOf('completed', 'incomplete', 'failed', 'in_progress', 'cancelled', 'queued'),
      model: { type: 'string' },
      output: listOf({ type: 'object' }),
      usage: { type: ['object', 'null'] },
    },
    ['id', 'object', 'created_at', 'status', 'model', 'output'],
  ),
  MessageRequest: open({ ...MESSAGE_QUESTION, max_tokens: { type: 'integer' }, stream: { type: 'boolean' } }, [
    'model',
    'messages',
    'max_tokens',
  ]),
  Message: open(
    {
      id: { type: 'string' },
      type: { const: 'message' },
      role: { const: 'assistant' },
      model: { type: 'string', description: 'What really answered.' },
      content: listOf({ type: 'object' }),
      stop_reason: nullable('string'),
      stop_sequence: nullable('string'),
      usage: open({ input_tokens: { type: 'integer' }, output_tokens: { type: 'integer' } }, []),
    },
    ['id', 'type', 'role', 'model', 'content', 'stop_reason', 'usage'],
  ),
  TokenCountRequest: open(MESSAGE_QUESTION, ['model', 'messages']),
  TokenCount: open({ input_tokens: { type: 'integer' } }, ['input_tokens']),
  AnyRequest: {
    anyOf: [
      ref('ChatCompletionRequest'),
      ref('ResponseRequest'),
      ref('MessageRequest'),
      ref('CompletionRequest'),
      ref('EmbeddingsRequest'),
    ],
  },
  Model: open(
    {
      id: { type: 'string' },
      object: { const: 'model' },
      created: { type: 'integer' },
      owned_by: { type: 'string' },
      type: { const: 'model' },
      display_name: { type: 'string' },
      created_at: { type: 'string' },
      context_window: { type: 'integer' },
      max_output_tokens: { type: 'integer' },
      capabilities: listOf({ type: 'string' }),
      pricing: { type: 'object' },
    },
    ['id', 'object', 'created', 'owned_by'],
  ),
  ModelList: open(
    {
      object: { const: 'list' },
      data: listOf(ref('Model')),
      has_more: { type: 'boolean' },
      first_id: nullable('string'),
      last_id: nullable('string'),
      models: { type: 'array', maxItems: 0 },
    },
    ['object', 'data'],
  ),
  Plan: open(
    {
      object: { const: 'route' },
      model: { type: 'string' },
      by: { type: 'string', description: 'How the name was understood.' },
      style: { type: 'string', description: 'Which call the body belongs to.' },
      targets: {
        ...listOf(
          open(
            {
              provider: { type: 'string' },
              model: { type: 'string' },
              because: { type: 'string' },
              fit: { type: 'boolean', description: 'Whether it can carry all that must not be lost.' },
              unfit_for: listOf({ type: 'string' }),
              only_without: {
                ...listOf({ type: 'string' }),
                description: 'What it may be asked without if nobody is left who carries everything.',
              },
              dropped: listOf({ type: 'string' }),
              keys: listOf({ type: 'object' }),
            },
            ['provider', 'model', 'because'],
          ),
        ),
        description: 'In the order in which they would be tried.',
      },
      skipped: listOf(
        open({ provider: { type: 'string' }, model: { type: 'string' }, why: { type: 'string' } }, ['provider', 'why']),
      ),
    },
    ['object', 'model', 'by', 'targets', 'skipped'],
  ),
  Health: open(
    {
      status: oneOf('ok', 'degraded', 'unconfigured', 'draining'),
      version: { type: 'string' },
      uptime_ms: { type: 'integer' },
      auth: oneOf('open', 'keys'),
      providers: open({ configured: { type: 'integer' }, available: { type: 'integer' } }, ['configured', 'available']),
      problems: {
        ...listOf(
          open({ component: oneOf('store', 'config'), reason: { type: 'string' }, since: { type: 'string' } }, [
            'component',
            'reason',
            'since',
          ]),
        ),
        description: 'Why it is degraded, besides circuits; absent if there is no such reason.',
      },
      worker: open({ number: { type: 'integer' }, of: { type: 'integer' } }, ['number', 'of']),
    },
    ['status', 'version', 'uptime_ms', 'auth', 'providers'],
  ),
  State: open({ status: { type: 'string' } }, ['status']),
  ProviderList: open(
    {
      object: { const: 'list' },
      data: listOf(
        open(
          {
            id: { type: 'string' },
            kind: { type: 'string' },
            status: {
              ...STATUS,
              description:
                '`unavailable`: the base URL, every key or every model is out; `degraded`: some key or model is, or one key at one model.',
            },
            circuit: {
              ...circuit,
              description: 'Open when the circuit of the base URL is, or that of every model.',
            },
            endpoint: {
              ...open({ status: STATUS, circuit: circuitState }, ['status', 'circuit']),
              description: 'The base URL, which every key and model of the provider shares.',
            },
            keys: listOf(
              open(
                {
                  id: { type: 'string', description: 'Digits of a keyed hash, never the key.' },
                  signed_in_by: {
                    ...oneOf('aws', 'google', 'entra'),
                    description: "There is no key: the cloud whose credentials of the gateway's machine sign calls in.",
                  },
                  status: oneOf('active', 'rate_limited', 'quota_exhausted', 'suspended', 'disabled'),
                },
                ['id', 'status'],
              ),
            ),
            models: listOf(
              open(
                {
                  id: { type: 'string' },
                  status: STATUS,
                  circuit: {
                    ...circuitState,
                    description: 'Open when it is open on every key; closed while the model has not been requested.',
                  },
                  keys: {
                    ...listOf(
                      open(
                        {
                          id: { type: 'string' },
                          status: {
                            type: 'string',
                            description: '`active`, or the cool-down of this key at this model.',
                          },
                          until: nullable('string'),
                          circuit: circuitState,
                        },
                        ['id', 'status', 'circuit'],
                      ),
                    ),
                    description: 'The deployments: each key at this model.',
                  },
                },
                ['id', 'status', 'circuit', 'keys'],
              ),
            ),
            latency_ms: { type: 'object' },
            last_error: { type: ['object', 'null'] },
          },
          ['id', 'kind', 'status', 'circuit', 'endpoint', 'keys', 'models'],
        ),
      ),
    },
    ['object', 'data'],
  ),
  MessageError: open(
    {
      type: { const: 'error' },
      error: open(
        { type: { type: 'string' }, message: { type: 'string', description: 'What happened and what to do.' } },
        ['type', 'message'],
      ),
      request_id: { type: 'string' },
    },
    ['type', 'error', 'request_id'],
  ),
  Error: open(
    {
      error: open(
        {
          message: { type: 'string', description: 'What happened and what to do.' },
          type: { type: 'string', enum: [...new Set(Object.values(KINDS).map(({ type }) => type))].sort() },
          code: { type: ['string', 'null'] },
          param: { type: ['string', 'null'], description: 'The member at fault.' },
          request_id: { type: 'string' },
          attempts: {
            ...listOf(
              open(
                {
                  provider: { type: 'string' },
                  model: { type: 'string' },
                  key: { type: 'string' },
                  status: nullable('integer'),
                  kind: { type: 'string' },
                  ms: { type: 'integer' },
                },
                ['provider', 'model', 'key', 'status', 'kind', 'ms'],
              ),
            ),
            description: 'On errors that may be retried: the attempts that were made; empty if none was.',
          },
        },
        ['message', 'type', 'code', 'param', 'request_id'],
      ),
    },
    ['error'],
  ),
}

const ABOUT: { readonly [status: number]: string } = {
  400: 'The request’s own fault.',
  401: 'No key, or one that is not known.',
  403: 'From a web page or under a host name that may not call.',
  404: 'No such model.',
  408: 'The request took too long to arrive.',
  409: 'Two changes met upstream.',
  413: 'The body is too large.',
  415: 'The body is not plain JSON.',
  422: 'The upstream found the request’s fault.',
  426: 'This path speaks HTTP, not WebSocket.',
  429: 'Every target is at its limit, or has no quota left.',
  500: 'The gateway made a mistake of its own.',
  502: 'Every target failed.',
  503: 'Nothing may be tried now, nothing is configured, or the gateway is too busy.',
  504: 'Every target was too slow.',
}

const header = (description: string): JsonObject => ({ description, schema: { type: 'string' } })
const REQUEST_ID = { 'x-request-id': header('The client’s own, if it was sane; else one of ours.') }
const ERROR_HEADERS = {
  ...REQUEST_ID,
  'x-should-retry': header(
    '`true` or `false`: whether a retry may succeed. The official SDKs obey it. `false` when `retry-after` exceeds 60, or 5 for `no_target_available`.',
  ),
  'retry-after': header('Seconds, on 429 and 503.'),
}
const CALL_HEADERS = {
  ...REQUEST_ID,
  'x-headgate-provider': header('Who answered.'),
  'x-headgate-model': header('The model that answered.'),
  'x-headgate-attempts': header('How many attempts were made; skipped targets do not count.'),
  'x-headgate-trail': header(
    'Each attempt in order (provider, key id, status or kind of failure), and each target that was skipped, with the reason: `openai#a1f3:503, groq#09be:circuit, anthropic#77c0:200`. Reasons: `circuit`, `warming`, `budget`, `unfit`, `window`, or a cool-down such as `rate_limited`. At most twelve skipped targets are listed; `+3 skipped` counts the others.',
  ),
  'x-headgate-dropped': header(
    'Members of the request that could not be carried over, as a comma list of their paths in the request body; on errors, those of the last attempt. Where the list is too long it ends in `... +37`, the number of paths left out.',
  ),
}
/** Beside the others on the paths of Anthropic's style. */
const MESSAGE_HEADERS = {
  'request-id': header('The same as `x-request-id`, by the name Anthropic’s clients look for.'),
}
const COUNT_HEADERS = {
  ...MESSAGE_HEADERS,
  'x-headgate-estimated': header('`true`: nobody could be asked, and the count is an estimate.'),
}

const MORE_HEADERS: { readonly [name in RouteName]?: JsonObject } = {
  countTokens: COUNT_HEADERS,
  embeddings: {
    'x-headgate-estimated': header('`true`: the upstream did not count, and the tokens in `usage` are an estimate.'),
  },
}

/** Calls whose answer a client can come back for, and that may be given the answer of one like it. */
const SHARED: ReadonlySet<RouteName> = new Set([
  'chat',
  'responses',
  'compact',
  'messages',
  'completions',
  'embeddings',
])

const SHARED_HEADERS: JsonObject = {
  'x-headgate-idempotent': header(
    '`joined`: this is the answer to an earlier request with the same `Idempotency-Key`, which was still under way; `stored`: it was over.',
  ),
  'x-headgate-coalesced': header('`true`: this is the answer to a request that said the same at the same time.'),
}

const KEY: JsonObject = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Names this request: whoever sends it again with the same key gets the answer of the first, from its beginning, also while that is still under way. With another body it is refused (422).',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
}

const operation = (name: RouteName, path: string): JsonObject => {
  const { summary, description, takes, gives, errors = [] } = OPERATIONS[name]
  const { access, model } = ROUTES[name]
  const anthropic = protocolAt(path) === 'anthropic-messages'
  const more = MORE_HEADERS[name] ?? (anthropic ? MESSAGE_HEADERS : {})
  const always = access === 'open' ? [400, 403, 500] : [400, 401, 403, 500]
  const failures = [...new Set([...always, ...errors])]
    .filter((status) => gives[status] === undefined)
    .sort((a, b) => a - b)
  return {
    // Twins have names of their own; generators of clients want every name once.
    operationId: path === ROUTES[name].path ? name : `${name}Unprefixed`,
    summary,
    ...(description && { description }),
    ...(access !== 'open' && { security: [{ bearer: [] }, { apiKey: [] }, {}] }),
    ...(path.includes('{id}') && {
      parameters: [
        {
          name: 'id',
          in: 'path',
          required: true,
          description: 'May contain a slash, encoded or not.',
          schema: { type: 'string' },
        },
      ],
    }),
    ...(SHARED.has(name) && { parameters: [KEY] }),
    ...(takes && { requestBody: { required: true, content: asJson(takes) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(gives).map(([status, answer]) => [
          status,
          {
            ...answer,
            headers: { ...(model ? CALL_HEADERS : REQUEST_ID), ...(SHARED.has(name) && SHARED_HEADERS), ...more },
          },
        ]),
      ),
      ...Object.fromEntries(
        failures.map((status) => [
          status,
          {
            description: ABOUT[status] ?? 'An error.',
            headers: { ...ERROR_HEADERS, ...(anthropic && MESSAGE_HEADERS) },
            content: asJson(anthropic ? 'MessageError' : 'Error'),
          },
        ]),
      ),
    },
  }
}

export const openapi = (version: string): JsonObject => {
  const paths: { [path: string]: JsonObject } = {}
  // The names of an object literal's own members, which the type of Object.keys does not keep.
  for (const name of Object.keys(ROUTES) as RouteName[])
    for (const path of pathsOf(ROUTES[name].path))
      paths[path] = { ...paths[path], [ROUTES[name].method.toLowerCase()]: operation(name, path) }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Headgate',
      version,
      description: 'One address for text-generation models of every provider. HEAD works wherever GET does.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  }
}
