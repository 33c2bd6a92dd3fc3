/**
 * Bedrock's InvokeModel for Claude, as strict as the vendor: it knows the members and betas that refusals in public threads name, and answers
 * with the events of recordings (bedrock-bedrock-invoke-tool-streaming-*).
 */
import { isObject, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { event } from './event-stream.ts'
import type { Act, UpstreamRequest } from './upstream.ts'

/** docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html (2026-11-28). */
const MEMBERS = new Set(
  'anthropic_version anthropic_beta max_tokens system messages temperature top_p top_k tools tool_choice stop_sequences thinking metadata output_config context_management'.split(
    ' ',
  ),
)

const NEEDS: readonly (readonly [beta: string, isUsed: (body: JsonObject) => string | undefined])[] = [
  [
    'context-management-2025-06-27',
    (body) => (body.context_management === undefined ? undefined : 'context_management'),
  ],
  [
    'tool-search-tool-2025-10-19',
    ({ tools }) => {
      const at = list(tools).findIndex((tool) => object(tool)?.defer_loading !== undefined)
      return at === -1 ? undefined : `tools.${at}.custom.defer_loading`
    },
  ],
]

/** A refusal, as AWS writes it. */
export const awsRefusal = (status: number, type: string, message: string): Act => ({
  do: 'answer',
  status,
  headers: {
    'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
    'x-amzn-requestid': 'r-1',
  },
  body: { message },
})

/** The refusal of a body that InvokeModel does not take; undefined: it does. `betas`: those that the model takes. */
export const invokeProblem = ({ json, path }: UpstreamRequest, betas: readonly string[]): Act | undefined => {
  const refuse = (message: string) => awsRefusal(400, 'ValidationException', message)
  if (!/^\/model\/[^/]+\/invoke(?:-with-response-stream)?$/.test(path))
    return awsRefusal(404, 'UnknownOperationException', '')
  if (json.anthropic_version !== 'bedrock-2023-05-31') return refuse('anthropic_version: Field required')
  for (const member of Object.keys(json))
    if (!MEMBERS.has(member)) return refuse(`${member}: Extra inputs are not permitted`)
  if (object(json.tool_choice)?.disable_parallel_tool_use !== undefined)
    return refuse('tool_choice.auto.disable_parallel_tool_use: Extra inputs are not permitted')
  const named = list(json.anthropic_beta)
  if (named.some((beta) => !betas.includes(text(beta) ?? ''))) return refuse('invalid beta flag')
  for (const [beta, isUsed] of NEEDS) {
    const member = isUsed(json)
    if (member !== undefined && !named.includes(beta)) return refuse(`${member}: Extra inputs are not permitted`)
  }
  return undefined
}

/** One event in a chunk, with padding. */
export const chunk = (inner: JsonObject | string): Uint8Array =>
  event('chunk', {
    bytes: Buffer.from(typeof inner === 'string' ? inner : JSON.stringify(inner)).toString('base64'),
    p: 'abcdefgh',
  })

const METRICS = { inputTokenCount: 9, outputTokenCount: 5, invocationLatency: 2_082, firstByteLatency: 1_050 }

const start = (more: JsonObject = {}): JsonObject => ({
  type: 'message_start',
  message: {
    model: 'claude-sonnet-4-5-20250929',
    id: 'msg_bdrk_017MJgn1W8myVyhQVPBZrthw',
    type: 'message',
    role: 'assistant',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 9, cache_creation_input_tokens: 0, cache_read_input_tokens: 100, output_tokens: 1 },
    ...more,
  },
})

/** The events of an answer with these content blocks. */
export const invokeEvents = (content: readonly JsonObject[]): JsonObject[] => [
  start(),
  ...content.flatMap((block, index): JsonObject[] => {
    const delta = (inner: JsonObject) => ({ type: 'content_block_delta', index, delta: inner })
    const few = (words: unknown) => String(words).match(/[\s\S]{1,6}/gu) ?? []
    const [opening, deltas] =
      block.type === 'text'
        ? [{ type: 'text', text: '' }, few(block.text).map((words) => delta({ type: 'text_delta', text: words }))]
        : block.type === 'thinking'
          ? [
              { type: 'thinking', thinking: '', signature: '' },
              [
                ...few(block.thinking).map((thinking) => delta({ type: 'thinking_delta', thinking })),
                delta({ type: 'signature_delta', signature: block.signature ?? '' }),
              ],
            ]
          : [
              { ...block, input: {} },
              few(JSON.stringify(block.input)).map((part) => delta({ type: 'input_json_delta', partial_json: part })),
            ]
    return [
      { type: 'content_block_start', index, content_block: opening },
      ...deltas,
      { type: 'content_block_stop', index },
    ]
  }),
  {
    type: 'message_delta',
    delta: { stop_reason: reasonOf(content), stop_sequence: null },
    usage: { output_tokens: 5 },
  },
  { type: 'message_stop', 'amazon-bedrock-invocationMetrics': METRICS },
]

const reasonOf = (content: readonly JsonObject[]): string =>
  content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn'

/** A whole answer or a stream, as the path asks. */
export const invokeAnswer = ({ path }: UpstreamRequest, content: readonly JsonObject[]): Act => {
  if (path.endsWith('/invoke-with-response-stream'))
    return {
      do: 'stream',
      headers: {
        'content-type': 'application/vnd.amazon.eventstream',
        'x-amzn-bedrock-content-type': 'application/json',
      },
      pieces: invokeEvents(content).map(chunk),
      slice: 17,
    }
  const [first] = invokeEvents([])
  const message = isObject(first) ? object(first.message) : undefined
  return { do: 'answer', body: { ...message, content, stop_reason: reasonOf(content) } }
}
