/** Limits and ends of models in a provider's model list, under the names that vendors use. */
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { ModelLimits } from '../../core/provider.ts'
import { retirementTime } from '../../core/retirement.ts'

/**
 * Paths of the context window, the most exact first: what is loaded, then what the server allows, then what the model can.
 * vLLM, SGLang: `max_model_len` · LM Studio: `loaded_context_length`, `max_context_length` (also Mistral) · OpenRouter,
 * Together, Fireworks, Cohere, Moonshot: `context_length` · Groq, Vercel: `context_window` · Novita: `context_size` · Gemini:
 * `inputTokenLimit` · Anthropic, GitHub Models: `max_input_tokens` · DeepInfra: `metadata` · llama.cpp: `meta`.
 */
const WINDOW: readonly string[] = [
  'loaded_context_length',
  'max_model_len',
  'meta.n_ctx',
  'top_provider.context_length',
  'context_length',
  'context_window',
  'contextWindow',
  'context_size',
  'max_context_length',
  'max_context_window',
  'max_input_tokens',
  'limits.max_input_tokens',
  'limits.max_context_window_tokens',
  'inputTokenLimit',
  'metadata.context_length',
  'meta.n_ctx_train',
]

/** Paths of the most output tokens. */
const OUTPUT: readonly string[] = [
  'top_provider.max_completion_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'limits.max_output_tokens',
  'outputTokenLimit',
  'metadata.max_tokens',
]

/** Most models of one list. */
const MOST = 5_000

/** The limits by model in `{data:[…]}`, `{models:[…]}` or a bare array; models without limits are left out. */
export const limitsIn = (body: Json): ReadonlyMap<string, ModelLimits> => {
  const found = new Map<string, ModelLimits>()
  for (const entry of entriesOf(body).slice(0, MOST)) {
    const name = nameOf(entry)
    // LM Studio loads a model with a smaller window than it could have.
    const contextWindow = entry.state === 'not-loaded' ? undefined : firstCount(entry, WINDOW)
    const maxOutputTokens = firstCount(entry, OUTPUT)
    if (name === undefined || (contextWindow ?? maxOutputTokens) === undefined) continue
    found.set(name, {
      ...(contextWindow !== undefined && { contextWindow }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    })
  }
  return found
}

/**
 * Members with the day or time of a model's end. OpenAI: `shutdown_date` (API reference, "List models") · OpenRouter:
 * `expiration_date` (reference of its `Model`: the date after which it may be removed).
 */
const ENDS: readonly string[] = ['shutdown_date', 'expiration_date']

/** The ends of models in the same lists, in ms since 1970; models without one are left out. */
export const endsIn = (body: Json): ReadonlyMap<string, number> => {
  const found = new Map<string, number>()
  for (const entry of entriesOf(body).slice(0, MOST)) {
    const name = nameOf(entry)
    const written = ENDS.map((member) => text(entry[member])).find((value) => value !== undefined)
    const at = written === undefined ? null : retirementTime(written)
    if (name !== undefined && at !== null) found.set(name, at)
  }
  return found
}

/** Gemini's names begin with the collection. */
const nameOf = (entry: JsonObject): string | undefined => (text(entry.id) ?? text(entry.name))?.replace(/^models\//, '')

const entriesOf = (body: Json): readonly JsonObject[] => {
  if (isList(body)) return body.filter(isObject)
  const outer = object(body)
  // llama.cpp repeats its list as `models`, without limits.
  return [...list(outer?.data), ...(outer?.data === undefined ? list(outer?.models) : [])].filter(isObject)
}

const firstCount = (entry: JsonObject, paths: readonly string[]): number | undefined => {
  for (const path of paths) {
    const [first = '', second] = path.split('.')
    const value = second === undefined ? entry[first] : object(entry[first])?.[second]
    const count = number(value)
    if (count !== undefined && Number.isSafeInteger(count) && count > 0) return count
  }
  return undefined
}
