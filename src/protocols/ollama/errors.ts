/** Ollama's errors: `{"error":"message"}`, as a body or a line of a stream, sometimes with a `status`. */
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/** OpenAI's decoder also accepts a message in place of the error object. */
export const decodeFailure = decodeOpenaiFailure
