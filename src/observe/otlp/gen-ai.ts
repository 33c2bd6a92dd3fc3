/**
 * Names of telemetry: `open-telemetry/semantic-conventions-genai` v0.1.0 (Development) over semantic conventions 1.45, and
 * our own. The only file that a new version changes; `test/conformance/otel` compares it with the registry.
 */
import type { SpanFacts } from '../../core/journal.ts'
import { RELAYS } from '../../core/relay.ts'
import { STYLE_PATHS } from '../../core/request-styles.ts'

export const SCHEMA_URL = 'https://opentelemetry.io/schemas/gen-ai/0.1.0'
export const SCOPE = 'headgate'

/** Attributes of both spans, by what they state. */
export const ATTRIBUTES = {
  errorType: 'error.type',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  method: 'http.request.method',
  httpRoute: 'http.route',
  path: 'url.path',
  scheme: 'url.scheme',
  status: 'http.response.status_code',
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  model: 'gen_ai.request.model',
  stream: 'gen_ai.request.stream',
  maxTokens: 'gen_ai.request.max_tokens',
  temperature: 'gen_ai.request.temperature',
  topP: 'gen_ai.request.top_p',
  topK: 'gen_ai.request.top_k',
  seed: 'gen_ai.request.seed',
  choices: 'gen_ai.request.choice.count',
  effort: 'gen_ai.request.reasoning.level',
  outputType: 'gen_ai.output.type',
  conversation: 'gen_ai.conversation.id',
  responseId: 'gen_ai.response.id',
  responseModel: 'gen_ai.response.model',
  finishReasons: 'gen_ai.response.finish_reasons',
  firstChunk: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheRead: 'gen_ai.usage.cache_read.input_tokens',
  cacheWrite: 'gen_ai.usage.cache_write.input_tokens',
  reasoning: 'gen_ai.usage.reasoning.output_tokens',
  /** Of version 1.41. */
  cacheCreation: 'gen_ai.usage.cache_creation.input_tokens',
  requestId: 'headgate.request.id',
  clientRequestId: 'headgate.request.client_id',
  team: 'headgate.team',
  key: 'headgate.key.id',
  route: 'headgate.route',
  cache: 'headgate.cache',
  attempts: 'headgate.attempts',
  cost: 'headgate.cost_nano',
  overhead: 'headgate.overhead_us',
  session: 'headgate.session.id',
  agent: 'headgate.session.agent',
  outcome: 'headgate.outcome',
  attempt: 'headgate.attempt.n',
  attemptOutcome: 'headgate.attempt.outcome',
  credential: 'headgate.attempt.credential',
  hedge: 'headgate.attempt.hedge',
  instance: 'headgate.provider',
  estimatedInput: 'headgate.estimated.input_tokens',
  estimatedOutput: 'headgate.estimated.output_tokens',
} as const

export const EVENTS = { firstChunk: 'first_chunk', retry: 'retry', continued: 'continued' } as const

/** `gen_ai.provider.name` of our providers that the registry lists. Others keep their name. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['azure-openai', 'azure.ai.openai'],
  ['bedrock', 'aws.bedrock'],
  ['gemini', 'gcp.gemini'],
  ['mistral', 'mistral_ai'],
  ['moonshot', 'moonshot_ai'],
  ['vertex', 'gcp.vertex_ai'],
  ['xai', 'x_ai'],
])

/** `vendor`: the kind of provider, such as `openai`. */
export const providerName = (vendor: string): string => PROVIDERS.get(vendor) ?? vendor

const OPERATIONS: ReadonlyMap<string, string> = new Map([
  ['messages', 'chat'],
  ['responses', 'chat'],
  ['completions', 'text_completion'],
])

/** `gen_ai.operation.name`. `protocol`: the wire format of the provider. Endpoints that the registry does not know keep their name. */
export const operationName = (style: string, { protocol }: Pick<SpanFacts, 'protocol'>): string =>
  FORMATS.get(protocol ?? '') ?? OPERATIONS.get(style) ?? style

/** By the wire format of the provider. */
const FORMATS: ReadonlyMap<string, string> = new Map([['gemini', 'generate_content']])

const OUTPUTS: ReadonlyMap<string, string> = new Map([
  ['text', 'text'],
  ['speech', 'speech'],
  ['transcriptions', 'text'],
  ['translations', 'text'],
])

/** `gen_ai.output.type`. `format`: the one that the request asks for. Undefined: none. */
export const outputType = (style: string, format: string | undefined): string | undefined =>
  format === undefined ? OUTPUTS.get(style) : (OUTPUTS.get(format) ?? 'json')

const PATHS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(STYLE_PATHS),
  ...Object.entries(RELAYS).map(([name, { path }]): [string, string] => [name, path]),
  ['count_tokens', '/messages/count_tokens'],
])

/** `http.route` of a style; undefined: it was no call of a known path. */
export const routeOf = (style: string): string | undefined => {
  const path = PATHS.get(style)
  return path === undefined ? undefined : `/v1${path}`
}

type MetricRow = { readonly unit: 's' | '{token}'; readonly about: string; readonly bounds: readonly number[] | null }

/** Bounds that the conventions state for seconds, the first token, and tokens. */
const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const TOKENS = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864]

/** `bounds`: of a histogram; null: a counter. */
export const METRICS = {
  'gen_ai.client.inference.duration': { unit: 's', about: 'Duration of an attempt.', bounds: SECONDS },
  'gen_ai.client.inference.time_to_first_chunk': {
    unit: 's',
    about: 'Time to the first content of a stream.',
    bounds: SECONDS,
  },
  'gen_ai.client.inference.operation.input_tokens': { unit: '{token}', about: 'Input tokens.', bounds: TOKENS },
  'gen_ai.client.inference.operation.output_tokens': { unit: '{token}', about: 'Output tokens.', bounds: TOKENS },
  'gen_ai.client.inference.usage.input_tokens': { unit: '{token}', about: 'Input tokens.', bounds: null },
  'gen_ai.client.inference.usage.output_tokens': { unit: '{token}', about: 'Output tokens.', bounds: null },
  'gen_ai.client.inference.usage.cache_read.input_tokens': {
    unit: '{token}',
    about: 'Input tokens from the cache of the provider.',
    bounds: null,
  },
  'gen_ai.client.inference.usage.cache_write.input_tokens': {
    unit: '{token}',
    about: 'Input tokens written to the cache of the provider.',
    bounds: null,
  },
  'gen_ai.client.inference.usage.reasoning.output_tokens': {
    unit: '{token}',
    about: 'Output tokens of reasoning.',
    bounds: null,
  },
  'gen_ai.client.operation.duration': {
    unit: 's',
    about: 'Duration of an attempt without inference.',
    bounds: SECONDS,
  },
  'gen_ai.server.request.duration': {
    unit: 's',
    about: 'Time from a request to the end of its answer.',
    bounds: SECONDS,
  },
  'gen_ai.server.time_to_first_token': {
    unit: 's',
    about: 'Time from a request to the first content of its stream.',
    bounds: FIRST_TOKEN,
  },
} as const satisfies Record<string, MetricRow>
export type MetricName = keyof typeof METRICS
