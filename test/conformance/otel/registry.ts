/**
 * Spans against the registry of the conventions for generative AI. The tables are the attributes of `gen_ai.client.inference`
 * and its enumerations in open-telemetry/semantic-conventions-genai, `docs/gen-ai/client-inference.md` at commit
 * 024a4f944a1291fcb627c9c47da69e79868dd15e, and those of `span.http.server` in semantic-conventions (commit
 * 384d66161cb18704c729645fa8136a148df9571c). The metrics are those of the same page, and of `model/gen-ai/token-metrics.yaml` at commit
 * 066d4a7f356f8600de6f10c42874626ab88692fb; those of the server as in semantic-conventions before they moved (85b343abc).
 */
import type { OtlpValue, ReceivedMetric, ReceivedSpan } from '../../support/otlp.ts'

type Kind = 'string' | 'int' | 'double' | 'boolean' | 'string[]'
type Row = { readonly kind: Kind; readonly isRequired?: true; readonly isOptIn?: true }

const [TEXT, INT, DOUBLE] = [{ kind: 'string' }, { kind: 'int' }, { kind: 'double' }] as const

const CLIENT: Readonly<Record<string, Row>> = {
  'gen_ai.operation.name': { kind: 'string', isRequired: true },
  'gen_ai.provider.name': { kind: 'string', isRequired: true },
  'error.type': TEXT,
  'gen_ai.conversation.id': TEXT,
  'gen_ai.output.type': TEXT,
  'gen_ai.prompt.name': TEXT,
  'gen_ai.prompt.version': TEXT,
  'gen_ai.request.choice.count': INT,
  'gen_ai.request.model': TEXT,
  'gen_ai.request.seed': INT,
  'gen_ai.request.stream': { kind: 'boolean' },
  'gen_ai.request.top_k': INT,
  'server.port': INT,
  'gen_ai.conversation.compacted': { kind: 'boolean' },
  'gen_ai.request.frequency_penalty': DOUBLE,
  'gen_ai.request.max_tokens': INT,
  'gen_ai.request.presence_penalty': DOUBLE,
  'gen_ai.request.previous_response.id': TEXT,
  'gen_ai.request.reasoning.level': TEXT,
  'gen_ai.request.stop_sequences': { kind: 'string[]' },
  'gen_ai.request.temperature': DOUBLE,
  'gen_ai.request.top_p': DOUBLE,
  'gen_ai.response.finish_reasons': { kind: 'string[]' },
  'gen_ai.response.id': TEXT,
  'gen_ai.response.model': TEXT,
  'gen_ai.response.time_to_first_chunk': DOUBLE,
  'gen_ai.usage.cache_read.input_tokens': INT,
  'gen_ai.usage.cache_write.input_tokens': INT,
  'gen_ai.usage.input_tokens': INT,
  'gen_ai.usage.output_tokens': INT,
  'gen_ai.usage.reasoning.output_tokens': INT,
  'server.address': TEXT,
  'gen_ai.input.messages': { kind: 'string', isOptIn: true },
  'gen_ai.output.messages': { kind: 'string', isOptIn: true },
  'gen_ai.system_instructions': { kind: 'string', isOptIn: true },
  'gen_ai.tool.definitions': { kind: 'string', isOptIn: true },
}

const SERVER: Readonly<Record<string, Row>> = {
  'http.request.method': { kind: 'string', isRequired: true },
  'url.path': { kind: 'string', isRequired: true },
  'url.scheme': { kind: 'string', isRequired: true },
  'http.route': TEXT,
  'http.response.status_code': INT,
  'error.type': TEXT,
}

/** Well-known values: one of them must be used where it applies. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  'gen_ai.provider.name': [
    ...['anthropic', 'aws.bedrock', 'azure.ai.inference', 'azure.ai.openai', 'cohere', 'deepseek', 'gcp.gemini'],
    ...['gcp.gen_ai', 'gcp.vertex_ai', 'groq', 'ibm.watsonx.ai', 'mistral_ai', 'moonshot_ai', 'openai', 'perplexity'],
    'x_ai',
  ],
  'gen_ai.operation.name': ['chat', 'embeddings', 'generate_content', 'text_completion'],
  'gen_ai.output.type': ['image', 'json', 'speech', 'text'],
}

/** Values of ours that the registry does not know: a provider of the operator, and endpoints that are relayed. */
const OWN: ReadonlySet<OtlpValue> = new Set(['openai-compatible', 'demo', 'moderations', 'speech'])

