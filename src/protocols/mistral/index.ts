import type { UpstreamProtocol } from '../../core/protocol.ts'
import { splitList } from '../choices.ts'
import { decodeAnswer } from '../openai-chat/answer.ts'
import { decodeStream } from '../openai-chat/stream-decode.ts'
import { decodeOpenaiFailure } from '../openai-error.ts'
import { encodeRequest } from './encode-request.ts'
import { restore } from './restore.ts'

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
  looseEvents: true,
  decodeStream,
  choices: { split: splitList('choices') },
  decodeFailure: decodeOpenaiFailure,
}
