/**
 * The bodies of the API, for its description only: requests are read by their formats, which keep unknown members. Loaded with
 * the description.
 */
import { z } from 'zod'
import { KINDS } from '../core/failure.ts'

/** The values of `error.type`. */
const TYPES = [...new Set(Object.values(KINDS).map(({ type }) => type))].sort()

const anyObject = z.looseObject({})
const modelName = z
  .string()
  .min(1)
  .describe('A route, `provider/model`, a listed model, or any other name for the default route.')
const count = z.int().min(0)
const dollars = z
  .string()
  .regex(/^-?[0-9]+\.[0-9]{9}$/)
  .describe('US dollars.')
const time = z.string().meta({ format: 'date-time' })
const owner = z.looseObject({ id: z.string(), name: z.string().nullable() })
const availability = z.enum(['available', 'degraded', 'unavailable'])
const circuitState = z.looseObject({
  state: z.enum(['closed', 'open', 'half_open']),
  retry_at: z.string().nullable().optional(),
})

const model = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  type: z.literal('model').optional(),
  display_name: z.string().optional(),
  created_at: z.string().optional(),
  context_window: z.int().optional(),
  max_output_tokens: z.int().optional(),
  capabilities: z.array(z.string()).optional(),
  pricing: anyObject.optional(),
})

const ownSums = {
  requests: count,
  failed: count.optional(),
  input: count.optional(),
  output: count.optional(),
  cost: dollars,
  saved: dollars.optional(),
  estimated: count.describe('Attempts whose usage is estimated.').optional(),
  unpriced: count.describe('Attempts without a known price.').optional(),
}

const ownUsage = z.looseObject({
  object: z.literal('usage'),
  key: owner.nullable().describe('null: the gateway needs no key.'),
  team: owner,
  limits: z.array(
    z.looseObject({
      of: z.string().describe('The ID of the key or the team.'),
      unit: z.enum(['requests_per_minute', 'tokens_per_minute', 'concurrent']),
      limit: count,
      remaining: count,
      reset_ms: z.int().nullable().describe('Until the limit is full again.'),
    }),
  ),
  budgets: z.array(
    z.looseObject({
      id: z.string(),
      name: z.string(),
      mode: z.enum(['hard', 'soft']),
      per: z.string().optional(),
      amount: dollars,
      period: z.string(),
      timezone: z.string().optional(),
      period_start: time.optional(),
      period_end: time.nullable(),
      spent: dollars,
      reserved: dollars,
      remaining: dollars,
    }),
  ),
  from: time,
  to: time,
  data: z.array(
    z.looseObject({
      start: z.string().optional(),
      model: z.string().nullable(),
      ...ownSums,
    }),
  ),
  total: z.looseObject(ownSums),
  has_more: z.boolean(),
  next: z.string().nullable(),
})

const ownRequest = z.looseObject({
  object: z.literal('request'),
  id: z.string(),
  received_at: time,
  ended_at: time.nullable().optional(),
  style: z.string(),
  stream: z.boolean().optional(),
  asked: z.string(),
  provider: z.string().nullable().optional(),
  model: z.string().nullable().optional(),
  key: owner.nullable(),
  team: owner.nullable(),
  outcome: z.enum(['answered', 'refused', 'interrupted', 'client_gone', 'unknown']),
  status: z.int(),
  code: z.string().nullable().optional(),
  message: z.string().nullable().optional(),
  decision: anyObject
    .nullable()
    .describe('The planned targets, those without an attempt with the reason, and the limit that refused the request.')
    .optional(),
  usage: anyObject,
  cost: dollars.nullable().describe('US dollars; null: no price is known.'),
  attempts: z.array(anyObject),
})

const chatCompletionRequest = z.looseObject({
  model: modelName,
  messages: z
    .array(
      z.looseObject({
        role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
        content: z
          .union([z.string(), z.array(anyObject)])
          .nullable()
          .optional(),
      }),
    )
    .min(1),
  stream: z.boolean().nullable().optional(),
  stream_options: anyObject.nullable().optional(),
  temperature: z.number().nullable().optional(),
  top_p: z.number().nullable().optional(),
  max_completion_tokens: z.int().nullable().optional(),
  max_tokens: z.int().nullable().optional(),
  n: z.int().nullable().optional(),
  stop: z
    .union([z.string(), z.array(z.string())])
    .nullable()
    .optional(),
  seed: z.int().nullable().optional(),
  tools: z.array(anyObject).optional(),
  tool_choice: z.union([z.string(), anyObject]).optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: anyObject.optional(),
  reasoning_effort: z.string().nullable().optional(),
})

