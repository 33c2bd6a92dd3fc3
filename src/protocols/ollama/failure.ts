/** Errors in Ollama's shape: `{"error":"a sentence"}`, alone, or as a line of a stream. */
import type { Failure } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import type { HeaderLookup } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../openai-error.ts'

/** What only its sentences tell. */
const TOLD: readonly (readonly [RegExp, Failure['kind']])[] = [
  // "registry.ollama.ai/library/gemma3n:e4b-it-q8_0 does not support thinking" (taketwo/llm-ollama#54), and so of tools.
  [/ does not support [a-z]/, 'unsupported'],
  // "the input length exceeds the context length", where truncation is switched off; the newer engine's words.
  [/exceed(?:s|ed) (?:the |max )?context length/, 'context_length'],
]

export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  const failure = decodeOpenaiFailure(status, body, headers)
  if (failure.kind !== 'invalid_request' && failure.kind !== 'error_in_stream') return failure
  const words = failure.upstream?.message ?? ''
  const told = TOLD.find(([sentence]) => sentence.test(words))
  return told ? { ...failure, kind: told[1] } : failure
}
