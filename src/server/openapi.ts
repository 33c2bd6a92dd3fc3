/** The API description (OpenAPI 3.1), generated from the table of routes, so that the two cannot differ. */
import { z } from 'zod'
import type { ClientProtocolName } from '../core/chat.ts'
import { REQUIRE_HEADER } from '../core/data-policy.ts'
import { GUARDS_HEADER } from '../core/guard.ts'
import { isList, isObject, type Json, type JsonObject, list, object } from '../core/json.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import { RELAY_ROWS, RELAYS, type RelayName, type RelayRow } from '../core/relay.ts'
import { SWITCH_HEADER } from '../core/switch.ts'
import { BREAKPOINTS_HEADER } from '../core/target-override.ts'
import { EMBEDDINGS } from '../gateway/handlers/embeddings.ts'
import { embeddingsShapes } from '../protocols/embeddings/shapes.ts'
import { clientProtocolByStyle, protocols } from '../protocols/index.ts'
import { parametersOf } from './openapi-parameters.ts'
import { SCHEMAS } from './openapi-schemas.ts'
import {
  CHAT_ROUTES,
  type ChatRouteName,
  pathsOf,
  protocolAt,
  ROUTES,
  type RouteName,
  type RouteRow,
} from './routes.ts'

type SchemaName = keyof typeof SCHEMAS

type ApiOperation = {
  readonly summary: string
  readonly description?: string
  /** The parameters of the query. */
  readonly query?: z.ZodObject
  /** The schema of the request body. */
  readonly takes?: SchemaName
  readonly gives: { readonly [status: string]: { readonly description: string; readonly content?: JsonObject } }
  /** Error statuses, besides those of every path. */
  readonly errors?: readonly number[]
}

const SCHEMAS_AT = '#/components/schemas/'
const asJson = (name: string): JsonObject => ({ 'application/json': { schema: { $ref: SCHEMAS_AT + name } } })
/** Without a type: some readers apply the schema to the text of a stream, others to each event. */
const asEvents = (about: string): JsonObject => ({ 'text/event-stream': { schema: { description: about } } })
const asJsonOrEvents = (name: string, about: string): JsonObject => ({ ...asJson(name), ...asEvents(about) })

/** Error statuses of a model call: invalid requests, a busy gateway, and failed upstreams. */
const MODEL_ERRORS = [400, 402, 404, 408, 409, 413, 415, 422, 429, 502, 503, 504]

type Operations = { readonly [name in Exclude<RouteName, ChatRouteName | RelayName>]: ApiOperation } & {
  readonly [name in ChatRouteName | RelayName]?: ApiOperation
}