const chatCompletion = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string().describe('The model that answered.'),
  choices: z.array(z.looseObject({ index: z.int(), message: anyObject, finish_reason: z.string().nullable() })),
  usage: z.looseObject({ prompt_tokens: z.int().optional(), completion_tokens: z.int().optional() }).optional(),
})

const completionRequest = z.looseObject({
  model: modelName,
  prompt: z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(1)]),
  stream: z.boolean().nullable().optional(),
  max_tokens: z.int().min(1).nullable().optional(),
  temperature: z.number().nullable().optional(),
  top_p: z.number().nullable().optional(),
  stop: z.union([z.string().nullable(), z.array(z.string())]).optional(),
  logprobs: z.int().nullable().optional(),
  echo: z.boolean().nullable().optional(),
})

const completion = z.looseObject({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string().describe('The model that answered.'),
  choices: z.array(anyObject),
  usage: anyObject.optional(),
})

const compaction = z.looseObject({
  id: z.string(),
  object: z.literal('response.compaction'),
  created_at: z.int(),
  output: z.array(anyObject),
  usage: anyObject,
})

const deleted = z.looseObject({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })

const itemList = z.looseObject({
  object: z.literal('list'),
  data: z.array(anyObject),
  first_id: z.string(),
  last_id: z.string(),
  has_more: z.boolean(),
})

const embeddingsRequest = z.looseObject({
  model: z.string().min(1),
  input: z.union([
    z.string().min(1),
    z.array(z.string().min(1)).min(1),
    z.array(count).min(1),
    z.array(z.array(count).min(1)).min(1),
  ]),
  encoding_format: z.enum(['float', 'base64']).nullable().optional(),
  dimensions: z.int().min(1).nullable().optional(),
  input_type: z.string().nullable().optional(),
  user: z.string().nullable().optional(),
})

const embeddings = z.looseObject({
  object: z.literal('list'),
  data: z.array(
    z.looseObject({
      object: z.literal('embedding'),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string().describe('Base64 of 32-bit floats, little-endian.')]),
    }),
  ),
  model: z.string().describe('The model that answered.'),
  usage: z.looseObject({ prompt_tokens: z.int(), total_tokens: z.int() }),
})

const responseRequest = z.looseObject({
  model: modelName,
  input: z.union([z.string(), z.array(anyObject)]).optional(),
  instructions: z.string().nullable().optional(),
  stream: z.boolean().nullable().optional(),
  temperature: z.number().nullable().optional(),
  top_p: z.number().nullable().optional(),
  max_output_tokens: z.int().nullable().optional(),
  tools: z.array(anyObject).optional(),
  tool_choice: z.union([z.string(), anyObject]).optional(),
  parallel_tool_calls: z.boolean().nullable().optional(),
  text: anyObject.optional(),
  reasoning: anyObject.nullable().optional(),
})

const response = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.number(),
  status: z.enum(['completed', 'incomplete', 'failed', 'in_progress', 'cancelled', 'queued']),
  model: z.string(),
  output: z.array(anyObject),
  usage: anyObject.nullable().optional(),
})

const message = z.looseObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string().describe('The model that answered.'),
  content: z.array(anyObject),
  stop_reason: z.string().nullable(),
  stop_sequence: z.string().nullable().optional(),
  usage: z.looseObject({ input_tokens: z.int().optional(), output_tokens: z.int().optional() }),
})

const tokenCountRequest = z.looseObject({
  model: modelName,
  messages: z
    .array(
      z.looseObject({
        role: z.enum(['user', 'assistant', 'system']),
        content: z.union([z.string(), z.array(anyObject)]),
      }),
    )
    .min(1),
  system: z.union([z.string(), z.array(anyObject)]).optional(),
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  top_k: z.int().optional(),
  stop_sequences: z.array(z.string()).optional(),
  tools: z.array(anyObject).optional(),
  tool_choice: anyObject.optional(),
  thinking: anyObject.optional(),
  output_config: anyObject.optional(),
  metadata: anyObject.optional(),
})

const messageRequest = tokenCountRequest.extend({ max_tokens: z.int(), stream: z.boolean().optional() })

