import type { FailureKind } from '../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import type { HeaderLookup } from '../core/protocol.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant, TOO_LONG } from './quirks/failures.ts'
import { idsWhere } from './quirks/model-list.ts'

/** What really happened is in `metadata.raw`: the words of the provider behind it, as text or as JSON. */
const innermost = (error: JsonObject): string | undefined => {
  const raw = object(error.metadata)?.raw
  const said = typeof raw === 'string' ? raw : isObject(raw) ? text(errorIn(raw)?.message) : undefined
  return said !== undefined && said.trim() !== '' ? said : undefined
}

const KIND: { readonly [status: number]: FailureKind } = { 402: 'quota', 408: 'timeout', 429: 'rate_limited' }

/**
 * Codes are statuses as integers, also in a 200 (recording openrouter-chat-test-openrouter-errors-raised-6942a2d2 for
 * the shape). 402 is an empty account (errors.reported openrouter-chat-402-22) unless it says when to come back: then
 * only what is under way has reserved the rest of it. 403 with reasons is moderation, which is never asked elsewhere.
 */
const integerCodes = (status: number, body: Json | undefined, headers: HeaderLookup) => {
  const error = errorIn(body)
  if (!error) return undefined
  const actual = status >= 400 ? status : (number(error.code) ?? status)
  const words = innermost(error)
  const metadata = object(error.metadata)
  if (actual === 402 && headers('retry-after') !== undefined)
    return meant('rate_limited', 'The rest of the credit is reserved by requests under way.', actual, error, words)
  if (actual === 403 && (list(metadata?.reasons).length > 0 || metadata?.flagged_input !== undefined))
    return meant('content_policy', 'OpenRouter refused the request for its content.', actual, error, words)
  // Recording openrouter-chat-chat-real-error-scenarios-openrouter-claude-haik-794b3aea.
  if (actual === 400 && /maximum context length is/i.test(`${text(error.message)} ${words}`))
    return meant('context_length', TOO_LONG, actual, error)
  const kind = KIND[actual]
  if (kind) return meant(kind, 'OpenRouter could not serve this.', actual, error, words)
  return actual >= 500 && words !== undefined
    ? meant(
        actual === 503 || actual === 529 ? 'overloaded' : 'status',
        'A provider behind OpenRouter failed.',
        actual,
        error,
        words,
      )
    : undefined
}

/** Its list says what a model writes. */
const writesText = idsWhere((entry) => {
  const written = list(object(entry.architecture)?.output_modalities)
  return written.length === 0 || written.includes('text')
})

export default {
  name: 'openrouter',
  title: 'OpenRouter',
  order: 80,
  baseUrl: 'https://openrouter.ai/api/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-5.4-mini',
  models: { path: '/models', decode: writesText },
  quirks: { failure: integerCodes },
} satisfies Provider