const OPERATIONS: Operations = {
  chat: {
    summary: 'Create a chat completion',
    description:
      'Accepts all members of OpenAI’s API. Unknown members are passed to an upstream of the same style unchanged.',
    takes: 'ChatCompletionRequest',
    gives: {
      '200': {
        description: 'The completion; with `stream: true` as chunks, ending in `data: [DONE]`.',
        content: asJsonOrEvents(
          'ChatCompletion',
          'Chunks as server-sent events; an error during the stream is a chunk with `error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  responses: {
    summary: 'Create a response',
    description:
      'The path also accepts WebSocket (`GET` with `Upgrade: websocket`), as defined by OpenAI and Open Responses: each text message `{"type":"response.create", …}` is a turn. Turns run one after the other; each event is one text message; an error is `{"type":"error","status","headers","error"}`. `background` is not available there.',
    takes: 'ResponseRequest',
    gives: {
      '200': {
        description: 'The response; with `stream: true` as named events with a gapless `sequence_number`.',
        content: asJsonOrEvents(
          'Response',
          'Named events, ending in `response.completed`, `.incomplete` or `.failed`, then `data: [DONE]`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  messages: {
    summary: 'Create a message (Anthropic style)',
    description:
      'Unknown members and the header `anthropic-beta` are passed to an upstream of the same style unchanged. Errors have Anthropic’s format.',
    takes: 'MessageRequest',
    gives: {
      '200': {
        description: 'The message; with `stream: true` as named events.',
        content: asJsonOrEvents(
          'Message',
          'Named events from `message_start` to `message_stop`, `ping` among them; an error during the stream is `event: error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  compact: {
    summary: 'Compact a conversation',
    description:
      'The model of the request summarizes it. User messages stay; an opaque item replaces everything else. Send it back before the next input.',
    takes: 'ResponseRequest',
    gives: { '200': { description: 'The compacted conversation.', content: asJson('Compaction') } },
    errors: [...MODEL_ERRORS, 426],
  },
  response: {
    summary: 'Retrieve a stored response',
    description: 'Its current state, or its events; for a response in progress the stream continues to its end.',
    query: z.object({
      stream: z.boolean().describe('`true`: its events.'),
      starting_after: z.int().min(0).describe('The `sequence_number` after which the events begin.'),
    }),
    gives: {
      '200': { description: 'The response.', content: asJsonOrEvents('Response', 'The events as server-sent events.') },
    },
    errors: [404, 503],
  },
  deleteResponse: {
    summary: 'Delete a stored response',
    gives: { '200': { description: 'The response was deleted.', content: asJson('Deleted') } },
    errors: [404, 503],
  },
  responseInput: {
    summary: 'List the input items of a stored response',
    description: 'The items of its turn and of earlier turns.',
    query: z.object({
      limit: z.int().min(1).max(100).default(20),
      order: z.enum(['asc', 'desc']).default('desc'),
      after: z.string().describe('The ID of the item before the first one.'),
      before: z.string().describe('The ID of the item after the last one.'),
    }),
    gives: { '200': { description: 'The items, newest first.', content: asJson('ItemList') } },
    errors: [404, 503],
  },
  cancelResponse: {
    summary: 'Cancel a background response',
    gives: { '200': { description: 'The response in its current state.', content: asJson('Response') } },
    errors: [404, 503],
  },
  completions: {
    summary: 'Create a text completion (legacy OpenAI style)',
    description:
      'Sent to a chat model: the prompt is one user message, and the text excludes reasoning. A request has one prompt and one completion; token arrays, `suffix` and `max_tokens: 0` are refused. Without `max_tokens` the model’s limit applies.',
    takes: 'CompletionRequest',
    gives: {
      '200': {
        description: 'The text; with `stream: true` as chunks, ending in `data: [DONE]`.',
        content: asJsonOrEvents(
          'Completion',
          'Chunks as server-sent events; an error during the stream is a chunk with `error`.',
        ),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  embeddings: {
    summary: 'Create embeddings',
    description:
      'In OpenAI’s style, for providers with embedding models. Failover uses another key or provider of the same model, never another model. An unlisted name is passed on unchanged, and `auto` is the default model of the first provider that has one. `input_type` (`document`, `query`, `classification`, `clustering`) is translated for every provider with an equivalent.',
    takes: 'EmbeddingsRequest',
    gives: {
      '200': {
        description: 'One vector per input, in their order. `x-headgate-estimated`: the upstream did not count tokens.',
        content: asJson('Embeddings'),
      },
    },
    errors: [...MODEL_ERRORS, 426],
  },
  realtime: {
    summary: 'Connect to the Realtime API (WebSocket)',
    description:
      'A session with the model of the query, by WebSocket (`GET` with `Upgrade: websocket`, version 13). Each message is an event of OpenAI’s Realtime API and passes unchanged; OpenAPI cannot describe them. Web pages offer the subprotocols `realtime` and `openai-insecure-api-key.KEY`. Until the status 101 another key or provider of the same model may be tried. An error of the gateway in a session is an event `error`, and closes it.',
    query: z.object({ model: z.string().describe('The model; clients of Azure call it `deployment`.') }),
    gives: { '101': { description: 'The connection is a WebSocket.' } },
    errors: [400, 402, 404, 426, 429, 502, 503, 504],
  },
  countTokens: {
    summary: 'Count the tokens of a message (Anthropic style)',
    description:
      'Counted by the first target if it has this API style. Otherwise, or if it cannot count, estimated from the characters and marked with `x-headgate-estimated`.',
    takes: 'TokenCountRequest',
    gives: { '200': { description: 'The count.', content: asJson('TokenCount') } },
    errors: [...MODEL_ERRORS, 426],
  },
  inputTokens: {
    summary: 'Count the input tokens of a response',
    description:
      'Includes the turns that the request continues. Counted by the first target if it has this API style. Otherwise, or if it cannot count, estimated from the characters and marked with `x-headgate-estimated`.',
    takes: 'ResponseRequest',
    gives: { '200': { description: 'The count.', content: asJson('InputTokens') } },
    errors: [...MODEL_ERRORS, 426],
  },
  countContents: {
    summary: 'Count the tokens of contents (Google style)',
    description:
      'Counted by the first target if it has this API style. Otherwise, or if it cannot count, estimated from the characters and marked with `x-headgate-estimated`.',
    takes: 'GeminiRequest',
    gives: { '200': { description: 'The count.', content: asJson('GeminiTokenCount') } },
    errors: [...MODEL_ERRORS, 426],
  },
  embedContent: {
    summary: 'Create an embedding (Google style)',
    description:
      'As `/v1/embeddings`, for one content, whose texts have one vector together. `taskType` and `title` are named in `x-headgate-dropped` where the upstream has no equivalent.',
    takes: 'GeminiEmbedRequest',
    gives: { '200': { description: 'The vectors.', content: asJson('GeminiEmbedding') } },
    errors: [...MODEL_ERRORS, 426],
  },
  batchEmbedContents: {
    summary: 'Create embeddings (Google style)',
    description: 'As `/v1/embeddings`. All requests have the model of the path and the same `outputDimensionality`.',
    takes: 'GeminiBatchEmbedRequest',
    gives: { '200': { description: 'The vectors.', content: asJson('GeminiEmbeddings') } },
    errors: [...MODEL_ERRORS, 426],
  },
  predict: {
    summary: 'Create embeddings (Vertex AI style)',
    description: 'As `/v1/embeddings`. Predictions other than embeddings of texts are not served.',
    takes: 'VertexEmbedRequest',
    gives: { '200': { description: 'The vectors.', content: asJson('VertexEmbeddings') } },
    errors: [...MODEL_ERRORS, 426],
  },
  geminiModels: {
    summary: 'List the available models (Google style)',
    description: 'Also at `/v1/models`, for requests with `x-goog-api-key` or `x-goog-api-client`.',
    query: z.object({
      pageSize: z.int().min(0).max(1_000).default(50),
      pageToken: z.string().describe('`nextPageToken` of the previous page.'),
    }),
    gives: { '200': { description: 'The list.', content: asJson('GeminiModelList') } },
    errors: [400],
  },
  geminiModel: {
    summary: 'Retrieve a model (Google style)',
    gives: { '200': { description: 'The model.', content: asJson('GeminiModel') } },
    errors: [400, 404],
  },
  models: {
    summary: 'List the available models',
    gives: { '200': { description: 'The list, as last fetched from the providers.', content: asJson('ModelList') } },
  },
  model: {
    summary: 'Retrieve a model',
    gives: { '200': { description: 'The model.', content: asJson('Model') } },
    errors: [400, 404],
  },
  explain: {
    summary: 'Explain the routing of a request',
    description:
      'The body of a model call; nothing is sent upstream. Its API style is recognized by members that only one style has, or by the header `anthropic-version`.',
    query: z.object({
      style: z.enum([...clientProtocolByStyle.keys(), EMBEDDINGS]).describe('Sets the API style.'),
    }),
    takes: 'AnyRequest',
    gives: { '200': { description: 'The plan.', content: asJson('Plan') } },
    errors: [400, 404, 408, 413, 415, 503],
  },
  usage: {
    summary: 'Retrieve your own limits, budgets and use',
    description:
      'With the client’s key; no admin token is needed. By default the use of the last 30 days, by day and model.',
    query: z.object({
      from: z.string().describe('ISO 8601 with a zone, or a date in UTC. By default 30 days before `to`.'),
      to: z.string().describe('As `from`; by default now.'),
      session: z.string().describe('Only a session of the key: its ID, or its name as the client gives it.'),
      bucket: z.enum(['hour', 'day', 'none']).default('day'),
      tz: z.string().describe('The zone of days: `Europe/Berlin`.'),
      limit: z.int().min(1).max(10_000).default(1_000),
      after: z.string().describe('`next` of the previous page.'),
    }),
    gives: { '200': { description: 'The figures that also decide about requests.', content: asJson('OwnUsage') } },
    errors: [400, 503],
  },
  request: {
    summary: 'Retrieve a request of your own',
    description: 'With the key that made the request. Its ID is in the header `x-request-id` of the answer.',
    gives: { '200': { description: 'The request with its attempts.', content: asJson('OwnRequest') } },
    errors: [400, 404, 503],
  },
  health: {
    summary: 'Health of the gateway',
    gives: {
      '200': { description: 'The gateway serves requests.', content: asJson('Health') },
      '503': { description: 'The gateway is shutting down.', content: asJson('Health') },
    },
  },
  live: {
    summary: 'Liveness',
    gives: { '200': { description: 'The process is running.', content: asJson('State') } },
  },
  ready: {
    summary: 'Readiness',
    gives: {
      '200': { description: 'The gateway accepts requests.', content: asJson('State') },
      '503': {
        description: 'The gateway is shutting down, or has not read the client keys so far.',
        content: asJson('State'),
      },
    },
  },
  providersStatus: {
    summary: 'Circuits, keys and models of every provider',
    gives: { '200': { description: 'All providers, in configured order.', content: asJson('ProviderList') } },
  },
  metrics: {
    summary: 'Metrics for Prometheus',
    gives: { '200': { description: 'The text format.', content: { 'text/plain': { schema: { type: 'string' } } } } },
  },
  openapi: {
    summary: 'This API description',
    gives: { '200': { description: 'OpenAPI 3.1.', content: { 'application/json': { schema: { type: 'object' } } } } },
  },
}

const ERROR_DESCRIPTIONS: { readonly [status: number]: string } = {
  400: 'The request is not valid.',
  401: 'No key, or an unknown key.',
  402: 'A budget of the client is used up, or no provider has credit left.',
  403: 'The origin or host name is not allowed.',
  404: 'Not found.',
  408: 'The request took too long to arrive.',
  409: 'A conflict upstream.',
  413: 'The body is too large.',
  415: 'The body is not plain JSON.',
  422: 'The upstream refused the request as not valid.',
  426: 'This path does not support WebSocket.',
  429: 'A limit of the client’s key or team is reached, or every target is rate-limited or out of quota.',
  500: 'Internal gateway error.',
  502: 'Every target failed.',
  503: 'No target is available or configured, or the gateway is overloaded.',
  504: 'Every target timed out.',
}

const header = (description: string): JsonObject => ({ description, schema: { type: 'string' } })
const REQUEST_ID = { 'x-request-id': header('The client’s ID if valid, otherwise a generated one.') }
const ERROR_HEADERS = {
  ...REQUEST_ID,
  'x-should-retry': header(
    '`true` or `false`: whether a retry may succeed. The official SDKs obey it. `false` when `retry-after` exceeds 60, or 5 for `no_target_available`.',
  ),
  'retry-after': header('Seconds, on 429 and 503.'),
  'retry-after-ms': header('The same in milliseconds, where a limit of the client’s key or team refused the request.'),
  'x-headgate-limit': header(
    'The limit of the client that refused the request: `requests; id=key_…`, `tokens; id=…`, `concurrent; id=…`, or `budget; id=bud_…; resets=2026-12-01`.',
  ),
}
const LIMITED_ONLY = 'Only for keys and teams with such a limit.'
const CALL_HEADERS = {
  ...REQUEST_ID,
  'x-headgate-provider': header('The provider that answered.'),
  'x-headgate-model': header('The model that answered.'),
  'x-headgate-attempts': header('Number of attempts; skipped targets do not count.'),
  'x-headgate-trail': header(
    'Each attempt in order (provider, key ID, status or kind of failure), and each skipped target with its reason: `openai#a1f3:503, groq#09be:circuit, anthropic#77c0:200`. Reasons: `circuit`, `warming`, `retry_budget`, `budget` (a budget of the client cannot afford the target), `unfit`, `window`, or a cooldown such as `rate_limited`. At most twelve skipped targets are listed; `+3 skipped` counts the others.',
  ),
  'x-headgate-cost': header('Cost of a whole answer in dollars, all attempts included; absent if no price is known.'),
  'x-headgate-usage': header('Whether that cost is `exact` or `estimated`.'),
  'x-headgate-warning': header('Budgets that are exceeded but do not refuse: `budget research`.'),
  ...Object.fromEntries(
    ['requests', 'tokens'].flatMap((unit) => [
      [
        `x-ratelimit-limit-${unit}`,
        header(`The limit of ${unit} a minute of the client’s key or team, whichever has less left. ${LIMITED_ONLY}`),
      ],
      [`x-ratelimit-remaining-${unit}`, header(`What is left of it. ${LIMITED_ONLY}`)],
      [`x-ratelimit-reset-${unit}`, header(`Until it is full again: \`1s\`, \`6m0s\`. ${LIMITED_ONLY}`)],
    ]),
  ),
  'RateLimit-Policy': header(`The same limits: \`"requests";q=600;w=60\`. ${LIMITED_ONLY}`),
  RateLimit: header(`What is left of them: \`"requests";r=599;t=1\`. ${LIMITED_ONLY}`),
  'x-headgate-guards': header(
    'Rules of the operator that have masked texts of the request, with the number of texts: `pii=mask:3`.',
  ),
  [SWITCH_HEADER]: header(
    'A failure has moved the session to a target without its prompt cache, or it has come back: `moved; from=anthropic; cold=152k; cost=+0.4512`, `key; …`, `returned; from=bedrock; warm=148k; cold=3k`. Estimates of the prompt alone; `cost` is absent if a price is not known.',
  ),
  'x-headgate-loop': header(
    'The agent repeats itself: `loop; repeat=bash; times=6`, the level, the detector with the tool, and how often. See docs/sessions.md.',
  ),
  sunset: header(
    'When the provider ends the model, if the request named it itself (RFC 8594). See docs/retirement.md.',
  ),
  deprecation: header('Since when that is known (RFC 9745).'),
  'x-headgate-successor': header('The model that replaces it, as the operator named it.'),
  'x-headgate-dropped': header(
    'Members of the request that were dropped, as a comma-separated list of their paths in the body; on errors, those of the last attempt. A list that is too long ends in `... +37`, the number of omitted paths.',
  ),
}
/** Additional headers on paths of Anthropic's style. */
const EMBEDDINGS_HEADERS: JsonObject = {
  'x-headgate-estimated': header('`true`: the upstream did not count, and the tokens of the answer are an estimate.'),
}
const COUNT_HEADERS = {
  'x-headgate-estimated': header('`true`: no upstream could count, and the number is an estimate.'),
}

const MORE_HEADERS: { readonly [name in RouteName]?: JsonObject } = {
  countTokens: COUNT_HEADERS,
  countContents: COUNT_HEADERS,
  inputTokens: COUNT_HEADERS,
  embeddings: EMBEDDINGS_HEADERS,
  embedContent: EMBEDDINGS_HEADERS,
  batchEmbedContents: EMBEDDINGS_HEADERS,
  predict: EMBEDDINGS_HEADERS,
}

// `Object.keys` types the names as strings.
const EMBEDDINGS_ROUTES = Object.keys(embeddingsShapes) as (keyof typeof embeddingsShapes)[]

/** Calls with idempotency keys and coalescing. */
const SHARED: ReadonlySet<RouteName> = new Set([
  ...CHAT_ROUTES.map(([name]) => name),
  'responses',
  'compact',
  ...EMBEDDINGS_ROUTES,
  ...RELAY_ROWS.map(([name]) => name),
])

const SHARED_HEADERS: JsonObject = {
  'x-headgate-idempotent': header(
    'This is the response to an earlier request with the same `Idempotency-Key`. `joined`: it was in progress; `stored`: it was complete.',
  ),
  'x-headgate-coalesced': header('`true`: this is the response to an identical concurrent request.'),
  'x-headgate-cache': header(
    'Only if the response cache is on for the key, its team or the route. `hit; age=12`: a stored answer, received 12 s ago; `miss`: no stored answer; `bypass; why=tools`: the request is not cacheable.',
  ),
}

const KEY: JsonObject = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Identifies this request: a retry with the same key gets the first response from its beginning, also while it is in progress. With a different body or path it is refused (422).',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
}

const ID: JsonObject = {
  name: 'id',
  in: 'path',
  required: true,
  description: 'May contain a slash, encoded or not.',
  schema: { type: 'string' },
}

const METADATA: JsonObject = {
  name: 'x-headgate-metadata',
  in: 'header',
  required: false,
  description:
    '`body`: the last event of a stream before its end has `headgate: {"cost": "0.000045120", "usage": "exact"}`. Whole answers have the cost in headers.',
  schema: { type: 'string', enum: ['body'] },
}

/** Routes that show a plan, or what a plan would accept. */
const PLANNED: ReadonlySet<RouteName> = new Set(['models', 'model', 'explain'])

const REQUIRE: JsonObject = {
  name: REQUIRE_HEADER,
  in: 'header',
  required: false,
  description:
    'What providers must satisfy to receive the request, beside what its key and route require. Only facts that the operator declares count.',
  schema: { type: 'string', examples: ['region=eu,local; retention=0; training=no'] },
}

const GUARDS: JsonObject = {
  name: GUARDS_HEADER,
  in: 'header',
  required: false,
  description:
    'Guards of the operator that apply to this request too (`+name`), or do not (`-name`), where the operator permits it.',
  schema: { type: 'string', examples: ['+strict, -shield'] },
}

const BREAKPOINTS: JsonObject = {
  name: BREAKPOINTS_HEADER,
  in: 'header',
  required: false,
  description: '`auto`: cache marks are added to a request to Claude that has none; `off`: none are added.',
  schema: { type: 'string', enum: ['auto', 'off'] },
}

const anyObject = (): JsonObject => ({ 'application/json': { schema: { type: 'object' } } })

/** The body of a relayed endpoint: the members that the gateway reads, and those of the provider. */
const relayBody = ({ body, isJsonToo, model, isModelOptional, texts, file = 'file' }: RelayRow): JsonObject => {
  const text = { type: 'string' }
  const isForm = body === 'multipart'
  const properties = {
    [model]: text,
    ...Object.fromEntries(texts.map((name) => [name, isForm ? text : {}])),
    ...(isForm && { [file]: { type: 'string', format: 'binary' } }),
  }
  const required = [...(isModelOptional ? [] : [model]), ...(isForm ? [file] : [])]
  const schema = { type: 'object', properties, ...(required.length > 0 && { required }) }
  return {
    [isForm ? 'multipart/form-data' : 'application/json']: { schema },
    ...(isJsonToo && {
      'application/json': { schema: { type: 'object', properties: { [model]: text }, required: [model] } },
    }),
  }
}

/** The description of a chat call without one of its own. */
const chatOperation = (name: RouteName): ApiOperation => ({
  summary: `Create an answer (style \`${protocols[protocolAt(ROUTES[name].path)].style}\`)`,
  gives: {
    '200': {
      description: 'The answer, whole or as a stream.',
      content: { ...anyObject(), ...asEvents('The events of the format.') },
    },
  },
  errors: [...MODEL_ERRORS, 426],
})

const isRelay = (name: RouteName): name is RelayName => Object.hasOwn(RELAYS, name)

/** The description of a relayed endpoint. */
const relayOperation = (name: RelayName): ApiOperation => {
  const { summary, description, answer, events }: RelayRow = RELAYS[name]
  const content = {
    ...(answer !== 'bytes' && anyObject()),
    ...(answer === 'text' && { 'text/plain': { schema: { type: 'string' } } }),
    ...(answer === 'bytes' && { 'audio/*': { schema: { type: 'string', format: 'binary' } } }),
    ...(events && asEvents('The events of the provider.')),
  }
  return {
    summary,
    description,
    gives: { '200': { description: 'The answer of the provider.', content } },
    errors: [...MODEL_ERRORS, 426],
  }
}

/** Whether the route is the call of a format whose streams can state their cost. */
const statesCost = (name: RouteName): boolean => {
  const { path, protocol }: { readonly path: string; readonly protocol?: ClientProtocolName } = ROUTES[name]
  const format: ClientProtocol | undefined = protocol && protocols[protocol]
  return format?.statesCost !== undefined && path.endsWith(format.path)
}

const operationOf = (name: RouteName): ApiOperation =>
  OPERATIONS[name] ?? (isRelay(name) ? relayOperation(name) : chatOperation(name))

/** The parameters of the path, of the query and of the headers. */
const allParameters = (name: RouteName, path: string): readonly JsonObject[] => [
  ...(path.includes('{id}') ? [ID] : []),
  ...parametersOf(operationOf(name).query, 'query'),
  ...(SHARED.has(name) ? [KEY] : []),
  ...(statesCost(name) ? [METADATA] : []),
  ...(ROUTES[name].model || PLANNED.has(name) ? [REQUIRE] : []),
  ...(ROUTES[name].model ? [GUARDS] : []),
  ...(statesCost(name) ? [BREAKPOINTS] : []),
]

const operation = (name: RouteName, path: string): JsonObject => {
  const { summary, description, takes, gives, errors = [] } = operationOf(name)
  const { access, model, serves }: RouteRow = ROUTES[name]
  const { errorIdHeader, errorSchema = 'Error' } = protocols[protocolAt(path)]
  const ids: JsonObject =
    errorIdHeader === undefined
      ? {}
      : { [errorIdHeader]: header('The same as `x-request-id`, under the name that clients of this format read.') }
  const more = { ...ids, ...MORE_HEADERS[name] }
  const always = access === 'open' ? [400, 403, 500] : [400, 401, 403, 500]
  const failures = [...new Set([...always, ...errors])]
    .filter((status) => gives[status] === undefined)
    .sort((a, b) => a - b)
  const parameters = allParameters(name, path)
  return {
    // Client generators require unique names.
    operationId: path === ROUTES[name].path ? name : `${name}Unprefixed`,
    summary,
    ...(description && { description }),
    ...(access !== 'open' && { security: [{ bearer: [] }, { apiKey: [] }, {}] }),
    ...(parameters.length > 0 && { parameters }),
    ...((takes || serves) && {
      requestBody: {
        required: true,
        content: takes ? asJson(takes) : isRelay(name) ? relayBody(RELAYS[name]) : anyObject(),
      },
    }),
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
            description: ERROR_DESCRIPTIONS[status] ?? 'An error.',
            headers: { ...ERROR_HEADERS, ...ids },
            content: asJson(errorSchema),
          },
        ]),
      ),
    },
  }
}

/** The JSON Schemas of the bodies, by name. */
const jsonSchemas = (): JsonObject => {
  const named = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(SCHEMAS)) named.add(schema, { id })
  const { schemas } = z.toJSONSchema(named, {
    uri: (id) => SCHEMAS_AT + id,
    override: ({ jsonSchema }) => {
      // The bounds of every integer that JavaScript is exact about.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
    },
  })
  return Object.fromEntries(
    // JSON by the definition of JSON Schema.
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, withTypeLists(schema as Json)]),
  )
}

/** Nullable members as a list of types: some generators misread `anyOf` with null (samchungy/zod-openapi#554). */
const withTypeLists = (value: Json): Json => {
  if (isList(value)) return value.map(withTypeLists)
  if (!isObject(value)) return value
  const { anyOf, ...rest } = Object.fromEntries(
    Object.entries(value).map(([name, part = null]) => [name, withTypeLists(part)]),
  )
  const [one, none, ...more] = list(anyOf)
  if (!isObject(one) || typeof one.type !== 'string' || more.length > 0 || object(none)?.type !== 'null')
    return anyOf === undefined ? rest : { ...rest, anyOf }
  const values = isList(one.enum) && { enum: [...one.enum, null] }
  return { ...one, ...values, type: [one.type, 'null'], ...rest }
}

/** Creates the API description. */
export const openapi = (version: string): JsonObject => {
  const paths: { [path: string]: JsonObject } = {}
  // `Object.keys` types the names as strings.
  for (const name of Object.keys(ROUTES) as RouteName[])
    for (const path of pathsOf(ROUTES[name].path))
      paths[path] = { ...paths[path], [ROUTES[name].method.toLowerCase()]: operation(name, path) }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Headgate',
      version,
      description: 'One address for text-generation models of every provider. HEAD is served wherever GET is.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: {
      schemas: jsonSchemas(),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  }
}
