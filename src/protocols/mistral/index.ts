import type { UpstreamProtocol } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { decodeAnswer } from '../openai-chat/decode-answer.ts'
import { decodeStream } from '../openai-chat/decode-stream.ts'
import { splitList } from '../shared/choices.ts'
import { restore } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'

/**
 * Mistral's chat completions. Requests have a schema of their own. Answers are OpenAI's with content lists (reasoning,
 * sources) and errors are flat, so the decoders of chat completions read both.
 */
export const mistral: UpstreamProtocol = {
  name: 'mistral',
  style: 'mistral',
  path: '/chat/completions',
  encodeRequest,
  restore,
  decodeAnswer,
  lenientEvents: true,
  decodeStream,
  choices: { split: splitList('choices') },
  decodeFailure: decodeOpenaiFailure,
}
