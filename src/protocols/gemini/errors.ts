/** Errors in the form of google.rpc: `{"error":{"code","message","status","details"}}`, sometimes in a list. */
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/**
 * Gemini's OpenAI-compatible endpoint returns the same errors, so the decoder of OpenAI's errors reads them: `status` and
 * the `reason` in the details. `RetryInfo` is read by `policy/retry/retry-after.ts`.
 */
export const decodeFailure = decodeOpenaiFailure
