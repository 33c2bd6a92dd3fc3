/** The JSON schemas of the API description. */
import { KINDS } from '../core/failure.ts'
import type { JsonObject } from '../core/json.ts'

/** A reference to a schema of this file. */
export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })

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
  description: 'A route, `provider/model`, a listed model, or any other name for the default route.',
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

const MESSAGE_MEMBERS: JsonObject = {
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

const COUNT: JsonObject = { type: 'integer', minimum: 0 }
const DOLLARS: JsonObject = { type: 'string', pattern: '^-?[0-9]+\\.[0-9]{9}$', description: 'US dollars.' }
const TIME: JsonObject = { type: 'string', format: 'date-time' }
const owner = open({ id: { type: 'string' }, name: nullable('string') }, ['id', 'name'])
const ownSums: JsonObject = {
  requests: COUNT,
  failed: COUNT,
  input: COUNT,
  output: COUNT,
  cost: DOLLARS,
  saved: DOLLARS,
  estimated: { ...COUNT, description: 'Attempts whose usage is estimated.' },
  unpriced: { ...COUNT, description: 'Attempts without a known price.' },
}

/** The schemas of bodies, by name. */
export const SCHEMAS: { readonly [name: string]: JsonObject } = {
  OwnUsage: open(
    {
      object: oneOf('usage'),
      key: { ...owner, type: ['object', 'null'], description: 'null: the gateway needs no key.' },
      team: owner,
      limits: listOf(
        open(
          {
            of: { type: 'string', description: 'The ID of the key or the team.' },
            unit: oneOf('requests_per_minute', 'tokens_per_minute', 'concurrent'),
            limit: COUNT,
            remaining: COUNT,
            reset_ms: { ...nullable('integer'), description: 'Until the limit is full again.' },
          },
          ['of', 'unit', 'limit', 'remaining', 'reset_ms'],
        ),
      ),
      budgets: listOf(
        open(
          {
            id: { type: 'string' },
            name: { type: 'string' },
            mode: oneOf('hard', 'soft'),
            per: { type: 'string' },
            amount: DOLLARS,
            period: { type: 'string' },
            timezone: { type: 'string' },
            period_start: TIME,
            period_end: { ...TIME, type: ['string', 'null'] },
            spent: DOLLARS,
            reserved: DOLLARS,
            remaining: DOLLARS,
          },
          ['id', 'name', 'mode', 'amount', 'period', 'period_end', 'spent', 'reserved', 'remaining'],
        ),
      ),
      from: TIME,
      to: TIME,
      data: listOf(
        open({ start: { type: 'string' }, model: nullable('string'), ...ownSums }, ['model', 'requests', 'cost']),
      ),
      total: open(ownSums, ['requests', 'cost']),
      has_more: { type: 'boolean' },
      next: nullable('string'),
    },
    ['object', 'key', 'team', 'limits', 'budgets', 'from', 'to', 'data', 'total', 'has_more', 'next'],
  ),
  OwnRequest: open(
    {
      object: oneOf('request'),
      id: { type: 'string' },
      received_at: TIME,
      ended_at: { ...TIME, type: ['string', 'null'] },
      style: { type: 'string' },
      stream: { type: 'boolean' },
      asked: { type: 'string' },
      provider: nullable('string'),
      model: nullable('string'),
      key: { ...owner, type: ['object', 'null'] },
      team: { ...owner, type: ['object', 'null'] },
      outcome: oneOf('answered', 'refused', 'interrupted', 'client_gone', 'unknown'),
      status: { type: 'integer' },
      code: nullable('string'),
      message: nullable('string'),
      decision: {
        type: ['object', 'null'],
        description:
          'The planned targets, those without an attempt with the reason, and the limit that refused the request.',
      },
      usage: { type: 'object' },
      cost: { ...DOLLARS, type: ['string', 'null'], description: 'US dollars; null: no price is known.' },
      attempts: listOf({ type: 'object' }),
    },
    ['object', 'id', 'received_at', 'style', 'asked', 'key', 'team', 'outcome', 'status', 'usage', 'cost', 'attempts'],
  ),
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
      model: { type: 'string', description: 'The model that answered.' },
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
      model: { type: 'string', description: 'The model that answered.' },
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
              anyOf: [
                listOf({ type: 'number' }),
                { type: 'string', description: 'Base64 of 32-bit floats, little-endian.' },
              ],
            },
          },
          ['object', 'index', 'embedding'],
        ),
      ),
      model: { type: 'string', description: 'The model that answered.' },
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
  MessageRequest: open({ ...MESSAGE_MEMBERS, max_tokens: { type: 'integer' }, stream: { type: 'boolean' } }, [
    'model',
    'messages',
    'max_tokens',
  ]),
  Message: open(
    {
      id: { type: 'string' },
      type: { const: 'message' },
      role: { const: 'assistant' },
      model: { type: 'string', description: 'The model that answered.' },
      content: listOf({ type: 'object' }),
      stop_reason: nullable('string'),
      stop_sequence: nullable('string'),
      usage: open({ input_tokens: { type: 'integer' }, output_tokens: { type: 'integer' } }, []),
    },
    ['id', 'type', 'role', 'model', 'content', 'stop_reason', 'usage'],
  ),
  TokenCountRequest: open(MESSAGE_MEMBERS, ['model', 'messages']),
  TokenCount: open({ input_tokens: { type: 'integer' } }, ['input_tokens']),
  InputTokens: open({ object: { const: 'response.input_tokens' }, input_tokens: { type: 'integer' } }, [
    'object',
    'input_tokens',
  ]),
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
      by: { type: 'string', description: 'How the name was resolved.' },
      style: { type: 'string', description: 'The API style of the body.' },
      targets: {
        ...listOf(
          open(
            {
              provider: { type: 'string' },
              model: { type: 'string' },
              because: { type: 'string' },
              weight: { type: 'number' },
              share: {
                type: 'number',
                description: 'Of the requests for which it is first, with the strategy `weighted`.',
              },
              fit: { type: 'boolean', description: 'Whether the target supports everything the request requires.' },
              unfit_for: listOf({ type: 'string' }),
              only_without: {
                ...listOf({ type: 'string' }),
                description: 'Members that are dropped if no target supports everything.',
              },
              dropped: listOf({ type: 'string' }),
              keys: listOf({ type: 'object' }),
            },
            ['provider', 'model', 'because'],
          ),
        ),
        description: 'In the order that is expected most often. With `weighted` and `latency` it differs by request.',
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
          open(
            {
              component: oneOf('store', 'config', 'control', 'ledger', 'limits', 'budgets'),
              reason: { type: 'string' },
              since: { type: 'string' },
            },
            ['component', 'reason', 'since'],
          ),
        ),
        description: 'Reasons besides circuits; absent without one.',
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
                '`unavailable`: the base URL, every key or every model is unavailable; `degraded`: some key or model, or one key at one model.',
            },
            circuit: {
              ...circuit,
              description: 'Open when the circuit of the base URL is, or that of every model.',
            },
            resting: {
              ...nullable('object'),
              description: 'Until when an operator takes the provider out of use, and the reason.',
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
                    description:
                      "In place of a key: the cloud whose credentials on the gateway's machine sign the calls.",
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
                            description: '`active`, or the cooldown of this key at this model.',
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
          param: { type: ['string', 'null'], description: 'The member that is not valid.' },
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
            description: 'On retryable errors: the attempts; empty if there was none.',
          },
        },
        ['message', 'type', 'code', 'param', 'request_id'],
      ),
    },
    ['error'],
  ),
}
