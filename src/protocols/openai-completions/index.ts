import type { ClientProtocol } from '../../core/protocol.ts'
import { encodeOpenaiFailure } from '../errors/openai-error.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeStream } from './encode-stream.ts'

/** OpenAI's older completions, of which older clients still ask: answered by chat models, with whatever format those speak. */
export const openaiCompletions: ClientProtocol = {
  name: 'openai-completions',
  style: 'completions',
  path: '/completions',
  decodeRequest,
  encodeAnswer,
  encodeStream,
  encodeFailure: encodeOpenaiFailure,
}