const tokenCount = z.looseObject({ input_tokens: z.int() })

const inputTokens = z.looseObject({ object: z.literal('response.input_tokens'), input_tokens: z.int() })

const modelList = z.looseObject({
  object: z.literal('list'),
  data: z.array(model),
  has_more: z.boolean().optional(),
  first_id: z.string().nullable().optional(),
  last_id: z.string().nullable().optional(),
  models: z.array(z.unknown()).max(0).optional(),
})

const plan = z.looseObject({
  object: z.literal('route'),
  model: z.string(),
  by: z.string().describe('How the name was resolved.'),
  style: z.string().describe('The API style of the body.').optional(),
  targets: z
    .array(
      z.looseObject({
        provider: z.string(),
        model: z.string(),
        because: z.string(),
        weight: z.number().optional(),
        share: z.number().describe('Of the requests for which it is first, with the strategy `weighted`.').optional(),
        fit: z.boolean().describe('Whether the target supports everything the request requires.').optional(),
        unfit_for: z.array(z.string()).optional(),
        only_without: z
          .array(z.string())
          .describe('Members that are dropped if no target supports everything.')
          .optional(),
        dropped: z.array(z.string()).optional(),
        keys: z.array(anyObject).optional(),
      }),
    )
    .describe('In the order that is expected most often. With `weighted` and `latency` it differs by request.'),
  skipped: z.array(z.looseObject({ provider: z.string(), model: z.string().optional(), why: z.string() })),
})

const health = z.looseObject({
  status: z.enum(['ok', 'degraded', 'unconfigured', 'draining']),
  version: z.string(),
  uptime_ms: z.int(),
  auth: z.enum(['open', 'keys']),
  providers: z.looseObject({ configured: z.int(), available: z.int() }),
  problems: z
    .array(
      z.looseObject({
        component: z.enum(['store', 'config', 'control', 'ledger', 'limits', 'budgets', 'export']),
        reason: z.string(),
        since: z.string(),
      }),
    )
    .describe('Reasons besides circuits; absent without one.')
    .optional(),
  worker: z.looseObject({ number: z.int(), of: z.int() }).optional(),
})

const state = z.looseObject({ status: z.string() })

const providerList = z.looseObject({
  object: z.literal('list'),
  data: z.array(
    z.looseObject({
      id: z.string(),
      kind: z.string(),
      status: availability.describe(
        '`unavailable`: the base URL, every key or every model is unavailable; `degraded`: some key or model, or one key at one model.',
      ),
      circuit: z
        .looseObject({
          state: z.enum(['closed', 'open', 'half_open']),
          failures: z.int().optional(),
          successes: z.int().optional(),
          error_rate: z.number().describe('In percent.').optional(),
          opened_at: z.string().nullable().optional(),
          retry_at: z.string().nullable().optional(),
        })
        .describe('Open when the circuit of the base URL is, or that of every model.'),
      resting: anyObject
        .nullable()
        .describe('Until when an operator takes the provider out of use, and the reason.')
        .optional(),
      endpoint: z
        .looseObject({ status: availability, circuit: circuitState })
        .describe('The base URL, which every key and model of the provider shares.'),
      keys: z.array(
        z.looseObject({
          id: z.string().describe('Digits of a keyed hash, never the key.'),
          signed_in_by: z
            .enum(['aws', 'google', 'entra'])
            .describe("In place of a key: the cloud whose credentials on the gateway's machine sign the calls.")
            .optional(),
          status: z.enum(['active', 'rate_limited', 'quota_exhausted', 'suspended', 'disabled']),
        }),
      ),
      models: z.array(
        z.looseObject({
          id: z.string(),
          status: availability,
          circuit: circuitState.describe(
            'Open when it is open on every key; closed while the model has not been requested.',
          ),
          keys: z
            .array(
              z.looseObject({
                id: z.string(),
                status: z.string().describe('`active`, or the cooldown of this key at this model.'),
                until: z.string().nullable().optional(),
                circuit: circuitState,
              }),
            )
            .describe('The deployments: each key at this model.'),
        }),
      ),
      latency_ms: anyObject.optional(),
      last_error: anyObject.nullable().optional(),
    }),
  ),
})

const messageError = z.looseObject({
  type: z.literal('error'),
  error: z.looseObject({ type: z.string(), message: z.string().describe('What happened and what to do.') }),
  request_id: z.string(),
})

