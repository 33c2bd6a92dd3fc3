/** Finish reasons, usage, citations and in-band errors of chat completions, for whole answers and streams. */
import type { ChatEvent, Citation, Finish, FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { tokenCount as count } from './numbers.ts'

/** Finish reasons in lower case: OpenAI's, Together's `eos`, and those of Gemini and Anthropic, which proxies forward. */
const FINISHES: ReadonlyMap<string, FinishKind> = new Map([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['tool_calls', 'tool-calls'],
  ['tool_use', 'tool-calls'],
  ['function_call', 'tool-calls'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content-filter'],
  ['safety', 'content-filter'],
  ['recitation', 'content-filter'],
  ['blocklist', 'content-filter'],
  ['prohibited_content', 'content-filter'],
  ['spii', 'content-filter'],
  ['refusal', 'refusal'],
  ['pause_turn', 'pause'],
  ['error', 'error'],
  ['network_error', 'error'],
  ['malformed_function_call', 'malformed'],
  ['unexpected_tool_call', 'malformed'],
])

/** What determines the finish of an answer: kinds of its content, and the stop sequence that the server matched. */
type AnswerContent = { readonly calls: boolean; readonly refused: boolean; readonly stopSequence?: string | undefined }

/**
 * The finish event of an answer. Calls are detected by content: Gemini and Ollama return `stop` after a call, and so does
 * OpenAI for a forced tool. A reason that reports an error becomes a failure.
 */
export const finishEvent = (raw: string | null, { calls, refused, stopSequence }: AnswerContent): ChatEvent => {
  const kind = raw === null ? 'stop' : (FINISHES.get(raw.toLowerCase()) ?? 'stop')
  if (kind === 'malformed') return failureEvent(fail('malformed', 'The model returned a malformed function call.'))
  if (kind === 'error') return failureEvent(fail('error_in_stream', 'The provider ended the answer with an error.'))
  const known = kindOf(kind, { calls, refused })
  const matched = known === 'stop' && stopSequence !== undefined && { stopSequence }
  return { type: 'finish', finish: { kind: known, raw, ...matched } satisfies Finish }
}

/**
 * The stop sequence that a server says it matched: `stop_reason` of vLLM, `matched_stop` of SGLang (agentgateway/agentgateway#3283).
 * A number is a token; a reason of another format is none.
 */
export const stopSequenceIn = (choice: JsonObject): string | undefined => {
  const reason = text(choice.stop_reason) || undefined
  return reason !== undefined && !FINISHES.has(reason) ? reason : text(choice.matched_stop) || undefined
}

const kindOf = (kind: FinishKind, { calls, refused }: AnswerContent): FinishKind => {
  if (kind !== 'stop' && kind !== 'tool-calls') return kind
  if (calls) return 'tool-calls'
  return refused ? 'refusal' : 'stop'
}

/** Whether the provider's content filter ended this choice. */
export const isFiltered = (choice: JsonObject): boolean =>
  FINISHES.get(finishReasonOf(choice)?.toLowerCase() ?? '') === 'content-filter'

/** A failure as an event. */
export const failureEvent = (failure: Failure): ChatEvent => ({ type: 'failure', failure })

/** The finish reason of a choice or chunk; null if absent or empty. */
export const finishReasonOf = (choice: JsonObject | undefined): string | null => {
  const reason = choice?.finish_reason
  // Some proxies return Gemini's reasons as numbers.
  if (typeof reason === 'number') return String(reason)
  return text(reason) || null
}

/** Encodes usage as OpenAI does. */
export const encodeUsage = ({ input, output, cacheRead, cacheWrite, reasoning }: Usage): JsonObject => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: {
    cached_tokens: cacheRead ?? 0,
    ...(cacheWrite !== undefined && { cache_write_tokens: cacheWrite }),
  },
  completion_tokens_details: { reasoning_tokens: reasoning ?? 0 },
})

/** Decodes one annotation; empty if it has no URL. */
export const decodeCitation = (value: Json): Citation[] => {
  const annotation = object(value)
  const cited = object(annotation?.url_citation)
  const url = text(cited?.url)
  if (!annotation || url === undefined) return []
  const title = text(cited?.title)
  const start = count(cited?.start_index)
  const end = count(cited?.end_index)
  return [
    {
      url,
      ...(title !== undefined && { title }),
      ...(start !== undefined && { start }),
      ...(end !== undefined && { end }),
      raw: annotation,
    },
  ]
}

/** Whether this format can express a citation. Citations of a client's document have no URL. */
export const hasUrl = ({ url }: Citation): boolean => url !== ''

/** Encodes a citation. `before` is the offset of its text block in the message, `length` the block's length. */
export const encodeCitation = ({ url, title, start, end }: Citation, before: number, length: number): JsonObject => ({
  type: 'url_citation',
  url_citation: {
    url,
    title: title ?? url,
    start_index: before + (start ?? 0),
    end_index: before + (end ?? length),
  },
})

const NO_HEADERS = () => undefined

/** The error inside a body or chunk with status 200; undefined if there is none. */
export const failureIn = (body: Json): Failure | undefined => {
  const first = Array.isArray(body) && body.length > 0 ? (body[0] as Json) : body
  if (!isObject(first)) return undefined
  const choices = Array.isArray(first.choices) ? first.choices : undefined
  const isError =
    Boolean(first.error) ||
    first.object === 'error' ||
    // Flat errors: `{message}`, `{detail}`.
    (!choices && first.usage === undefined && (text(first.message) ?? first.detail) !== undefined)
  if (isError) return decodeOpenaiFailure(200, first, NO_HEADERS)
  // OpenRouter also puts the error in the choice.
  const choice = object(choices?.[0])
  return choice?.error ? decodeOpenaiFailure(200, { error: choice.error }, NO_HEADERS) : undefined
}
