import type { UpstreamProtocol } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { decodeAnswer } from '../openai-chat/decode-answer.ts'
import { decodeStream } from '../openai-chat/decode-stream.ts'
import { splitList } from '../shared/choices.ts'
import { restore } from './decode-answer.ts'
import { encodeRequest } from './encode-request.ts'

/**
 * Mistral's chat completions. Its questions have a schema of their own; its answers are OpenAI's with lists for content
 * (thoughts, sources), and its errors of four shapes, flat ones: what reads chat completions reads them too.
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