const geminiError = z.looseObject({
  error: z.looseObject({
    code: z.int().describe('The HTTP status.'),
    message: z.string().describe('What happened and what to do.'),
    status: z.string().describe('The name of `google.rpc.Code`.'),
    details: z.array(z.looseObject({ '@type': z.string() })),
  }),
})

const geminiRequest = z.looseObject({
  contents: z.array(z.looseObject({ role: z.enum(['user', 'model']).optional(), parts: z.array(z.looseObject({})) })),
})

const geminiTokenCount = z.looseObject({ totalTokens: z.int() })

const embedSettings = {
  taskType: z.string().optional().describe('Such as `RETRIEVAL_QUERY`.'),
  title: z.string().optional(),
  outputDimensionality: z.int().min(1).optional(),
}

const geminiEmbedRequest = z.looseObject({
  content: z.looseObject({ parts: z.array(z.looseObject({})).min(1) }),
  ...embedSettings,
})

const geminiVector = z.looseObject({ values: z.array(z.number()) })

const geminiEmbedding = z.looseObject({ embedding: geminiVector })

const geminiEmbeddings = z.looseObject({ embeddings: z.array(geminiVector) })

const vertexEmbedRequest = z.looseObject({
  instances: z.array(z.looseObject({ content: z.string(), task_type: embedSettings.taskType })).min(1),
  parameters: z.looseObject({ outputDimensionality: embedSettings.outputDimensionality }).optional(),
})

const vertexEmbeddings = z.looseObject({ predictions: z.array(z.looseObject({ embeddings: geminiVector })) })

const geminiModel = z.looseObject({
  name: z.string().describe('`models/` and the name of the model or route.'),
  displayName: z.string(),
  inputTokenLimit: z.int().optional(),
  outputTokenLimit: z.int().optional(),
  supportedGenerationMethods: z.array(z.string()),
  thinking: z.boolean().optional(),
})

const geminiModelList = z.looseObject({ models: z.array(geminiModel), nextPageToken: z.string().optional() })

const error = z.looseObject({
  error: z.looseObject({
    message: z.string().describe('What happened and what to do.'),
    type: z.enum(TYPES),
    code: z.string().nullable(),
    param: z.string().nullable().describe('The member that is not valid.'),
    request_id: z.string(),
    attempts: z
      .array(
        z.looseObject({
          provider: z.string(),
          model: z.string(),
          key: z.string(),
          status: z.int().nullable(),
          kind: z.string(),
          ms: z.int(),
        }),
      )
      .describe('On retryable errors: the attempts; empty if there was none.')
      .optional(),
  }),
})

const anyRequest = z.union([
  chatCompletionRequest,
  responseRequest,
  messageRequest,
  completionRequest,
  embeddingsRequest,
])

/** The schemas by name. A schema that is part of another one is referenced by its name. */
export const SCHEMAS = {
  OwnUsage: ownUsage,
  OwnRequest: ownRequest,
  ChatCompletionRequest: chatCompletionRequest,
  ChatCompletion: chatCompletion,
  CompletionRequest: completionRequest,
  Completion: completion,
  Compaction: compaction,
  Deleted: deleted,
  ItemList: itemList,
  EmbeddingsRequest: embeddingsRequest,
  Embeddings: embeddings,
  ResponseRequest: responseRequest,
  Response: response,
  MessageRequest: messageRequest,
  Message: message,
  TokenCountRequest: tokenCountRequest,
  TokenCount: tokenCount,
  InputTokens: inputTokens,
  AnyRequest: anyRequest,
  Model: model,
  ModelList: modelList,
  Plan: plan,
  Health: health,
  State: state,
  ProviderList: providerList,
  GeminiRequest: geminiRequest,
  GeminiTokenCount: geminiTokenCount,
  GeminiEmbedRequest: geminiEmbedRequest,
  GeminiBatchEmbedRequest: z.looseObject({ requests: z.array(geminiEmbedRequest).min(1) }),
  GeminiEmbedding: geminiEmbedding,
  GeminiEmbeddings: geminiEmbeddings,
  VertexEmbedRequest: vertexEmbedRequest,
  VertexEmbeddings: vertexEmbeddings,
  GeminiModel: geminiModel,
  GeminiModelList: geminiModelList,
  GeminiError: geminiError,
  MessageError: messageError,
  Error: error,
} satisfies { readonly [name: string]: z.ZodType }
