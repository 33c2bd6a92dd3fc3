/** A chat completions vendor that accepts every member of the format, as OpenAI does. */
import type { Accepts } from '../../src/core/accepts.ts'

export const ACCEPTS_ALL: { readonly accepts: Accepts } = {
  accepts: { takes: ['store', 'metadata', 'prompt_cache_key', 'service_tier', 'verbosity'] },
}
