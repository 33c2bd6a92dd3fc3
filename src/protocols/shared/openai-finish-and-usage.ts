/** What whole answers and streams say alike: why it ended, what it cost, what went wrong. */
import type { ChatEvent, Citation, Finish, FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { tokenCount as count } from './numbers.ts'

/** Reasons in lower case, foreign ones included: Together says `eos`, proxies pass on Gemini's and Anthropic's. */
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

type AnswerContent = { readonly calls: boolean; readonly refused: boolean }

/**
 * Why it ended. Calls are told by the content: Gemini and Ollama say `stop` after one, and OpenAI does when the tool was
 * named in advance. An end that is a failure of the model or its server is one here.
 */
export const finishEvent = (raw: string | null, { calls, refused }: AnswerContent): ChatEvent => {
  const said = raw === null ? 'stop' : (FINISHES.get(raw.toLowerCase()) ?? 'stop')
  if (said === 'malformed') return failureEvent(fail('malformed', 'The model returned a malformed function call.'))
  if (said === 'error') return failureEvent(fail('error_in_stream', 'The provider ended the answer with an error.'))
  return { type: 'finish', finish: { kind: kindOf(said, { calls, refused }), raw } satisfies Finish }
}

const kindOf = (said: FinishKind, { calls, refused }: AnswerContent): FinishKind => {
  if (said !== 'stop' && said !== 'tool-calls') return said
  if (calls) return 'tool-calls'
  return refused ? 'refusal' : 'stop'
}

/** The provider's content filter ended this choice. */
export const isFiltered = (choice: JsonObject): boolean =>
  FINISHES.get(finishReasonOf(choice)?.toLowerCase() ?? '') === 'content-filter'

export const failureEvent = (failure: Failure): ChatEvent => ({ type: 'failure', failure })

/** The reason a choice or a chunk of one gives. An empty one is none. */
export const finishReasonOf = (choice: JsonObject | undefined): string | null => {
  const reason = choice?.finish_reason
  // Through some proxies Gemini's reasons come as numbers.
  if (typeof reason === 'number') return String(reason)
  return text(reason) || null
}

export const decodeUsage = (value: Json | undefined): Usage | undefined => {
  const raw = object(value)
  if (!raw) return undefined
  const input = count(raw.prompt_tokens)
  const output = count(raw.completion_tokens)
  if (input === undefined && output === undefined) return undefined
  const inputs = object(raw.prompt_tokens_details)
  const outputs = object(raw.completion_tokens_details)
  // DeepSeek counts cache hits at the top level, and so has Mistral (recording mistral-mistral-stream-reasoning-model-1-1-77788e22).
  const cacheRead = count(inputs?.cached_tokens) ?? count(raw.prompt_cache_hit_tokens) ?? count(raw.num_cached_tokens)
  const cacheWrite = count(inputs?.cache_write_tokens)
  const reasoning = count(outputs?.reasoning_tokens)
  return {
    input: input ?? 0,
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(reasoning !== undefined && { reasoning }),
    raw,
  }
}

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

/** A passage of the client's own document has none, and an address is all this format could tell of it. */
export const hasUrl = ({ url }: Citation): boolean => url !== ''

/** `before`: where the block's text begins in the whole message; `length`: how long it is. */
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

/** The failure a body or a chunk tells of although its status was 200; undefined when it tells of none. */
export const failureIn = (body: Json): Failure | undefined => {
  const first = Array.isArray(body) && body.length > 0 ? (body[0] as Json) : body
  if (!isObject(first)) return undefined
  const choices = Array.isArray(first.choices) ? first.choices : undefined
  const told =
    Boolean(first.error) ||
    first.object === 'error' ||
    // Flat ones: `{message}`, `{detail}`.
    (!choices && first.usage === undefined && (text(first.message) ?? first.detail) !== undefined)
  if (told) return decodeOpenaiFailure(200, first, NO_HEADERS)
  // OpenRouter also hangs it on the choice.
  const choice = object(choices?.[0])
  return choice?.error ? decodeOpenaiFailure(200, { error: choice.error }, NO_HEADERS) : undefined
}
