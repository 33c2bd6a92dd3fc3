/**
 * Classifies every recording: the row of the table it belongs to, or the reason for its exclusion. Tests take recordings
 * from here, so that none is left out silently (`recording-index.test.ts`).
 */
import type { EmbeddingsProtocol } from '../../src/core/embeddings.ts'
import type { FailureKind } from '../../src/core/failure.ts'
import { type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { UpstreamProtocol } from '../../src/core/protocol.ts'
import { embeddingsProtocols } from '../../src/protocols/embeddings/index.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { allRecordings, type Recording } from '../support/recordings.ts'

export type Classification =
  | { readonly is: 'answer'; readonly protocol: UpstreamProtocol }
  /** `kind`: the kind of a failure that came with status 200. */
  | { readonly is: 'failure'; readonly protocol: UpstreamProtocol; readonly kind?: FailureKind }
  | { readonly is: 'embeddings'; readonly protocol: EmbeddingsProtocol }
  | { readonly is: 'count' }
  | { readonly is: 'models' }
  | { readonly is: 'excluded'; readonly why: string }

export type IndexedRecording = { readonly recording: Recording; readonly classification: Classification }

// ── Single recordings ────────────────────────────────────────────────────────────────────────────────────────────

/** Recordings that their source filed under another format than their own. */
const MISFILED: ReadonlyMap<string, UpstreamProtocol> = new Map([
  ['azure-responses-azure-deepseek-reasoning-', upstreamProtocols['openai-chat']],
  ['ollama-ollama-structured-with-multiple-tools-structured-mode-', upstreamProtocols['openai-chat']],
])

/** Failures with status 200, and their kind. */
const FAILURES_WITH_200: ReadonlyMap<string, FailureKind> = new Map([
  // Azure's content filter responds with a 200.
  ['azure-chat-test-prompt-content-filtering-with-events-with-n-98ddde0e', 'content_policy'],
  // Groq reports in the stream that the model wrote no tool call.
  ['groq-chat-test-tool-use-failed-error-streaming-with-text-564fca61', 'malformed'],
  // OpenRouter reports its provider's error in a chunk.
  ['openrouter-chat-test-openrouter-stream-error', 'incompatible'],
  ['openai-responses-openai-error-1-chunks', 'quota'],
  ['openai-responses-stream-rate-limited-1', 'token_rate'],
  ['openai-responses-stream-unknown-error-responses-1', 'error_in_stream'],
])

/** Recordings of calls that the gateway does not make. */
const UNSUPPORTED_CALLS: ReadonlyMap<string, string> = new Map([
  ['gemini-gemini-use-cache-with-structured-1', 'an answer of cachedContents, which the gateway does not call'],
  ['gemini-gemini-use-cache-with-text-1', 'an answer of cachedContents, which the gateway does not call'],
  ['mistral-mistral-ocr-response-1-', 'an answer of the OCR API, which the gateway does not call'],
])

const byIdPrefix = <T>(table: ReadonlyMap<string, T>, id: string): T | undefined =>
  [...table].find(([start]) => id.startsWith(start))?.[1]

/** Every id prefix of the tables above. */
export const EXCEPTIONS: readonly string[] = [...MISFILED, ...FAILURES_WITH_200, ...UNSUPPORTED_CALLS].map(
  ([start]) => start,
)

// ── By API ──────────────────────────────────────────────────────────────────────────────────────────────────────

const excluded = (why: string): Classification => ({ is: 'excluded', why })

const answerOrFailure = (recording: Recording, protocol: UpstreamProtocol): Classification => {
  const kind = byIdPrefix(FAILURES_WITH_200, recording.id)
  if (kind) return { is: 'failure', protocol, kind }
  return { is: (recording.status ?? 200) < 400 ? 'answer' : 'failure', protocol }
}

const isPending = ({ response }: Recording): boolean =>
  ['queued', 'in_progress'].includes(text(object(response)?.status) ?? '')

const classifyResponses = (recording: Recording): Classification =>
  isPending(recording)
    ? excluded('a background response that is still in progress')
    : answerOrFailure(recording, upstreamProtocols['openai-responses'])

const classifyGemini = (recording: Recording): Classification => {
  const isUnexpectedCall = (body: Json): boolean =>
    list(object(body)?.candidates).some((one) => object(one)?.finishReason === 'UNEXPECTED_TOOL_CALL')
  const protocol = upstreamProtocols.gemini
  return isUnexpectedCall(recording.response)
    ? { is: 'failure', protocol, kind: 'malformed' }
    : answerOrFailure(recording, protocol)
}

/** The older version of the API has another path and another format, but the same errors. */
const classifyCohere = (recording: Recording): Classification => {
  const { request, response, chunks, status } = recording
  const isOlder =
    Object.hasOwn(object(request) ?? {}, 'message') ||
    Object.hasOwn(object(response) ?? {}, 'generation_id') ||
    chunks?.some((chunk) => chunk.includes('"event_type"')) === true
  return isOlder && (status ?? 200) < 400
    ? excluded('version 1 of the API (/v1/chat); the gateway uses version 2')
    : answerOrFailure(recording, upstreamProtocols.cohere)
}

/** InvokeModel bodies are in the model's own format: messages for Claude, Converse for Nova. Errors are Bedrock's. */
const classifyInvokeModel = (recording: Recording): Classification => {
  const { request, status } = recording
  const body = object(request)
  if ((status ?? 200) >= 400) return { is: 'failure', protocol: upstreamProtocols['bedrock-converse'] }
  if (body?.anthropic_version !== undefined) return answerOrFailure(recording, upstreamProtocols['anthropic-messages'])
  if (body?.messages !== undefined) return answerOrFailure(recording, upstreamProtocols['bedrock-converse'])
  return excluded('InvokeModel with the model’s own format (Titan, Llama, Jurassic …); the gateway uses Converse')
}

const classifyEmbeddings = (name: keyof typeof embeddingsProtocols, member: string, otherwise = '') => {
  return ({ provider, response, status }: Recording): Classification => {
    if ((status ?? 200) < 400 && !Object.hasOwn(object(response) ?? {}, member)) return excluded(otherwise)
    if (provider === 'perplexity')
      return excluded('vectors of bytes, not floats: the gateway does not use Perplexity for embeddings')
    return { is: 'embeddings', protocol: embeddingsProtocols[name] }
  }
}

const answersOf = (name: keyof typeof upstreamProtocols) => (recording: Recording) =>
  answerOrFailure(recording, upstreamProtocols[name])

const alwaysExcluded = (why: string) => (): Classification => excluded(why)

/** The classifier of each API; an unknown API fails the test. */
const CLASSIFIERS: { readonly [api: string]: (recording: Recording) => Classification } = {
  chat: answersOf('openai-chat'),
  responses: classifyResponses,
  'responses-retrieve': classifyResponses,
  'responses-compact': alwaysExcluded('a compacted conversation: the gateway compacts itself'),
  'responses-input-tokens': alwaysExcluded(
    'a token count in the format of responses, which the gateway does not request',
  ),
  messages: answersOf('anthropic-messages'),
  'messages-count-tokens': () => ({ is: 'count' }),
  gemini: classifyGemini,
  'gemini-count-tokens': alwaysExcluded('a token count in Gemini’s format, which no client format uses'),
  'bedrock-converse': answersOf('bedrock-converse'),
  'bedrock-invoke': classifyInvokeModel,
  mistral: answersOf('mistral'),
  'mistral-conversations': alwaysExcluded('Mistral’s agents API, which the gateway does not call'),
  cohere: classifyCohere,
  ollama: answersOf('ollama'),
  completions: alwaysExcluded(
    'an answer of the older completions, which the gateway uses with clients only (their requests are translated, see below)',
  ),
  embeddings: classifyEmbeddings('openai-embeddings', 'data'),
  'cohere-embed': classifyEmbeddings('cohere-embeddings', 'embeddings'),
  'gemini-embed': classifyEmbeddings(
    'gemini-embeddings',
    'embeddings',
    'embedContent, for one text; the gateway uses batchEmbedContents',
  ),
  'google-vertex-embed': classifyEmbeddings('vertex-embeddings', 'predictions'),
  'ollama-embed': alwaysExcluded('/api/embed; the gateway uses Ollama’s OpenAI-compatible path'),
  models: () => ({ is: 'models' }),
}

export const classify = (recording: Recording): Classification => {
  const reason = byIdPrefix(UNSUPPORTED_CALLS, recording.id)
  if (reason) return excluded(reason)
  const protocol = byIdPrefix(MISFILED, recording.id)
  if (protocol) return answerOrFailure(recording, protocol)
  const classifier = CLASSIFIERS[recording.api]
  if (!classifier) throw new Error(`no classifier for ${recording.api} (${recording.id})`)
  return classifier(recording)
}

// ── Index ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Takes the model's own events out of InvokeModel messages (`{"chunk": {…}}`); those of Claude become SSE frames. */
const unwrapInvokeModel = (
  recording: Recording,
  { is }: Classification,
  protocol: UpstreamProtocol | undefined,
): Recording => {
  if (recording.api !== 'bedrock-invoke' || is !== 'answer' || !recording.chunks) return recording
  // Guardrails and metrics are members beside the event.
  const inner = recording.chunks.map((chunk) =>
    Object.entries(object(object(JSON.parse(chunk))?.chunk) ?? {}).filter(
      ([name]) => !name.startsWith('amazon-bedrock-'),
    ),
  )
  const events = inner.filter((members) => members.length > 0).map((members): JsonObject => Object.fromEntries(members))
  if (protocol?.name === 'bedrock-converse')
    return { ...recording, chunks: events.map((event) => JSON.stringify(event)) }
  const frames = events.map((event) => `event: ${text(event.type) ?? ''}\ndata: ${JSON.stringify(event)}`)
  return { ...recording, chunks: frames, framing: 'sse', response_headers: null }
}

/** Every recording with its classification. */
export const indexRecordings = (): readonly IndexedRecording[] =>
  allRecordings().map((recording) => {
    const classification = classify(recording)
    const protocol = classification.is === 'answer' ? classification.protocol : undefined
    return { recording: unwrapInvokeModel(recording, classification, protocol), classification }
  })
