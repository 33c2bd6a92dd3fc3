import type { ClientProtocol } from '../../core/protocol.ts'
import { encodeOpenaiFailure } from '../openai-error.ts'
import { encodeAnswer } from './answer.ts'
import { decodeRequest } from './request.ts'
import { encodeStream } from './stream.ts'

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