/** What of a span the registry does not allow. */
export const violations = ({ kind, name, attributes }: ReceivedSpan): readonly string[] => {
  const rows = kind === 2 ? SERVER : CLIENT
  const found = Object.entries(attributes).flatMap(([key, value]) => {
    if (key.startsWith('headgate.')) return []
    const row = rows[key]
    if (!row) return [`${name}: ${key} is no attribute of the span`]
    if (row.isOptIn) return [`${name}: ${key} is opt-in`]
    if (!isOf(row.kind, value)) return [`${name}: ${key} is no ${row.kind}: ${JSON.stringify(value)}`]
    const isUnknown =
      VALUES[key] && !VALUES[key].includes(String(value)) && !OWN.has(value) && !isLost(attributes, value)
    return isUnknown ? [`${name}: ${key} has the unknown value ${value}`] : []
  })
  const missing = Object.entries(rows).flatMap(([key, { isRequired }]) =>
    isRequired && attributes[key] === undefined ? [`${name}: ${key} is missing`] : [],
  )
  const { 'gen_ai.operation.name': operation, 'gen_ai.request.model': model } = attributes
  const isNamed = kind === 2 || name === `${operation} ${model}`
  return [...found, ...missing, ...(isNamed ? [] : [`${name}: not named by operation and model`])]
}

/** The process of the attempt was killed, so that only the ID of its provider is known. */
const isLost = (attributes: ReceivedSpan['attributes'], value: OtlpValue): boolean =>
  attributes['headgate.attempt.outcome'] === 'unknown' && attributes['headgate.provider'] === value

/** JavaScript has one type of numbers, so a double without a fraction is written as an integer. */
const isOf = (kind: Kind, value: OtlpValue): boolean => {
  switch (kind) {
    case 'int':
      return Number.isSafeInteger(value)
    case 'double':
      return typeof value === 'number'
    case 'string[]':
      return Array.isArray(value) && value.every((one) => typeof one === 'string')
    default:
      return typeof value === kind
  }
}

type MetricRow = {
  readonly unit: string
  readonly kind: ReceivedMetric['kind']
  readonly bounds?: readonly number[]
  /** Besides those of the target. */
  readonly more: readonly string[]
}

const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
const duration = { unit: 's', kind: 'histogram', bounds: SECONDS, more: ['error.type'] } as const
const first = { ...duration, more: [] } as const
const perOperation = { unit: '{token}', kind: 'histogram', bounds: TOKENS, more: ['error.type'] } as const
const usage = { unit: '{token}', kind: 'counter', more: ['gen_ai.token.modality'] } as const

const KNOWN_METRICS: Readonly<Record<string, MetricRow>> = {
  'gen_ai.client.inference.duration': duration,
  'gen_ai.client.inference.time_to_first_chunk': first,
  'gen_ai.client.inference.operation.input_tokens': perOperation,
  'gen_ai.client.inference.operation.output_tokens': perOperation,
  'gen_ai.client.inference.usage.input_tokens': usage,
  'gen_ai.client.inference.usage.output_tokens': usage,
  'gen_ai.client.inference.usage.cache_read.input_tokens': usage,
  'gen_ai.client.inference.usage.cache_write.input_tokens': usage,
  'gen_ai.client.inference.usage.reasoning.output_tokens': usage,
  'gen_ai.client.operation.duration': duration,
  'gen_ai.server.request.duration': duration,
  'gen_ai.server.time_to_first_token': { ...first, bounds: FIRST_TOKEN },
}
const REQUIRED = ['gen_ai.operation.name', 'gen_ai.provider.name']
const OF_TARGET = [...REQUIRED, 'gen_ai.request.model', 'gen_ai.response.model', 'server.address', 'server.port']

/** What of a metric the registry does not allow. */
export const metricViolations = ({ name, unit, kind, points }: ReceivedMetric): readonly string[] => {
  const row = KNOWN_METRICS[name]
  if (!row) return [`${name} is no metric`]
  const wrong = unit === row.unit && kind === row.kind ? [] : [`${name}: ${kind} in ${unit}`]
  const ofPoints = points.flatMap(({ attributes, bounds }) => [
    ...Object.keys(attributes).flatMap((key) =>
      OF_TARGET.includes(key) || row.more.includes(key) ? [] : [`${name}: ${key} is no attribute of it`],
    ),
    ...REQUIRED.flatMap((key) => (attributes[key] === undefined ? [`${name}: ${key} is missing`] : [])),
    ...(JSON.stringify(bounds) === JSON.stringify(row.bounds) ? [] : [`${name}: bounds ${bounds}`]),
    ...(kind === 'counter' && attributes['gen_ai.token.modality'] === undefined ? [`${name}: no modality`] : []),
  ])
  return [...wrong, ...ofPoints]
}
