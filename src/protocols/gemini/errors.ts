/** Errors in google.rpc's shape: `{"error":{"code","message","status","details"}}`, sometimes in a list. */
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/**
 * The reader of OpenAI's shape knows this one as well, since Gemini's compatible endpoint answers with it: `status` and
 * the details' `reason` are its most exact words. The wait in `RetryInfo` is read where all waits are.
 */
export const decodeFailure = decodeOpenaiFailure
