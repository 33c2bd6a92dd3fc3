/**
 * Where each recording has its place: one row of one table, or the reason why it has none. Everything that goes over
 * the recordings takes them from here, so none is left out in silence (`places.test.ts`).
 */

import type { EmbeddingsProtocol } from '../../src/core/embeddings.ts'
import type { FailureKind } from '../../src/core/failure.ts'
import { type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { UpstreamProtocol } from '../../src/core/protocol.ts'
import { embeddingsProtocols } from '../../src/protocols/embeddings/index.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { allRecordings, type Recording } from '../support/recordings.ts'

export type Place =
  | { readonly is: 'answer'; readonly protocol: UpstreamProtocol }
  /** `kind`: it came behind a 200, and is this. */
  | { readonly is: 'failure'; readonly protocol: UpstreamProtocol; readonly kind?: FailureKind }
  | { readonly is: 'embeddings'; readonly protocol: EmbeddingsProtocol }
  | { readonly is: 'count' }
  | { readonly is: 'models' }
  | { readonly is: 'excluded'; readonly why: string }

export type Placed = { readonly recording: Recording; readonly place: Place }

// ── What single recordings are ───────────────────────────────────────────────────────────────────────────────────

/** Filed by their source under another format than the one they are in. */
const MISFILED: ReadonlyMap<string, UpstreamProtocol> = new Map([
  ['azure-responses-azure-deepseek-reasoning-', upstreamProtocols['openai-chat']],
  ['ollama-ollama-structured-with-multiple-tools-structured-mode-', upstreamProtocols['openai-chat']],
])

/** Failures although the status was 200, and of which kind. */
const FAILURES: ReadonlyMap<string, FailureKind> = new Map([
  // Azure's content filter, answered within a 200.
  ['azure-chat-test-prompt-content-filtering-with-events-with-n-98ddde0e', 'content_policy'],
  // Groq says in the stream that the model wrote no call.
  ['groq-chat-test-tool-use-failed-error-streaming-with-text-564fca61', 'malformed'],
  // OpenRouter reports its provider's error in a chunk.
  ['openrouter-chat-test-openrouter-stream-error', 'invalid_request'],
  ['openai-responses-openai-error-1-chunks', 'quota'],
  ['openai-responses-stream-rate-limited-1', 'token_rate'],
  ['openai-responses-stream-unknown-error-responses-1', 'error_in_stream'],
])

/** About something else than their source's folder says. */
const ABOUT_SOMETHING_ELSE: ReadonlyMap<string, string> = new Map([
  ['gemini-gemini-use-cache-with-structured-1', 'an answer of cachedContents, no call of ours'],
  ['gemini-gemini-use-cache-with-text-1', 'an answer of cachedContents, no call of ours'],
  ['mistral-mistral-ocr-response-1-', 'an answer of the OCR API, no call of ours'],
])

const startOf = <T>(table: ReadonlyMap<string, T>, id: string): T | undefined =>
  [...table].find(([start]) => id.startsWith(start))?.[1]

/** Every start of an id that stands in a table here. */
export const NAMED: readonly string[] = [...MISFILED, ...FAILURES, ...ABOUT_SOMETHING_ELSE].map(([start]) => start)

// ── By what a recording is ───────────────────────────────────────────────────────────────────────────────────────

const excluded = (why: string): Place => ({ is: 'excluded', why })

const chatting = (recording: Recording, protocol: UpstreamProtocol): Place => {
  const kind = startOf(FAILURES, recording.id)
  if (kind) return { is: 'failure', protocol, kind }
  return { is: (recording.status ?? 200) < 400 ? 'answer' : 'failure', protocol }
}

const isPending = ({ response }: Recording): boolean =>
  ['queued', 'in_progress'].includes(text(object(response)?.status) ?? '')

const responses = (recording: Recording): Place =>
  isPending(recording)
    ? excluded('asked in the background: a ticket, not an answer yet')
    : chatting(recording, upstreamProtocols['openai-responses'])

const gemini = (recording: Recording): Place => {
  const calledWrongly = (said: Json): boolean =>
    list(object(said)?.candidates).some((one) => object(one)?.finishReason === 'UNEXPECTED_TOOL_CALL')
  const protocol = upstreamProtocols.gemini
  return calledWrongly(recording.response)
    ? { is: 'failure', protocol, kind: 'malformed' }
    : chatting(recording, protocol)
}

/** The older version of the API has another address and another shape; its errors are the same. */
const cohere = (recording: Recording): Place => {
  const { request, response, chunks, status } = recording
  const isOlder =
    Object.hasOwn(object(request) ?? {}, 'message') ||
    Object.hasOwn(object(response) ?? {}, 'generation_id') ||
    chunks?.some((chunk) => chunk.includes('"event_type"')) === true
  return isOlder && (status ?? 200) < 400
    ? excluded('the first version of the API (/v1/chat); the second is spoken')
    : chatting(recording, upstreamProtocols.cohere)
}

/** What a model on Bedrock is asked in its own words: Claude's are messages, Nova's those of Converse. Errors are Bedrock's. */
const invoked = (recording: Recording): Place => {
  const { request, status } = recording
  const asked = object(request)
  if ((status ?? 200) >= 400) return { is: 'failure', protocol: upstreamProtocols['bedrock-converse'] }
  if (asked?.anthropic_version !== undefined) return chatting(recording, upstreamProtocols['anthropic-messages'])
  if (asked?.messages !== undefined) return chatting(recording, upstreamProtocols['bedrock-converse'])
  return excluded('a body of its own model (Titan, Llama, Jurassic …) in InvokeModel; Bedrock is spoken to in Converse')
}

const embedded = (name: keyof typeof embeddingsProtocols, member: string, otherwise = '') => {
  return ({ provider, response, status }: Recording): Place => {
    if ((status ?? 200) < 400 && !Object.hasOwn(object(response) ?? {}, member)) return excluded(otherwise)
    if (provider === 'perplexity')
      return excluded('vectors of bytes, no floats: Perplexity is not asked for embeddings')
    return { is: 'embeddings', protocol: embeddingsProtocols[name] }
  }
}

const chat = (name: keyof typeof upstreamProtocols) => (recording: Recording) =>
  chatting(recording, upstreamProtocols[name])

const never = (why: string) => (): Place => excluded(why)

/** Each API of the recordings. One that is not here fails the test. */
const APIS: { readonly [api: string]: (recording: Recording) => Place } = {
  chat: chat('openai-chat'),
  responses,
  'responses-retrieve': responses,
  'responses-compact': never('a compacted conversation: made here, and asked of nobody'),
  'responses-input-tokens': never('a count in the style of responses: asked of nobody'),
  messages: chat('anthropic-messages'),
  'messages-count-tokens': () => ({ is: 'count' }),
  gemini,
  'gemini-count-tokens': never('a count in Gemini’s format: asked of nobody, no client speaks it'),
  'bedrock-converse': chat('bedrock-converse'),
  'bedrock-invoke': invoked,
  mistral: chat('mistral'),
  'mistral-conversations': never('a conversation as Mistral’s agents keep it: no call of ours'),
  cohere,
  ollama: chat('ollama'),
  completions: never(
    'an answer of the older completions: clients are spoken to in them, no upstream is (their requests are asked, below)',
  ),
  embeddings: embedded('openai-embeddings', 'data'),
  'cohere-embed': embedded('cohere-embeddings', 'embeddings'),
  'gemini-embed': embedded(
    'gemini-embeddings',
    'embeddings',
    'embedContent, for one text: batchEmbedContents is asked',
  ),
  'google-vertex-embed': embedded('vertex-embeddings', 'predictions'),
  'ollama-embed': never('/api/embed: Ollama is asked for embeddings at its compatible address'),
  models: () => ({ is: 'models' }),
}

export const placeOf = (recording: Recording): Place => {
  const elsewhere = startOf(ABOUT_SOMETHING_ELSE, recording.id)
  if (elsewhere) return excluded(elsewhere)
  const protocol = startOf(MISFILED, recording.id)
  if (protocol) return chatting(recording, protocol)
  const place = APIS[recording.api]
  if (!place) throw new Error(`no place for ${recording.api} (${recording.id})`)
  return place(recording)
}

// ── As it came ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Messages of InvokeModel hold the model's own: `{"chunk": {…}}`. Claude's are then read as the events they are. */
const unwrapped = (recording: Recording, { is }: Place, protocol: UpstreamProtocol | undefined): Recording => {
  if (recording.api !== 'bedrock-invoke' || is !== 'answer' || !recording.chunks) return recording
  // Guardrails and measures are told beside the event.
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

/** Every recording in its place. */
export const places = (): readonly Placed[] =>
  allRecordings().map((recording) => {
    const place = placeOf(recording)
    const protocol = place.is === 'answer' ? place.protocol : undefined
    return { recording: unwrapped(recording, place, protocol), place }
  })
