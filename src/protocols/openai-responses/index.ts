import type { Protocol } from '../../core/protocol.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure } from '../openai-error.ts'
import { encodeAnswer } from './answer-write.ts'
import { gather } from './gather.ts'
import { restore } from './names.ts'
import { decodeRequest } from './request-decode.ts'
import { adaptRequest, encodeRequest, leftOut } from './request-encode.ts'
import { decodeAnswer, decodeStream, encodeStream, passAnswer, passStream } from './stream.ts'

/** OpenAI's Responses API, and Open Responses, which follows it. */
export const openaiResponses: Protocol = {
  name: 'openai-responses',
  style: 'responses',
  path: '/responses',
  decodeRequest,
  encodeRequest,
  passing: { adaptRequest, leftOut, passStream, gather, passAnswer },
  restore,
  decodeAnswer,
  encodeAnswer,
  decodeStream,
  encodeStream,
  decodeFailure: decodeOpenaiFailure,
  encodeFailure: encodeOpenaiFailure,
}
