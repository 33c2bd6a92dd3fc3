/** Errors in Ollama's shape: `{"error":"a sentence"}`, alone, or as a line of a stream, there with a `status` at times. */
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/** The reader of OpenAI's shape knows a sentence in place of the object, since others answer so as well. */
export const decodeFailure = decodeOpenaiFailure
